// Step by step: what the decoder has read, what it predicts, and which source tokens it attends to.

// A row with a bar for a probability.
function shareRow(label, share, isChosen) {
  return element('tr', {className: isChosen ? 'chosen' : ''}, element('td', {dir: 'auto', textContent: label}),
    element('td', {textContent: shown(share, 3)}), element('td', {style: 'text-align:start'}, bar(share, 8)));
}

const titledTable = (title, ...rows) =>
  element('div', {}, element('h3', {textContent: title}), element('table', {}, ...rows));

// The source's pieces, shaded by their weight in the last decoder layer at step t.
function lastLayerWeights(of, t) {
  const {cross} = weightsOf(of), [layers, heads, Q, M] = of.shapes.cross;
  const look = theme(), chips = element('p', {className: 'chips', dir: 'auto'});
  range(M).forEach(m => {
    const weight = h => cross[((layers - 1) * heads + h) * Q * M + t * M + m] / 65535;
    const share = range(heads).reduce((sum, h) => sum + weight(h), 0) / heads;
    const chip = element('span', {textContent: of.texts.source.pieces[m], title: shown(share, 3)});
    chip.style.background = shade(look, share);
    chip.style.color = shade(look, share > 0.5 ? 0 : 1);
    chips.append(chip, ' ');
  });
  const title = `Cross-attention of the last layer${heads > 1 ? `, mean of its ${heads} heads` : ''}`;
  return element('div', {}, element('h3', {textContent: title}), chips);
}

// Why the likeliest token of a smoothed model stays below 1, or nothing.
function smoothingNote() {
  const found = report.card.find(([name]) => name === 'label smoothing');
  return found ? [element('p', {className: 'aside', textContent: `Trained with label smoothing ${found[1]}: the model ` +
    `was taught to leave ${found[1]} to all tokens together even where it is sure, so that the likeliest gets about ` +
    `${shown(1 - found[1], 3)} at most.`})] : [];
}

function showStep() {
  const of = sentence(), last = of.steps.length - 1, t = Math.min(state.t, last), step = of.steps[t];
  $('steps-panel').hidden = !step;
  if (!step) return;
  $('step').max = last;
  $('step').value = t;
  $('step-count').textContent = `${t + 1} of ${last + 1}`;
  const {reads, predicts} = of.texts;
  $('prefix').replaceChildren('Read so far: ', ...reads.pieces.slice(0, t + 1).map(text => `${text} `),
    '→ predicts ', element('mark', {textContent: predicts.pieces[t]}),
    ` (log-probability ${of.log_probs[t].toFixed(3)})`);
  const rest = Math.max(0, 1 - step.top.reduce((sum, [, share]) => sum + share, 0));
  const rowOf = (label, [text, share]) => shareRow(label, share, text === step.written);
  const parts = [titledTable('The next token', ...step.top.map(found => rowOf(found[0], found)),
                             shareRow('all others together', rest, false))];
  parts[0].append(...smoothingNote());
  if (of.shapes.cross) parts.push(lastLayerWeights(of, t));
  if (step.lens) parts.push(titledTable('What each decoder layer would predict',
    ...step.lens.map((found, l) => rowOf(`layer ${l + 1}: ${found[0]}`, found))));
  $('steps').replaceChildren(...parts);
}

// Goes to a step, and to its row where the decoder's rows are shown.
function toStep(t) {
  if (!sentence().steps.length) return;  // a page on training has none
  state.t = clamp(t, sentence().steps.length - 1);
  const q = stepsRow(state.t);
  if (q !== null && q !== state.q) return set({q, m: null, t: state.t});
  showStep();
  showBeam();
  save();
}

let stepTimer = null;  // while it plays

function playSteps() {
  const stop = () => { clearInterval(stepTimer); stepTimer = null; $('play').textContent = 'play'; };
  const isLast = () => state.t >= sentence().steps.length - 1;
  if (stepTimer) return stop();
  $('play').textContent = 'pause';
  toStep(isLast() ? 0 : state.t + 1);
  stepTimer = setInterval(() => isLast() ? stop() : toStep(state.t + 1), 900);
}

addPanel({
  id: 'steps',
  title: ['Step by step'],
  content: [
    element('p', {}, element('button', {type: 'button', id: 'play', textContent: 'play', onclick: playSteps}), ' ',
      element('button', {type: 'button', id: 'step-back', textContent: '‹', 'aria-label': 'The step before',
                         onclick: () => toStep(state.t - 1)}), ' ',
      element('button', {type: 'button', id: 'step-on', textContent: '›', 'aria-label': 'The next step',
                         onclick: () => toStep(state.t + 1)}), ' ',
      element('input', {type: 'range', id: 'step', min: 0, value: 0, 'aria-label': 'Step of decoding',
                        oninput: event => toStep(+event.target.value)}), ' ', element('span', {id: 'step-count'})),
    element('p', {id: 'prefix', dir: 'auto'}),
    element('div', {id: 'steps', className: 'columns'})],
  show: showStep,
  keys: {',': () => toStep(state.t - 1), '.': () => toStep(state.t + 1)},
});
