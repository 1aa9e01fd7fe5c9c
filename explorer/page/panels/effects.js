// What closing a head does: the change of the text's log-probability, and what the search writes without the head.

// A cell for each head of the kind that is shown, shaded by its change: blue where the head helps, orange where it
// harms.
function effectsTable(effects) {
  const found = effects.heads[state.k], look = theme();
  const most = Math.max(...Object.values(effects.heads).flat(2).map(e => Math.abs(e.change)), 1e-9);
  const cell = (l, h, change) => {
    const button = element('button', {type: 'button', textContent: rounded(change, 2), 'data-layer': l, 'data-head': h,
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

function showEffects() {
  const of = sentence(), effects = of.effects;
  $('effects-panel').hidden = $('to-effects').hidden = !effects;
  if (!effects) return;
  $('effects').replaceChildren(effectsTable(effects));
  const look = theme(), square = number => swatch(signed(look, number).background);
  $('effects-legend').replaceChildren(square(1), ' the head helps: without it this text is less likely · ',
                                      square(-1), ' it harms: without it, more likely');
  rove($('effects'), 'effects', state.l * shape()[1] + state.h, headMoves);
  const effect = effects.heads[state.k][state.l][state.h];
  const [open, closed] = [effects.log_prob, effects.log_prob + effect.change].map(value => rounded(value, 2));
  $('effect').replaceChildren(`Without layer ${state.l + 1}, head ${state.h + 1} the log-probability of this ` +
    `text goes from ${open} to ${closed}, and the search writes: `,
    ...(effect.text === of.target ? ['the same.'] : markedWords(effect.text, of.target)));
}

addPanel({
  id: 'effects',
  title: ['What closing a head does'],
  content: [
    element('p', {className: 'aside', textContent: 'The head\'s output is multiplied by 0; nothing else changes. ' +
      'Cells: the change of this text\'s log-probability under teacher forcing.'}),
    element('div', {id: 'effects', className: 'scrolls'}),
    element('p', {id: 'effects-legend', className: 'legend'}),
    element('p', {id: 'effect', dir: 'auto'})],
  show: showEffects,
});
