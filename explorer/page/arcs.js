// The classic view: queries left, keys right, an arc for each weight, a colour for each head.

const ROW = 24;  // pixels of a token of one line
const APART = 0.2;  // weights of two sentences that are as far apart, or farther, are marked as different

// Arcs of the heads that are on: of one query, of one key, or, when nothing is chosen, all. `places`: of the queries
// and of the keys, pixels from the top.
function drawArcs(pen, maps, width, focus, places) {
  const {ink} = theme();
  for (const [n, {head, map, differs}] of maps.entries()) {
    const shift = maps.length > 1 ? (n / (maps.length - 1) - 0.5) * ROW * 0.5 : 0;  // heads beside each other
    const rows = focus.query === null ? range(map.rows.length) : [focus.query];
    const columns = focus.key === null ? range(map.columns.length) : [focus.key];
    const least = rows.length > 1 && columns.length > 1 ? 0.08 : 0.01;
    for (const i of rows) for (const j of columns) {
      const weight = map.at(i, j);
      if (weight < least) continue;
      const from = places.query[i] + shift, to = places.key[j] + shift;
      const draw = (style, alpha, lineWidth) => {
        Object.assign(pen, {strokeStyle: style, globalAlpha: alpha, lineWidth});
        pen.beginPath();
        pen.moveTo(0, from);
        pen.bezierCurveTo(width * 0.5, from, width * 0.5, to, width, to);
        pen.stroke();
      };
      if (differs?.(i, j)) draw(ink, 0.25, 8 + 4 * weight);
      draw(colour(head), 0.2 + 0.8 * Math.min(1, weight), 1 + 4 * weight);
    }
  }
  pen.globalAlpha = 1;
}

// A background of stripes behind a token: one for each head that is on, as strong as its weight.
function stripes(maps, weightOf) {
  const rgba = (head, weight) => colour(head) + Math.round(clamp(weight, 1) * 190).toString(16).padStart(2, '0');
  const width = 100 / maps.length;
  return 'linear-gradient(90deg,' + maps.map(({head, map}, i) =>
    `${rgba(head, weightOf(map))} ${i * width}% ${(i + 1) * width}%`).join() + ')';
}

// The classic view of a pane, see pane.js.
class ArcView {
  constructor(pane) {
    this.pane = pane;
    const mapOf = (sentence, head) => attentionMap(sentence, state.k, state.l, head, state.words);
    this.beside = pane.other && Object.fromEntries([['query', pane.queries], ['key', pane.keys]].map(([side, units]) => {
      const theirs = pane.axis(side, pane.other), found = matches(units, theirs);  // once: it takes the product of lengths
      return [side, {found, there: counterparts(units, theirs, found)}];
    }));
    this.maps = state.on.map(head => {
      const map = mapOf(pane.sentence, head);
      return {head, map, differs: pane.other && this.comparing(map, mapOf(pane.other, head))};
    });
    const list = (side, units) => element('ol', {className: side === 'query' ? 'queries' : 'keys'},
      ...units.map((unit, i) => element('li', {}, this.token(side, unit, i))));
    this.lists = {query: list('query', pane.queries), key: list('key', pane.keys)};
    this.canvas = element('canvas', {'aria-hidden': 'true'});
    const sides = {encoder: ['queries', 'keys'], cross: ['read → predicted', 'source'],
                   decoder: ['read → predicted', 'read so far']}[state.k];
    this.root = element('div', {className: 'view'},
      element('div', {className: 'caption'}, sides.join(' | '),
              element('span', {}, ...exportButtons('arcs', make => this.picture(make)))),
      element('div', {className: 'classic'}, this.lists.query, this.canvas, this.lists.key),
      this.legend());
    rove(this.lists.query, `queries ${pane.place}`, pane.here('query', state.q) ?? 0);
    rove(this.lists.key, `keys ${pane.place}`, pane.here('key', state.m) ?? 0,
         {ArrowUp: () => nextKey(-1), ArrowDown: () => nextKey(1)});
  }

  // What arcs and their colours mean, in a line.
  legend() {
    return element('p', {className: 'legend'}, 'An arc: a weight, the larger the thicker; ',
      ...this.maps.flatMap(({head}) => [swatch(colour(head)), ` head ${head + 1} `]),
      this.pane.other ? `· shaded: ${APART} or more apart · ` : '',
      ...(this.pane.other ? [element('span', {className: 'differs', textContent: 'word'}),
                             ': not in the sentence beside'] : []));
  }

  // Returns whether the weight at a place of a map is far from that of the other sentence at its counterpart.
  comparing(map, other) {
    const {query: {there: rows}, key: {there: columns}} = this.beside;
    return (i, j) => Math.abs(map.at(i, j) - other.at(rows[i], columns[j])) >= APART;
  }

  // A token as a button: hovered it shows its arcs, clicked it is chosen.
  token(side, unit, i) {
    const {pane} = this, hover = () => ({query: side === 'query' ? i : null, key: side === 'key' ? i : null});
    // What is read and what is predicted stand from left to right, each in its own direction.
    const button = element('button', {type: 'button', dir: unit.reads === null ? 'auto' : 'ltr', title: unit.label,
      onmouseenter: () => pane.follow(hover()), onmouseleave: () => pane.follow(null),
      onclick: () => side === 'query' ? pane.choose(i, null) : pane.choose(undefined, i)});
    const part = text => element('bdi', {textContent: text}), name = element('span', {className: 'name'}, part(unit.label));
    if (unit.reads !== null) name.prepend(element('span', {className: 'reads'}, part(unit.reads), ' → '));
    button.append(name);
    if (unit.special) button.classList.add('special');
    if (this.beside?.[side].found[i] < 0) button.classList.add('differs');
    return button;
  }

  draw(focus) {
    const arcs = focus.cell ? {query: focus.query, key: null} : focus;
    const {places, height, width} = this.measured();
    drawArcs(canvasPen(this.canvas, width, height), this.maps, width, arcs, places);
    this.canvas.style.height = `${height}px`;
    const paint = (side, weightOf) => {
      const chosen = this.pane.here(side, side === 'query' ? state.q : state.m), pointed = this.pane.hover?.[side];
      [...this.lists[side].querySelectorAll('button')].forEach((button, i) => {
        button.style.background = weightOf && this.maps.length ? stripes(this.maps, map => weightOf(map, i)) : '';
        button.classList.toggle('chosen', chosen === i);
        button.classList.toggle('pointed', pointed === i);
      });
    };
    paint('key', arcs.query !== null ? (map, j) => map.at(arcs.query, j) : null);
    paint('query', arcs.query === null && arcs.key !== null ? (map, i) => map.at(i, arcs.key) : null);
  }

  // Where the tokens are, which are higher where a long word wraps; measured anew when the width has changed.
  measured() {
    const width = this.canvas.clientWidth || 200;
    if (this.sizes?.width === width) return this.sizes;
    const places = {}, lists = Object.entries(this.lists);
    for (const [side, list] of lists)
      places[side] = [...list.children].map(item => item.offsetTop - list.offsetTop + item.offsetHeight / 2);
    return this.sizes = {width, places, height: Math.max(...lists.map(([, list]) => list.scrollHeight))};
  }

  // The arcs and their tokens in one drawing, for a file.
  picture(make) {
    const {queries, keys} = this.pane, focus = this.pane.focus();
    const side = 170, arcs = 220, height = ROW * Math.max(queries.length, keys.length);
    const pen = make(2 * side + arcs, height), look = theme();
    pen.fillStyle = look.ground;
    pen.fillRect(0, 0, 2 * side + arcs, height);
    const shifted = Object.create(pen, {
      moveTo: {value: (x, y) => pen.moveTo(x + side, y)},
      bezierCurveTo: {value: (...at) => pen.bezierCurveTo(...at.map((v, i) => i % 2 ? v : v + side))},
      ...Object.fromEntries(['beginPath', 'stroke'].map(name => [name, {value: () => pen[name]()}])),
      ...Object.fromEntries(['strokeStyle', 'lineWidth', 'globalAlpha'].map(name =>
        [name, {set: value => { pen[name] = value; }}]))});
    const places = units => units.map((_, i) => i * ROW + ROW / 2);
    drawArcs(shifted, this.maps, arcs, focus, {query: places(queries), key: places(keys)});
    const write = (units, x, align, bold) => units.forEach((unit, i) => {
      pen.textAlign = align;
      pen.fillStyle = unit.special ? look.dim : look.ink;
      pen.font = `${bold === i ? 'bold ' : ''}13px sans-serif`;
      pen.fillText(drawnName(unit, 22), x, i * ROW + 16);
    });
    write(queries, side - 6, 'end', focus.query);
    write(keys, side + arcs + 6, 'start', focus.key ?? focus.chosen);
    return pen;
  }
}
