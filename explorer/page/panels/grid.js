// Every head: small heat maps of all layers and heads of one kind of attention.

// One head's weights between pieces, a pixel each, on a canvas.
function smallMap(l, h, look) {
  const [, heads, Q, M] = shape();
  const canvas = element('canvas', {width: M, height: Q}), pen = canvas.getContext('2d');
  const image = pen.createImageData(M, Q);
  const pieces = weightsOf(sentence())[state.k].subarray((l * heads + h) * Q * M);
  for (let i = 0; i < Q * M; i++) {
    const share = Math.sqrt(pieces[i] / 65535);  // so that faint weights show at this size
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = look.low[c] + (look.high[c] - look.low[c]) * share;
    image.data[4 * i + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

function showGrid() {
  const [layers, heads] = shape(), look = theme();
  $('grid-kind').textContent = `of ${KINDS[state.k]}`;
  const side = number => element('span', {className: 'side', textContent: number + 1});
  const cells = [element('span'), ...range(heads).map(side)];
  for (const l of range(layers)) {
    cells.push(side(l));
    for (const h of range(heads)) {
      const button = element('button', {type: 'button', 'aria-label': `layer ${l + 1}, head ${h + 1}`,
        'data-layer': l, 'data-head': h, className: l === state.l && h === state.h ? 'current' : '',
        onclick: () => set({l, h, on: [h]})}, smallMap(l, h, look));
      button.style.borderColor = colour(h);
      cells.push(button);
    }
  }
  $('grid').style.gridTemplateColumns = `1.4em repeat(${heads}, minmax(56px, 150px))`;
  $('grid').replaceChildren(...cells);
  rove($('grid'), 'grid', state.l * heads + state.h, headMoves);
}

addPanel({
  id: 'grid',
  title: ['Every head ', element('span', {id: 'grid-kind'})],
  content: [
    element('p', {className: 'aside',
                  textContent: 'A row for each layer, a column for each head; choose one to see it large.'}),
    element('div', {id: 'grid'})],
  show: showGrid,
});
