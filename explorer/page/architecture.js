// A small picture of the model that is also the way through it: a place for each kind of attention, its layers as a
// stack, the first at the bottom as in Figure 1 of the paper, more than six in stacks beside each other; and the encoder's
// output on its way into each layer of cross-attention.

const layersOf = kind => report.sentences[0].shapes[kind]?.[0] ?? 0;
// Layers above each other in a stack: none is so low that it cannot be read or hit.
const rowsOfStack = kind => layersOf(kind) <= 6 ? layersOf(kind) : Math.max(5, Math.ceil(layersOf(kind) / 8));
const mostRows = Math.max(...kindsOfModel.map(rowsOfStack));
const LAYER = Math.max(...kindsOfModel.map(layersOf)) > 6 ? 12
  : clamp(Math.floor(60 / mostRows), 15);  // pixels of a layer: six are no higher than four

// One kind of attention: its name, and a button for each layer.
function attentionPlace(kind) {
  const rows = rowsOfStack(kind);
  const stack = element('span', {className: 'stack', role: 'group', 'aria-label': `Layers of ${KINDS[kind]}`},
    ...range(layersOf(kind)).map(l => element('button', {type: 'button', textContent: l + 1, 'data-layer': l,
      'aria-label': `${KINDS[kind]}, layer ${l + 1}`, onclick: () => set({k: kind, l}),
      style: `grid-area: ${rows - l % rows} / ${Math.floor(l / rows) + 1}`})));
  return element('div', {className: 'place', 'data-kind': kind}, stack,
    element('button', {type: 'button', id: `kind-${kind}`, textContent: KINDS[kind], onclick: () => set({k: kind})}));
}

// The way from the encoder's last layer into every layer of cross-attention.
function memoryPath() {
  const [from, to] = ['encoder', 'cross'].map(rowsOfStack), width = 26, height = mostRows * LAYER;
  const y = (layer, count) => height - (count - layer - 0.5) * LAYER;  // of a layer counted from the top of its stack
  const heights = range(to).map(l => y(l, to)), start = y(0, from), rail = 10;
  const pen = new SvgPen(width, height);
  pen.strokeStyle = 'currentColor';
  pen.beginPath();
  pen.moveTo(0, start);
  pen.lineTo(rail, start);
  pen.moveTo(rail, Math.min(start, ...heights));
  pen.lineTo(rail, Math.max(start, ...heights));
  for (const at of heights) {
    pen.moveTo(rail, at);
    pen.lineTo(width - 2, at);
    pen.moveTo(width - 6, at - 3);
    pen.lineTo(width - 2, at);
    pen.lineTo(width - 6, at + 3);
  }
  pen.stroke();
  const drawn = pen.drawing();
  drawn.setAttribute('width', width);
  drawn.setAttribute('height', height);
  drawn.setAttribute('aria-hidden', 'true');
  return drawn;
}

function showArchitecture() {
  for (const place of $('architecture').querySelectorAll('.place')) {
    const {kind} = place.dataset, isShown = kind === state.k, stack = place.querySelector('.stack');
    $(`kind-${kind}`).setAttribute('aria-pressed', isShown);
    rove(stack, 'layers', isShown ? state.l : null,
         {ArrowUp: () => set({l: state.l + 1}), ArrowDown: () => set({l: state.l - 1})});
    [...stack.children].forEach((button, l) => button.setAttribute('aria-pressed', isShown && l === state.l));
  }
}

$('architecture').style.setProperty('--layer', `${LAYER}px`);
$('architecture').append(...kindsOfModel.flatMap(kind =>
  [...(kind === 'cross' && layersOf('encoder') ? [memoryPath()] : []), attentionPlace(kind)]));
