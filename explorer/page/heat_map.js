// The heat map of one head: rows attend to columns, a square for each weight.

class HeatMap {
  constructor(pane) {
    this.pane = pane;
    this.map = attentionMap(pane.sentence, state.k, state.l, state.h, state.words);
    this.canvas = element('canvas', {className: 'map', tabIndex: -1, role: 'img',
      'aria-label': `Heat map of layer ${state.l + 1}, head ${state.h + 1}`});
    this.value = element('p', {className: 'value', role: 'status'});
    this.root = element('div', {className: 'view'},
      element('div', {className: 'caption'}, `Head ${state.h + 1}: rows attend to columns`,
              element('span', {}, ...exportButtons('map', make => this.draw(pane.focus(), make)))),
      element('div', {className: 'scrolls'}, this.canvas), this.value,
      element('p', {className: 'legend'}, 'A square: a weight, 0 ', element('span', {className: 'scale'}), ' 1',
              state.k === 'decoder' ? '; hatched: tokens that come later. In training the ' +
                'decoder predicts all tokens at once, and none may see the answer that it is to give' : ''));
    this.canvas.addEventListener('mousemove', event => {
      const cell = this.cellUnder(event);
      pane.follow(cell && {query: cell[0], key: cell[1], cell: true});
    });
    this.canvas.addEventListener('mouseleave', () => pane.follow(null));
    this.canvas.addEventListener('click', event => {
      const cell = this.cellUnder(event);
      if (cell) pane.choose(cell[0], cell[1]);
    });
  }

  isMasked(i, j) { return this.map.masked[i * this.map.columns.length + j]; }

  // Numbers of rows and columns, padding included where it is shown, and pixels: a square's side, the names' room.
  geometry() {
    const {sentence, queries, keys} = this.pane;
    const padding = (side, text) => Math.max(0, sentence.padded[side] - (text?.pieces.length ?? 0));
    const [S, T] = state.padded ? [padding(0, sentence.texts.source), padding(1, sentence.texts.predicts)] : [0, 0];
    const more = {encoder: [S, S], cross: [T, S], decoder: [T, T]}[state.k];
    const [rows, columns] = [queries.length + more[0], keys.length + more[1]];
    const longest = units => Math.max(...units.map(unit => [...fullName(unit)].length));
    const left = Math.min(150, 10 + 6.7 * longest(queries)), top = Math.min(120, 12 + 5.6 * longest(keys));
    const room = Math.min(460, (this.canvas.parentNode?.clientWidth || 600) - left - 34);
    return {rows, columns, size: Math.max(7, clamp(Math.floor(room / Math.max(rows, columns)), 30)), left, top};
  }

  // Draws on the page or, with `make`, on a pen of its own.
  draw(focus, make) {
    const {rows, columns, size, left, top} = this.geometry(), look = theme();
    const width = left + columns * size + 34, height = top + rows * size + 4;
    const pen = make ? make(width, height) : canvasPen(this.canvas, width, height);
    if (!make) this.canvas.style.width = `${width}px`;
    pen.fillStyle = look.ground;
    pen.fillRect(0, 0, width, height);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++)
      this.drawSquare(pen, look, i, j, left + j * size, top + i * size, size);
    const [query, key] = [focus.query, focus.key ?? focus.chosen ?? null];
    this.drawNames(pen, look, {left, top, size, query, key});
    if (query !== null && key !== null) {
      pen.strokeStyle = look.ink;
      pen.lineWidth = 2;
      pen.strokeRect(left + key * size, top + query * size, size - 1, size - 1);
    }
    return pen;
  }

  drawSquare(pen, look, i, j, x, y, size) {
    const isPadding = i >= this.pane.queries.length || j >= this.pane.keys.length;
    if (isPadding || this.isMasked(i, j)) return hatch(pen, x, y, size, look, isPadding);
    const weight = this.map.at(i, j);
    pen.fillStyle = shade(look, weight);
    pen.fillRect(x, y, size - 1, size - 1);
    if (size >= 24 && weight >= 0.01) {
      pen.fillStyle = shade(look, weight > 0.5 ? 0 : 1);
      pen.font = '10px sans-serif';
      pen.textAlign = 'center';
      pen.fillText(weight.toFixed(2).replace(/^0/, ''), x + size / 2, y + size / 2 + 3);
    }
  }

  // Names of rows and columns, the chosen ones bold; of small squares only every second, third, … has room for one.
  drawNames(pen, look, {left, top, size, query, key}) {
    const every = Math.ceil(11 / size);
    const write = (units, chosen, place) => units.forEach((unit, i) => {
      if (i % every) return;
      pen.fillStyle = unit.special ? look.dim : look.ink;
      pen.font = `${i === chosen ? 'bold ' : ''}12px sans-serif`;
      place(unit, i);
    });
    pen.textAlign = 'end';
    write(this.pane.queries, query, (unit, i) =>
      pen.fillText(drawnName(unit, 22), left - 4, top + i * size + size / 2 + 4));
    pen.textAlign = 'start';
    write(this.pane.keys, key, (unit, j) =>
      upwards(pen, drawnName(unit, 20), left + j * size + size / 2 + 2, top - 4));
  }

  // [row, column] under the pointer, or null.
  cellUnder(event) {
    const {size, left, top} = this.geometry(), box = this.canvas.getBoundingClientRect();
    const scale = parseFloat(this.canvas.style.width) / box.width;
    const j = Math.floor(((event.clientX - box.left) * scale - left) / size);
    const i = Math.floor(((event.clientY - box.top) * scale - top) / size);
    return i >= 0 && j >= 0 && i < this.pane.queries.length && j < this.pane.keys.length ? [i, j] : null;
  }
}
