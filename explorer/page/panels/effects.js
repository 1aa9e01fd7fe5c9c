// What closing a head does: the change of the text's log-probability, and what the search writes without the head.

// A cell for each head of the kind that is shown, shaded by its change: blue where the head helps, orange where it
// harms.
function effectsTable(effects) {
  const found = effects.heads[state.k], look = theme();
  const most = Math.max(...Object.values(effects.heads).flat(2).map(e => Math.abs(e.change)), 1e-9);
  const cell = (l, h, change) => {
    const button = element('button', {type: 'button', textContent: brief(change), 'data-layer': l, 'data-head': h,
      title: `layer ${l + 1}, head ${h + 1}`, onclick: () => set({l, h, on: [h]})});
    Object.assign(button.style, signed(look, -change / most));
    if (l === state.l && h === state.h) button.style.outline = `2px solid ${look.ink}`;
    return element('td', {}, button);
  };
  return element('table', {},
    element('tr', {}, element('th'), ...found[0].map((_, h) => element('th', {textContent: `head ${h + 1}`}))),
    ...found.map((layer, l) => element('tr', {}, element('td', {textContent: `layer ${l + 1}`}),
      ...layer.map(({change}, h) => cell(l, h, change)))));
}

const MOST_LISTED = 10;  // heads below the table

// What the search writes with all heads open: the text itself, unless that is a reference.
const usuallyWritten = of => of.effects.written ?? of.target;

// What the search writes without a head, the words marked that it would not write otherwise.
function writtenWithout(of, effect) {
  if (effect.text !== usuallyWritten(of)) return markedWords(effect.text, usuallyWritten(of));
  return ['the same' + (of.effects.written === undefined ? '' : ' as with all heads open')];
}

// The heads of all kinds, the one whose closing changes the text's log-probability most first, as many as are listed, with
// what each does to the sentence beside.
function strongestHeads(of, beside) {
  const all = Object.entries(of.effects.heads).flatMap(([k, layers]) => layers.flatMap((heads, l) =>
    heads.map((effect, h) => ({k, l, h, effect, there: beside?.effects?.heads[k][l][h]}))));
  return all.sort((a, b) => Math.abs(b.effect.change) - Math.abs(a.effect.change)).slice(0, MOST_LISTED);
}

const isShown = ({k, l, h}) => k === state.k && l === state.l && h === state.h;
const toHead = ({k, l, h}) => set({k, l, h, on: [h]});

// Those heads as a table.
function effectsList(listed, of, beside) {
  const columns = (of, effect) => [element('td', {textContent: brief(effect.change)}),
                                   element('td', {className: 'wraps', dir: 'auto'}, ...writtenWithout(of, effect))];
  const titles = ['without', 'change', 'the search writes', ...(beside?.effects ? ['change', 'beside it writes'] : [])];
  const title = text => element('th', {textContent: text, className: text.endsWith('writes') ? 'wraps' : ''});
  return element('table', {}, element('tr', {}, ...titles.map(title)),
    ...listed.map(head => element('tr', {className: isShown(head) ? 'chosen' : ''},
      element('td', {}, element('button', {type: 'button', textContent: `${KINDS[head.k]} ${head.l + 1}.${head.h + 1}`,
                                           onclick: () => toHead(head)})),
      ...columns(of, head.effect), ...(head.there ? columns(beside, head.there) : []))));
}

// The table, one tab stop: arrow keys go to the head above or below.
function showStrongest(of, beside) {
  const listed = strongestHeads(of, beside), at = listed.findIndex(isShown);
  const next = by => () => toHead(listed[(at + by + listed.length) % listed.length]);
  $('strongest').replaceChildren(
    element('h3', {textContent: 'The heads whose closing changes this text most, of every kind'}),
    element('div', {className: 'scrolls'}, effectsList(listed, of, beside)));
  rove($('strongest'), 'strongest', Math.max(at, 0), {ArrowUp: next(-1), ArrowDown: next(1)});
}

// One sentence's log-probability with and without the chosen head, and what the search then writes.
function effectInWords(of) {
  const effect = of.effects.heads[state.k][state.l][state.h], {log_prob, written} = of.effects;
  const decimals = Math.abs(effect.change) >= 0.1 ? 2 : 4;
  const [open, closed] = [log_prob, log_prob + effect.change].map(value => rounded(value, decimals));
  return element('p', {dir: 'auto'}, `Without layer ${state.l + 1}, head ${state.h + 1} the log-probability of ` +
    `${quoted(of.target)} goes from ${open} to ${closed}, and the search` +
    (written === undefined ? ' writes: ' : `, which writes ${quoted(written)} with all heads open, then writes: `),
    ...writtenWithout(of, effect), '.');
}

function showEffects() {
  const of = sentence(), beside = panes[1 - state.a]?.sentence, effects = of.effects;
  $('effects-panel').hidden = $('to-effects').hidden = !effects;
  if (!effects) return;
  $('effects').replaceChildren(effectsTable(effects));
  const look = theme(), square = number => swatch(signed(look, number).background);
  $('effects-legend').replaceChildren(square(1), ' the head helps: without it this text is less likely · ',
                                      square(-1), ' it harms: without it, more likely · the stronger the colour, ' +
    `the larger the change; full at ${brief(Math.max(...Object.values(effects.heads).flat(2).map(e => Math.abs(e.change))))}`);
  rove($('effects'), 'effects', state.l * shape()[1] + state.h, headMoves);
  $('effect').replaceChildren(...[of, beside].filter(one => one?.effects).map(effectInWords));
  showStrongest(of, beside);
}

addPanel({
  id: 'effects',
  title: ['What closing a head does'],
  content: [
    element('p', {className: 'aside', textContent: 'The head\'s output is multiplied by 0; nothing else changes. ' +
      'Cells: the change of this text\'s log-probability under teacher forcing.'}),
    element('div', {id: 'effects', className: 'scrolls'}),
    element('p', {id: 'effects-legend', className: 'legend'}),
    element('div', {id: 'effect'}),
    element('div', {id: 'strongest'})],
  show: showEffects,
});
