'use strict';
// The page's own script. In this order: the report's numbers, what is shown (the state), pens, views, panels, input.
// Every text of the report goes into the page as textContent or fillText, never as markup.

const report = JSON.parse(document.getElementById('report').textContent);
// Of each kind, its name in a sentence and its classic one.
const KINDS = {encoder: ['encoder', 'Input–Input'], cross: ['cross', 'Input–Output'],
               decoder: ['decoder', 'Output–Output']};
// Paul Tol's bright scheme and two more, told apart by colour-blind readers; beyond eight the numbers tell.
const COLOURS = ['#4477AA', '#EE6677', '#228833', '#CCBB44', '#66CCEE', '#AA3377', '#EE7733', '#8A8F98'];
const ROW = 24;  // pixels of a token in the classic view
const $ = id => document.getElementById(id);
const kindsOf = Object.keys(KINDS).filter(kind => report.sentences[0].shapes[kind]);
const colour = head => COLOURS[head % COLOURS.length];
const range = n => [...Array(n).keys()];
const clamp = (value, most) => Math.max(0, Math.min(most, value));

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== 'list') made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// ------------------------------------------------------------------------------------------ the report's numbers

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).arrayBuffer();
}

// A sentence's numbers, unpacked once.
const open = sentence => sentence.opened ??= unpack(sentence);

// Weights are 16-bit integers, 65535 for 1; vectors 16-bit shares of their layer's scale. A report on training has
// weights of every moment, any other of one.
async function unpack(sentence) {
  sentence.moments = await Promise.all([sentence.weights].flat().map(async packed => {
    const weights = new Uint16Array(await inflate(packed)), maps = {};
    let start = 0;
    for (const kind of ['encoder', 'decoder', 'cross'].filter(kind => sentence.shapes[kind])) {
      const size = sentence.shapes[kind].reduce((a, b) => a * b);
      maps[kind] = weights.subarray(start, start += size);
    }
    return {maps, pooled: new Map()};
  }));
  if (sentence.vectors) {
    const numbers = new Int16Array(await inflate(sentence.vectors.data));
    for (const part of sentence.vectors.parts) part.numbers = numbers.subarray(part.start, part.start + part.size);
  }
}

// The maps between pieces of the moment that is shown.
const mapsOf = sentence => sentence.moments[state.e].maps;

// What rows and columns are called: [{label, reads, first, last (pieces), special}].
function axis(sentence, kind, side, words) {
  const name = {encoder: {query: 'source', key: 'source'}, decoder: {query: 'predicts', key: 'reads'},
                cross: {query: 'predicts', key: 'source'}}[kind][side];
  const text = sentence.texts[name];
  const units = words ? text.words : text.pieces;
  const of = words ? text.word_of_piece : range(units.length);
  return units.map((label, unit) => {
    const first = of.indexOf(unit), last = of.lastIndexOf(unit);
    const unitRead = sentence.texts.reads;
    const reads = name !== 'predicts' ? null
      : words ? unitRead.words[unitRead.word_of_piece[first]] : unitRead.pieces[first];
    return {label, reads, first, last, special: text.special[first]};
  });
}

// One head's map between pieces or words: sum over a word's keys, mean over its queries; masked where none may look.
function head(sentence, kind, layer, number, words, moment = state.e) {
  const {maps, pooled} = sentence.moments[moment], name = [kind, layer, number, words].join();
  if (pooled.has(name)) return pooled.get(name);
  const rows = axis(sentence, kind, 'query', words), columns = axis(sentence, kind, 'key', words);
  const [, heads, Q, M] = sentence.shapes[kind];
  const pieces = maps[kind].subarray((layer * heads + number) * Q * M);
  const values = new Float32Array(rows.length * columns.length), masked = new Uint8Array(values.length);
  rows.forEach((row, i) => columns.forEach((column, j) => {
    let sum = 0;
    for (let q = row.first; q <= row.last; q++)
      for (let m = column.first; m <= column.last; m++) sum += pieces[q * M + m];
    values[i * columns.length + j] = sum / (row.last - row.first + 1) / 65535;
    masked[i * columns.length + j] = kind === 'decoder' && column.first > row.last;
  }));
  const made = {rows, columns, values, masked, at: (i, j) => values[i * columns.length + j]};
  pooled.set(name, made);
  return made;
}

// A head's query, key or value vectors [tokens][width], where the report has them.
function vectors(sentence, kind, role, layer, number) {
  const part = sentence.vectors.parts.find(p => p.kind === kind && p.role === role);
  const [, heads, tokens, width] = part.shape;
  const start = (layer * heads + number) * tokens * width, scale = part.scales[layer] / 32767;
  return range(tokens).map(t => range(width).map(d => part.numbers[start + t * width + d] * scale));
}

// ---------------------------------------------------------------------------------------------- what is shown

const opening = report.opening;
const state = {s: opening.sentence, c: report.compare ?? -1, k: opening.kind, l: opening.layer, h: opening.head,
               on: [opening.head], q: opening.query, m: opening.key, words: true, padded: false, t: 0,
               e: report.training ? report.training.length - 1 : 0, theme: ''};
const sentence = () => report.sentences[state.s];
const shape = () => sentence().shapes[state.k];

function save() {
  if (location.protocol === 'about:') return;  // in a notebook's frame there is no address to keep
  const parts = {...state, on: state.on.join('.'), words: +state.words, padded: +state.padded,
                 q: state.q ?? '', m: state.m ?? ''};
  history.replaceState(null, '', '#' + new URLSearchParams(parts));
}

// Reads the address; what does not fit the report is brought to the nearest that does.
function restore() {
  const found = new URLSearchParams(location.hash.slice(1));
  if (location.hash.length > 1) state.q = state.m = null;  // what the address does not name is not chosen
  const number = (name, most, otherwise) => /^-?\d+$/.test(found.get(name) ?? '') ?
    Math.max(name === 'c' ? -1 : 0, Math.min(most, +found.get(name))) : found.get(name) === '' ? null : otherwise;
  state.s = number('s', report.sentences.length - 1, state.s) ?? 0;
  state.c = number('c', report.sentences.length - 1, state.c) ?? -1;
  if (kindsOf.includes(found.get('k'))) state.k = found.get('k');
  const [layers, heads] = shape();
  state.l = number('l', layers - 1, state.l) ?? 0;
  state.h = number('h', heads - 1, state.h) ?? 0;
  const on = (found.get('on') ?? '').split('.').filter(x => /^\d+$/.test(x)).map(Number).filter(x => x < heads);
  state.on = found.has('on') ? on : [state.h];
  if (found.has('words')) state.words = found.get('words') === '1';
  if (found.has('padded')) state.padded = found.get('padded') === '1';
  state.q = number('q', axis(sentence(), state.k, 'query', state.words).length - 1, state.q);
  state.m = number('m', axis(sentence(), state.k, 'key', state.words).length - 1, state.m);
  state.t = number('t', sentence().steps.length - 1, 0) ?? 0;
  state.e = number('e', (report.training?.length ?? 1) - 1, state.e) ?? 0;
  if (['', 'light', 'dark'].includes(found.get('theme'))) state.theme = found.get('theme');
}

// Changes the state and shows it. Whatever no longer exists after the change is let go.
function set(changes) {
  const before = {...state};
  Object.assign(state, changes);
  const other = state.k !== before.k || state.s !== before.s;
  const [layers, heads] = shape();
  state.l = clamp(state.l, layers - 1);
  state.h = clamp(state.h, heads - 1);
  state.on = state.on.filter(h => h < heads);
  if (state.words !== before.words && !('q' in changes))
    for (const [name, side] of [['q', 'query'], ['m', 'key']])
      if (state[name] !== null) {
        const piece = axis(sentence(), state.k, side, before.words)[state[name]].first;
        state[name] = axis(sentence(), state.k, side, state.words).findIndex(unit => piece <= unit.last);
      }
  if (other && !('q' in changes)) state.q = state.m = null;
  if (state.s !== before.s) state.t = 0;
  return show();
}

// ------------------------------------------------------------------------------------------------------- pens

// What a canvas's context does for us, written down as SVG instead.
class SvgPen {
  constructor(width, height) {
    Object.assign(this, {width, height, parts: [], path: '', globalAlpha: 1, lineWidth: 1, strokeStyle: '#000',
                         fillStyle: '#000', font: '12px sans-serif', textAlign: 'start', turned: null});
  }
  fillRect(x, y, w, h) {
    this.add('rect', {x, y, width: w, height: h, fill: this.fillStyle, 'fill-opacity': this.globalAlpha});
  }
  strokeRect(x, y, w, h) {
    this.add('rect', {x, y, width: w, height: h, fill: 'none', stroke: this.strokeStyle,
                      'stroke-width': this.lineWidth});
  }
  beginPath() { this.path = ''; }
  moveTo(...at) { this.path += `M${at.join(' ')}`; }
  lineTo(...at) { this.path += `L${at.join(' ')}`; }
  bezierCurveTo(...at) { this.path += `C${at.join(' ')}`; }
  stroke() {
    this.add('path', {d: this.path, fill: 'none', stroke: this.strokeStyle, 'stroke-width': this.lineWidth,
                      'stroke-opacity': this.globalAlpha});
  }
  fillText(text, x, y) {
    const anchor = {end: 'end', right: 'end', center: 'middle'}[this.textAlign] ?? 'start';
    this.add('text', {x, y, fill: this.fillStyle, 'text-anchor': anchor, style: `font:${this.font}`,
                      ...(this.turned && {transform: this.turned})}, text);
  }
  add(tag, attributes, text) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes))
      made.setAttribute(name, typeof value === 'number' ? +value.toFixed(3) : value);
    if (text !== undefined) made.textContent = text;
    this.parts.push(made);
  }
  text() {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
    svg.append(...this.parts);
    return new XMLSerializer().serializeToString(svg);
  }
}

function canvasPen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  canvas.style.aspectRatio = `${width} / ${height}`;
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

// Text turned upwards at a place, for the names of columns.
function upwards(pen, text, x, y) {
  if (pen instanceof SvgPen) {
    pen.turned = `rotate(-60 ${x} ${y})`;
    pen.fillText(text, x, y);
    pen.turned = null;
    return;
  }
  pen.save();
  pen.translate(x, y);
  pen.rotate(-Math.PI / 3);
  pen.fillText(text, 0, 0);
  pen.restore();
}

function theme() {
  const style = getComputedStyle(document.documentElement), value = name => style.getPropertyValue(name).trim();
  const numbers = name => value(name).split(',').map(Number);
  return {ground: value('--ground'), ink: value('--ink'), dim: value('--dim'), line: value('--line'),
          accent: value('--accent'), low: numbers('--low'), high: numbers('--high')};
}

const shade = (look, share) => `rgb(${look.low.map((low, i) => Math.round(low + (look.high[i] - low) * share))})`;

function hatch(pen, x, y, size, look, dense) {
  pen.strokeStyle = dense ? look.dim : look.line;
  pen.lineWidth = 1;
  pen.beginPath();
  const gap = dense ? 4 : 6;
  for (let d = gap; d < 2 * size; d += gap) {
    pen.moveTo(x + Math.max(0, d - size), y + Math.min(d, size));
    pen.lineTo(x + Math.min(d, size), y + Math.max(0, d - size));
  }
  pen.stroke();
}

// ------------------------------------------------------------------------------------------------------ views

// Arcs of the open heads: of one query, of one key, or, when nothing is chosen, all.
function drawArcs(pen, maps, width, focus) {
  for (const [n, {number, map}] of maps.entries()) {
    const shift = maps.length > 1 ? (n / (maps.length - 1) - 0.5) * ROW * 0.5 : 0;  // heads beside each other
    pen.strokeStyle = colour(number);
    const rows = focus.query === null ? range(map.rows.length) : [focus.query];
    const columns = focus.key === null ? range(map.columns.length) : [focus.key];
    const least = rows.length > 1 && columns.length > 1 ? 0.08 : 0.01;
    for (const i of rows) for (const j of columns) {
      const weight = map.at(i, j);
      if (weight < least) continue;
      const from = i * ROW + ROW / 2 + shift, to = j * ROW + ROW / 2 + shift;
      pen.globalAlpha = 0.2 + 0.8 * Math.min(1, weight);
      pen.lineWidth = 1 + 4 * weight;
      pen.beginPath();
      pen.moveTo(0, from);
      pen.bezierCurveTo(width * 0.5, from, width * 0.5, to, width, to);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
}

// Stripes behind a token: one for each open head, as strong as its weight.
function stripes(maps, weightOf) {
  const rgba = (number, weight) => colour(number) + Math.round(clamp(weight, 1) * 190).toString(16).padStart(2, '0');
  const width = 100 / maps.length;
  return 'linear-gradient(90deg,' + maps.map(({number, map}, i) =>
    `${rgba(number, weightOf(map))} ${i * width}% ${(i + 1) * width}%`).join() + ')';
}

// Which unit of b stands where a's does: the longest common subsequence of their labels. [index in b or -1].
function matches(a, b) {
  const best = range(a.length + 1).map(() => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--)
    best[i][j] = a[i].label === b[j].label ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const found = a.map(() => -1);
  for (let i = 0, j = 0; i < a.length && j < b.length;)
    if (a[i].label === b[j].label) found[i++] = j++;
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  return found;
}

// The unit of another sentence that goes with unit i of this one: its match, or, where they differ, its counterpart.
function counterpart(a, b, i) {
  if (i === null) return null;
  const found = matches(a, b);
  if (found[i] >= 0) return found[i];
  for (let back = i - 1; back >= 0; back--)
    if (found[back] >= 0) return Math.min(found[back] + (i - back), b.length - 1);
  return Math.min(i, b.length - 1);
}

// A sentence's classic view and heat map. `other` is the sentence beside it, whose hover it follows.
class Pane {
  constructor(sentence, other) {
    Object.assign(this, {sentence, other, hover: null});
    this.root = element('article', {className: 'pane'});
    this.build();
  }

  axis(side, of = this.sentence) { return axis(of, state.k, side, state.words); }

  build() {
    const {sentence} = this, [, classic] = KINDS[state.k];
    this.queries = this.axis('query');
    this.keys = this.axis('key');
    this.maps = state.on.map(number => ({number, map: head(sentence, state.k, state.l, number, state.words)}));
    this.large = head(sentence, state.k, state.l, state.h, state.words);
    const texts = element('p', {className: 'texts'}, element('span', {dir: 'auto', textContent: sentence.source}),
                          element('span', {dir: 'auto', textContent: sentence.target}),
                          element('span', {className: 'aside', textContent: sentence.origin}));
    const list = (side, units) => element('ol', {className: side === 'query' ? 'queries' : 'keys'},
      ...units.map((unit, i) => element('li', {}, this.token(side, unit, i))));
    this.lists = {query: list('query', this.queries), key: list('key', this.keys)};
    this.canvas = element('canvas', {'aria-hidden': 'true'});
    const sides = state.k === 'encoder' ? ['looks', 'is looked at'] : state.k === 'cross' ?
      ['reads → writes', 'source'] : ['reads → writes', 'read before'];
    const view = element('div', {className: 'view'},
      element('div', {className: 'caption'}, `Layer ${state.l + 1}, ${classic}: ${sides.join(' | ')}`,
              element('span', {}, ...exportButtons('arcs', make => this.drawClassic(make)))),
      element('div', {className: 'classic'}, this.lists.query, this.canvas, this.lists.key));
    this.map = element('canvas', {className: 'map', tabIndex: -1, role: 'img',
      'aria-label': `Heat map of layer ${state.l + 1}, head ${state.h + 1}`});
    this.value = element('p', {className: 'value', role: 'status'});
    const large = element('div', {className: 'view'},
      element('div', {className: 'caption'}, `Layer ${state.l + 1}, head ${state.h + 1}: rows look at columns`,
              element('span', {}, ...exportButtons('map', make => this.drawLarge(make)))),
      element('div', {className: 'scrolls'}, this.map), this.value);
    this.map.addEventListener('mousemove', event => { const cell = this.cell(event); this.follow(
      cell && {query: cell[0], key: cell[1], cell: true}); });
    this.map.addEventListener('mouseleave', () => this.follow(null));
    this.map.addEventListener('click', event => {
      const cell = this.cell(event);
      if (cell) this.choose(cell[0], cell[1]);
    });
    this.root.replaceChildren(texts, element('div', {className: 'views'}, view, large));
  }

  token(side, unit, i) {
    const chosen = () => ({query: side === 'query' ? i : null, key: side === 'key' ? i : null});
    const label = element('span', {textContent: unit.label});
    const button = element('button', {type: 'button', dir: 'auto', title: unit.label,
      onmouseenter: () => this.follow(chosen()), onmouseleave: () => this.follow(null),
      onclick: () => side === 'query' ? this.choose(i, null) : this.choose(undefined, i)});
    if (unit.reads !== null) button.append(element('span', {className: 'reads', textContent: `${unit.reads} → `}));
    button.append(label);
    if (unit.special) button.classList.add('special');
    if (this.other && matches(this.axis(side), this.axis(side, this.other))[i] < 0) button.classList.add('differs');
    return button;
  }

  // Chooses a token of this pane, whichever sentence the state speaks of.
  choose(query, key) {
    const lead = panes[0].sentence;
    const told = (side, i) => i == null ? i : counterpart(this.axis(side), axis(lead, state.k, side, state.words), i);
    const [q, m] = [told('query', query), told('key', key)];
    if (query === undefined) return set({m: state.m === m ? null : m, q: state.q});
    set(state.q === q && key === null && state.m === null ? {q: null, m: null} : {q, m});
  }

  // Hovering here, and in the pane beside.
  follow(hover) {
    for (const pane of panes) {
      const there = side => hover && hover[side] !== null && hover[side] !== undefined ?
        (pane === this ? hover[side] : counterpart(this.axis(side), pane.axis(side), hover[side])) : null;
      pane.hover = hover && {query: there('query'), key: there('key'), cell: hover.cell};
      pane.draw();
    }
  }

  // What arcs and tokens show: the hovered token, else the chosen one.
  focus() {
    if (this.hover) return this.hover;
    const lead = panes[0].sentence;
    const here = (side, i) => counterpart(axis(lead, state.k, side, state.words), this.axis(side), i);
    return {query: here('query', state.q), key: state.q === null ? here('key', state.m) : null,
            chosen: here('key', state.m)};
  }

  draw() {
    const focus = this.focus(), arcs = focus.cell ? {query: focus.query, key: null} : focus;
    const height = ROW * Math.max(this.queries.length, this.keys.length);
    const width = this.canvas.clientWidth || 200;
    drawArcs(canvasPen(this.canvas, width, height), this.maps, width, arcs);
    this.canvas.style.height = `${height}px`;
    const paint = (side, weightOf) => [...this.lists[side].querySelectorAll('button')].forEach((button, i) => {
      button.style.background = weightOf && this.maps.length ? stripes(this.maps, map => weightOf(map, i)) : '';
      const marked = side === 'query' ? focus.query : focus.key ?? focus.chosen;
      button.classList.toggle('chosen', marked === i);
    });
    paint('key', arcs.query !== null ? (map, j) => map.at(arcs.query, j) : null);
    paint('query', arcs.query === null && arcs.key !== null ? (map, i) => map.at(i, arcs.key) : null);
    this.drawLarge();
    const key = focus.key ?? focus.chosen ?? null;
    this.value.textContent = focus.query !== null && key !== null ? told(this, focus.query, key) : '';
  }

  // The arcs with their tokens, for a file.
  drawClassic(make) {
    const side = 170, arcs = 220, height = ROW * Math.max(this.queries.length, this.keys.length);
    const pen = make(2 * side + arcs, height), look = theme(), focus = this.focus();
    pen.fillStyle = look.ground;
    pen.fillRect(0, 0, 2 * side + arcs, height);
    const shifted = Object.create(pen, {
      moveTo: {value: (x, y) => pen.moveTo(x + side, y)},
      bezierCurveTo: {value: (...at) => pen.bezierCurveTo(...at.map((v, i) => i % 2 ? v : v + side))},
      ...Object.fromEntries(['beginPath', 'stroke'].map(name => [name, {value: () => pen[name]()}])),
      ...Object.fromEntries(['strokeStyle', 'lineWidth', 'globalAlpha'].map(name =>
        [name, {set: value => { pen[name] = value; }}]))});
    drawArcs(shifted, this.maps, arcs, focus);
    pen.font = '13px sans-serif';
    const write = (units, x, align, bold) => units.forEach((unit, i) => {
      pen.textAlign = align;
      pen.fillStyle = unit.special ? look.dim : look.ink;
      pen.font = `${bold === i ? 'bold ' : ''}13px sans-serif`;
      pen.fillText(unit.reads === null ? unit.label : `${unit.reads} → ${unit.label}`, x, i * ROW + 16);
    });
    write(this.queries, side - 6, 'end', focus.query);
    write(this.keys, side + arcs + 6, 'start', focus.key ?? focus.chosen);
    return pen;
  }

  geometry() {
    const extra = side => state.padded ? this.sentence.padded[side] : 0;
    const [S, T] = [Math.max(0, extra(0) - (this.sentence.texts.source?.pieces.length ?? 0)),
                    Math.max(0, extra(1) - this.sentence.texts.predicts.pieces.length)];
    const more = state.padded ? {encoder: [S, S], cross: [T, S], decoder: [T, T]}[state.k] : [0, 0];
    const [rows, columns] = [this.queries.length + more[0], this.keys.length + more[1]];
    const name = unit => (unit.reads === null ? unit.label : `${unit.reads} → ${unit.label}`);
    const longest = units => Math.max(...units.map(unit => [...name(unit)].length));
    const left = Math.min(150, 10 + 6.7 * longest(this.queries)), top = Math.min(120, 12 + 5.6 * longest(this.keys));
    const room = Math.min(460, (this.map.parentNode?.clientWidth || 600) - left - 34);
    return {rows, columns, size: Math.max(7, clamp(Math.floor(room / Math.max(rows, columns)), 30)), left, top, name};
  }

  // The large heat map; with `make`, on a pen of its own.
  drawLarge(make) {
    const {rows, columns, size, left, top, name} = this.geometry();
    const {large} = this, look = theme(), focus = this.focus();
    const width = left + columns * size + 34, height = top + rows * size + 4;
    const pen = make ? make(width, height) : canvasPen(this.map, width, height);
    if (!make) this.map.style.width = `${width}px`;
    pen.fillStyle = look.ground;
    pen.fillRect(0, 0, width, height);
    const [key, query] = [focus.key ?? focus.chosen ?? null, focus.query];
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
      const [x, y] = [left + j * size, top + i * size];
      if (i >= this.queries.length || j >= this.keys.length) { hatch(pen, x, y, size, look, true); continue; }
      if (large.masked[i * this.keys.length + j]) { hatch(pen, x, y, size, look, false); continue; }
      const weight = large.at(i, j);
      pen.fillStyle = shade(look, weight);
      pen.fillRect(x, y, size - 1, size - 1);
      if (size >= 24 && weight >= 0.01) {
        pen.fillStyle = shade(look, weight > 0.5 ? 0 : 1);
        pen.font = '10px sans-serif';
        pen.textAlign = 'center';
        pen.fillText(weight.toFixed(2).replace(/^0/, ''), x + size / 2, y + size / 2 + 3);
      }
    }
    const every = Math.ceil(11 / size);
    const write = (units, place) => units.forEach((unit, i) => {
      if (i % every) return;
      pen.fillStyle = unit.special ? look.dim : look.ink;
      place(name(unit), i);
    });
    const short = (text, most) => [...text].length > most ? [...text].slice(0, most - 1).join('') + '…' : text;
    pen.textAlign = 'end';
    write(this.queries, (text, i) => {
      pen.font = `${i === query ? 'bold ' : ''}12px sans-serif`;
      pen.fillText(short(text, 22), left - 4, top + i * size + size / 2 + 4);
    });
    pen.textAlign = 'start';
    write(this.keys, (text, j) => {
      pen.font = `${j === key ? 'bold ' : ''}12px sans-serif`;
      upwards(pen, short(text, 20), left + j * size + size / 2 + 2, top - 4);
    });
    if (query !== null && key !== null) {
      pen.strokeStyle = look.ink;
      pen.lineWidth = 2;
      pen.strokeRect(left + key * size, top + query * size, size - 1, size - 1);
    }
    return pen;
  }

  // [row, column] under the pointer, or null.
  cell(event) {
    const {size, left, top} = this.geometry(), box = this.map.getBoundingClientRect();
    const scale = parseFloat(this.map.style.width) / box.width;
    const j = Math.floor(((event.clientX - box.left) * scale - left) / size);
    const i = Math.floor(((event.clientY - box.top) * scale - top) / size);
    return i >= 0 && j >= 0 && i < this.queries.length && j < this.keys.length ? [i, j] : null;
  }
}

function told(pane, i, j) {
  const [row, column] = [pane.queries[i], pane.keys[j]];
  if (pane.large.masked[i * pane.keys.length + j])
    return `“${row.label}” may not look at “${column.label}”: it comes later`;
  const who = row.reads === null ? `“${row.label}”` : `“${row.reads}”, to write “${row.label}”,`;
  return `${who} looks at “${column.label}”: ${pane.large.at(i, j).toFixed(2)}`;
}

const exportButtons = (name, draw) => ['SVG', 'PNG'].map(format => element('button', {type: 'button',
  textContent: format, title: `Keep this picture as ${format}`, onclick: () => keep(format, name, draw)}));

function keep(format, name, draw) {
  const file = `${state.k}-layer${state.l + 1}-head${state.h + 1}-${name}.${format.toLowerCase()}`;
  const hand = blob => {
    const link = element('a', {href: URL.createObjectURL(blob), download: file});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  if (format === 'SVG') {
    const pen = draw((width, height) => new SvgPen(width, height));
    hand(new Blob([pen.text()], {type: 'image/svg+xml'}));
  } else {
    const canvas = element('canvas');
    draw((width, height) => canvasPen(canvas, width, height));
    canvas.toBlob(hand, 'image/png');
  }
}

// ----------------------------------------------------------------------------------------------------- panels

let panes = [];

function showHeadline() {
  const [pane] = panes, where = `${KINDS[state.k][0]} layer ${state.l + 1}, head ${state.h + 1}`;
  let text = report.training ? `${momentName()}: ${where}` : `${where[0].toUpperCase()}${where.slice(1)}`;
  if (state.q !== null) {
    const row = range(pane.keys.length).map(j => pane.large.at(state.q, j));
    const j = state.m ?? row.indexOf(Math.max(...row)), unit = pane.queries[state.q];
    const who = unit.reads === null ? `“${unit.label}” looks` : `to write “${unit.label}”, “${unit.reads}” looks`;
    text += pane.large.masked[state.q * pane.keys.length + j] ? `: ${told(pane, state.q, j)}` :
      `: ${who} ${state.m === null ? 'most ' : ''}at “${pane.keys[j].label}”, ${row[j].toFixed(2)}`;
  } else text += ': choose a token';
  $('headline').textContent = `${text}.`;
}

function showControls() {
  const [layers, heads] = shape();
  const fill = (select, labels, chosen) => {
    select.replaceChildren(...labels.map(([value, text]) => element('option', {value, textContent: text})));
    select.value = chosen;
  };
  const short = text => [...text].length <= 46 ? text :
    `${[...text].slice(0, 22).join('')} … ${[...text].slice(-20).join('')}`;
  const sentences = report.sentences.map((s, i) => [i, `${i + 1}: ${short(s.source || s.target)}` +
    (s.origin === report.sentences[0].origin ? '' : ` (${s.origin})`)]);
  fill($('sentence'), sentences, state.s);
  fill($('compare'), [[-1, 'nothing'], ...sentences.filter(([i]) => i !== state.s)], state.c);
  $('compare-label').hidden = report.sentences.length < 2;
  fill($('layer'), range(layers).map(l => [l, l + 1]), state.l);
  $('kinds').replaceChildren(...kindsOf.map(kind => element('button', {type: 'button', id: `kind-${kind}`,
    textContent: KINDS[kind][1], 'aria-pressed': kind === state.k, onclick: () => set({k: kind})})));
  $('heads').replaceChildren(...range(heads).map(h => {
    const on = state.on.includes(h);
    const button = element('button', {type: 'button', textContent: h + 1, 'aria-pressed': on, 'data-head': h,
                                      className: h === state.h ? 'current' : ''});
    button.style.borderColor = colour(h);
    button.style.background = on ? colour(h) : 'none';
    return button;
  }));
  $('words').setAttribute('aria-pressed', state.words);
  $('pieces').setAttribute('aria-pressed', !state.words);
  $('padded').setAttribute('aria-pressed', state.padded);
  $('padded').hidden = !sentence().padded.some(Boolean);  // nothing is known of padding
}

function showGrid() {
  const [layers, heads, Q, M] = shape(), look = theme();
  $('grid-kind').textContent = `of ${KINDS[state.k][1]}`;
  const cells = [element('span'), ...range(heads).map(h => element('span', {className: 'side', textContent: h + 1}))];
  for (const l of range(layers)) {
    cells.push(element('span', {className: 'side', textContent: l + 1}));
    for (const h of range(heads)) {
      const canvas = element('canvas', {width: M, height: Q}), pen = canvas.getContext('2d');
      const image = pen.createImageData(M, Q);
      const pieces = mapsOf(sentence())[state.k].subarray((l * heads + h) * Q * M);
      for (let i = 0; i < Q * M; i++) {
        const share = Math.sqrt(pieces[i] / 65535);  // so that faint weights show at this size
        for (let c = 0; c < 3; c++) image.data[4 * i + c] = look.low[c] + (look.high[c] - look.low[c]) * share;
        image.data[4 * i + 3] = 255;
      }
      pen.putImageData(image, 0, 0);
      const button = element('button', {type: 'button', 'aria-label': `layer ${l + 1}, head ${h + 1}`,
        'data-layer': l, 'data-head': h, className: l === state.l && h === state.h ? 'current' : '',
        onclick: () => set({l, h, on: [h]})}, canvas);
      button.style.borderColor = colour(h);
      cells.push(button);
    }
  }
  $('grid').style.gridTemplateColumns = `1.4em repeat(${heads}, minmax(56px, 150px))`;
  $('grid').replaceChildren(...cells);
}

function showRanking() {
  const {q, m} = state, [layers, heads] = shape(), [pane] = panes;
  $('ranking-hint').textContent = q === null || m === null ?
    'Choose a token that looks, and then one that is looked at.' :
    `All heads of ${KINDS[state.k][1]} by their weight from “${pane.queries[q].label}” to “${pane.keys[m].label}”:`;
  const found = q === null || m === null ? [] : range(layers).flatMap(l => range(heads).map(h =>
    ({l, h, weight: head(sentence(), state.k, l, h, state.words).at(q, m)}))).sort((a, b) => b.weight - a.weight);
  $('ranking').replaceChildren(...found.map(({l, h, weight}) => {
    const bar = element('span', {className: 'bar'});
    bar.style.width = `${5 * weight}rem`;
    bar.style.background = colour(h);
    return element('li', {}, element('button', {type: 'button', textContent: `layer ${l + 1}, head ${h + 1}`,
      onclick: () => set({l, h, on: [h]})}), ` ${weight.toFixed(3)} `, bar);
  }));
}

// q · k, ÷ √d_k, softmax, weighted values, for every key of the chosen query.
function calculate(of, kind, layer, number, query) {
  const q = vectors(of, kind, 'query', layer, number)[query];
  const keys = vectors(of, kind, 'key', layer, number), values = vectors(of, kind, 'value', layer, number);
  const visible = kind === 'decoder' ? query + 1 : keys.length;
  const dot = keys.slice(0, visible).map(k => k.reduce((sum, x, d) => sum + x * q[d], 0));
  const scaled = dot.map(x => of.vectors.scaled ? x / Math.sqrt(q.length) : x), most = Math.max(...scaled);
  const powers = scaled.map(x => Math.exp(x - most)), total = powers.reduce((a, b) => a + b);
  const weights = powers.map(x => x / total);
  const norm = v => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));
  const parts = weights.map((w, m) => w * norm(values[m]));
  const context = values[0].map((_, d) => weights.reduce((sum, w, m) => sum + w * values[m][d], 0));
  return {q, keys, dot, scaled, weights, parts, context, length: norm(context)};
}

function showCalculation() {
  const of = sentence(), panel = $('calculation-panel');
  panel.hidden = !of.vectors;
  if (panel.hidden || state.q === null) {
    $('calculation-text').textContent = 'Choose a token that looks.';
    $('calculation').replaceChildren();
    return;
  }
  const piece = side => axis(of, state.k, side, false);
  const query = axis(of, state.k, 'query', state.words)[state.q].first;
  const column = state.m === null ? null : axis(of, state.k, 'key', state.words)[state.m];
  const found = calculate(of, state.k, state.l, state.h, query), width = found.q.length;
  const unit = piece('query')[query];
  const who = unit.reads === null ? `“${unit.label}”` : `“${unit.reads}” before “${unit.label}”`;
  $('calculation-text').textContent = `Layer ${state.l + 1}, head ${state.h + 1}, the piece ${who}: its query q has ` +
    `d_k = ${width} numbers, and so has each key k. The softmax of ${of.vectors.scaled ? `q·k / √${width}` : 'q·k'} ` +
    `is the weight α, and the head's output is the sum of the values v times α, of length ${found.length.toFixed(2)}.`;
  const titles = ['key', 'q·k', ...(of.vectors.scaled ? ['q·k / √d_k'] : []), 'α', '', '|α v|'];
  const rows = found.dot.map((dot, m) => {
    const bar = element('span', {className: 'bar'});
    bar.style.width = `${7 * found.weights[m]}rem`;
    const chosen = column && m >= column.first && m <= column.last;
    const cells = [dot.toFixed(2), ...(of.vectors.scaled ? [found.scaled[m].toFixed(2)] : []),
                   found.weights[m].toFixed(3)];
    return element('tr', {className: chosen ? 'chosen' : ''},
      element('td', {dir: 'auto', textContent: piece('key')[m].label}),
      ...cells.map(text => element('td', {textContent: text})),
      element('td', {style: 'text-align:start'}, bar), element('td', {textContent: found.parts[m].toFixed(3)}));
  });
  $('calculation').replaceChildren(element('table', {},
    element('tr', {}, ...titles.map(text => element('th', {textContent: text}))), ...rows));
}

let playing = null;

function showStep() {
  const of = sentence(), last = of.steps.length - 1, t = Math.min(state.t, last), step = of.steps[t];
  $('steps-panel').hidden = !step;
  if (!step) return;
  $('step').max = last;
  $('step').value = t;
  $('step-count').textContent = `${t + 1} of ${last + 1}`;
  const {reads, predicts} = of.texts;
  $('prefix').replaceChildren('Read so far: ', ...reads.pieces.slice(0, t + 1).map(text => `${text} `),
    '→ writes ', element('mark', {textContent: predicts.pieces[t]}),
    ` (log-probability ${of.log_probs[t].toFixed(3)})`);
  const row = (label, share, chosen) => {
    const bar = element('span', {className: 'bar'});
    bar.style.width = `${8 * share}rem`;
    return element('tr', {className: chosen ? 'chosen' : ''}, element('td', {dir: 'auto', textContent: label}),
      element('td', {textContent: share.toFixed(3)}), element('td', {style: 'text-align:start'}, bar));
  };
  const table = (title, ...rows) =>
    element('div', {}, element('h3', {textContent: title}), element('table', {}, ...rows));
  const rest = Math.max(0, 1 - step.top.reduce((sum, [, share]) => sum + share, 0));
  const parts = [table('The next token', ...step.top.map(([text, share]) => row(text, share, text === step.written)),
                       row('all others together', rest, false))];
  const {cross} = mapsOf(of);
  if (cross) {
    const [layers, heads, Q, M] = of.shapes.cross;
    const look = theme(), chips = element('p', {className: 'chips', dir: 'auto'});
    range(M).forEach(m => {
      const weight = h => cross[((layers - 1) * heads + h) * Q * M + t * M + m] / 65535;
      const share = range(heads).reduce((sum, h) => sum + weight(h), 0) / heads;
      const chip = element('span', {textContent: of.texts.source.pieces[m], title: share.toFixed(3)});
      chip.style.background = shade(look, share);
      chip.style.color = shade(look, share > 0.5 ? 0 : 1);
      chips.append(chip, ' ');
    });
    const title = heads > 1 ? `It looks at (last layer, mean of its ${heads} heads)` : 'It looks at';
    parts.push(element('div', {}, element('h3', {textContent: title}), chips));
  }
  if (step.lens) parts.push(table('What each decoder layer would have said', ...step.lens.map(([text, share], l) =>
    row(`layer ${l + 1}: ${text}`, share, text === step.written))));
  $('steps').replaceChildren(...parts);
}

function play() {
  const stop = () => { clearInterval(playing); playing = null; $('play').textContent = 'play'; };
  if (playing) return stop();
  if (state.t >= sentence().steps.length - 1) state.t = -1;
  $('play').textContent = 'pause';
  const next = () => {
    if (state.t >= sentence().steps.length - 1) return stop();
    state.t++;
    showStep();
    save();
  };
  next();
  playing = setInterval(next, 900);
}

// Hypotheses step by step, best first: kept, pruned (dim) and finished (with their score), the result's path bold.
function drawBeam(make) {
  const {nodes, best} = sentence().beam, look = theme(), [wide, high] = [134, 19];
  const rows = new Map();
  const places = nodes.map(([, step]) => {
    rows.set(step, (rows.get(step) ?? -1) + 1);
    return [step, rows.get(step)];
  });
  const pen = make((rows.size + 1) * wide, (Math.max(...rows.values()) + 1) * high + 8);
  pen.fillStyle = look.ground;
  pen.fillRect(0, 0, (rows.size + 1) * wide, (Math.max(...rows.values()) + 1) * high + 8);
  nodes.forEach(([parent, , label, logProb, fate, score], n) => {
    const [step, row] = places[n], [x, y] = [step * wide + 26, row * high + 17], onPath = best.includes(n);
    pen.fillStyle = {kept: look.ink, pruned: look.dim, finished: look.accent}[fate];
    pen.font = `${onPath ? 'bold ' : fate === 'pruned' ? 'italic ' : ''}12px sans-serif`;
    const number = score === null ? logProb.toFixed(2) : `■ ${score.toFixed(2)}`;
    pen.fillText(`${[...label].slice(0, 9).join('')} ${number}`, x, y);
    pen.strokeStyle = onPath ? look.accent : fate === 'pruned' ? look.line : look.dim;
    pen.lineWidth = onPath ? 2.5 : 1;
    pen.beginPath();
    pen.moveTo(parent < 0 ? 2 : places[parent][0] * wide + wide - 4, parent < 0 ? 13 : places[parent][1] * high + 13);
    pen.lineTo(x - 4, y - 4);
    pen.stroke();
  });
  return pen;
}

function showBeam() {
  const {beam} = sentence();
  $('beam-panel').hidden = !beam;
  if (!beam) return;
  const count = fate => beam.nodes.filter(node => node[4] === fate).length;
  let text = 'Each column is a step, each entry a hypothesis with its log-probability, ■ a finished one with its ' +
    `score: ${count('kept')} kept, ${count('finished')} finished, ${count('pruned')} pruned (dim). `;
  if (beam.left) text += `The reference leaves the beam at step ${beam.left.step + 1} with “${beam.left.token}”: its ` +
    `log-probability is ${beam.left.log_prob.toFixed(2)} there, the least kept ${beam.left.least_kept.toFixed(2)}.`;
  else if (beam.compared) text += 'The reference never left the beam.';
  $('beam-text').replaceChildren(text, ' ', ...exportButtons('beam', drawBeam));
  const canvas = $('beam');
  drawBeam((width, height) => { canvas.style.width = `${width}px`; return canvasPen(canvas, width, height); });
}

function showEffects() {
  const of = sentence(), effects = of.effects;
  $('effects-panel').hidden = $('to-effects').hidden = !effects;
  if (!effects) return;
  const found = effects.heads[state.k], look = theme();
  const most = Math.max(...Object.values(effects.heads).flat(2).map(e => Math.abs(e.change)), 1e-9);
  const rows = found.map((layer, l) => element('tr', {}, element('td', {textContent: `layer ${l + 1}`}),
    ...layer.map((effect, h) => {
      const button = element('button', {type: 'button', textContent: effect.change.toFixed(2), 'data-layer': l,
        'data-head': h, title: `layer ${l + 1}, head ${h + 1}`, onclick: () => set({l, h, on: [h]})});
      const share = Math.min(1, Math.abs(effect.change) / most);
      button.style.background = shade(look, share);
      button.style.color = shade(look, share > 0.5 ? 0 : 1);
      if (l === state.l && h === state.h) button.style.outline = `2px solid ${look.ink}`;
      return element('td', {}, button);
    })));
  $('effects').replaceChildren(element('table', {}, element('tr', {}, element('th'),
    ...found[0].map((_, h) => element('th', {textContent: `head ${h + 1}`}))), ...rows));
  const effect = found[state.l][state.h];
  const before = of.target.split(' '), after = effect.text.split(' ');
  const same = matches(after.map(label => ({label})), before.map(label => ({label})));
  const [open, closed] = [effects.log_prob, effects.log_prob + effect.change].map(value => value.toFixed(2));
  $('effect').replaceChildren(`Without layer ${state.l + 1}, head ${state.h + 1} the log-probability of this ` +
    `text goes from ${open} to ${closed}, and the search writes: `,
    ...(effect.text === of.target ? ['the same.'] : after.flatMap((word, i) =>
      [same[i] < 0 ? element('mark', {textContent: word}) : word, ' '])));
}

// -------------------------------------------------------------------------------------------------- while it trained

const momentName = () => {
  const {step} = report.training[state.e];
  return step ? `After ${step.toLocaleString('en')} update${step > 1 ? 's' : ''}` : 'Before training';
};

// The weight that the chart follows: of the chosen token, or where it looks most; null without a choice.
function followed() {
  if (state.q === null) return null;
  const [pane] = panes, row = range(pane.keys.length).map(j => pane.large.at(state.q, j));
  return {q: state.q, m: state.m ?? row.indexOf(Math.max(...row))};
}

function showTraining() {
  $('training-panel').hidden = $('training-keys').hidden = !report.training;
  if (!report.training) return;
  const {told} = report.training[state.e], [pane] = panes, cell = followed();
  Object.assign($('moment'), {max: report.training.length - 1, value: state.e});
  $('moment-text').textContent = [momentName(), told,
    `log-probability of the text ${sentence().log_probs[state.e].toFixed(2)}`].filter(Boolean).join(' · ');
  $('chart-caption').replaceChildren(...(cell ? [
    `How much “${pane.queries[cell.q].label}” looks at “${pane.keys[cell.m].label}”: layer ${state.l + 1}, ` +
    `head ${state.on.map(h => h + 1).join(', ') || '–'}`,
    element('span', {}, ...exportButtons('training', drawChart))] : ['Choose a token, to follow its weight.']));
  drawChart((width, height) => { $('chart').style.width = `${width}px`; return canvasPen($('chart'), width, height); });
}

// Places of the chart: of moments and of weights.
function chartGeometry() {
  const width = clamp($('chart').parentNode.clientWidth || 600, 760), [left, right, top, height] = [34, 14, 8, 120];
  const most = Math.max(1, report.training.at(-1).step);
  return {width, height, left, x: e => left + (width - left - right) * report.training[e].step / most,
          y: weight => top + (height - top - 22) * (1 - weight)};
}

// The weight of the followed link at every moment, a line for each open head, and where the slider stands.
function drawChart(make) {
  const {width, height, left, x, y} = chartGeometry(), look = theme(), cell = followed();
  const pen = make(width, height), moments = range(report.training.length), last = moments.length - 1;
  pen.fillStyle = look.ground;
  pen.fillRect(0, 0, width, height);
  const line = (points, style, wide) => {
    pen.strokeStyle = style;
    pen.lineWidth = wide;
    pen.beginPath();
    points.forEach((at, i) => i ? pen.lineTo(...at) : pen.moveTo(...at));
    pen.stroke();
  };
  pen.font = '11px sans-serif';
  pen.fillStyle = look.dim;
  pen.textAlign = 'end';
  for (const weight of [0, 0.5, 1]) {
    line([[left, y(weight)], [x(last), y(weight)]], look.line, 1);
    pen.fillText(weight.toFixed(1), left - 6, y(weight) + 4);
  }
  if (last) pen.fillText(`${report.training[last].step.toLocaleString('en')} updates`, x(last), height - 4);
  pen.textAlign = 'start';
  pen.fillText('0', left, height - 4);
  const weight = (h, e) => head(sentence(), state.k, state.l, h, state.words, e).at(cell.q, cell.m);
  for (const h of cell ? state.on : []) line(moments.map(e => [x(e), y(weight(h, e))]), colour(h), 2.5);
  line([[x(state.e), y(1)], [x(state.e), y(0)]], look.ink, 1.5);
  return pen;
}

let forming = null;

function playTraining() {
  const stop = () => { clearInterval(forming); forming = null; $('play-training').textContent = 'play'; };
  if (forming) return stop();
  const last = report.training.length - 1;
  $('play-training').textContent = 'pause';
  toMoment(state.e >= last ? 0 : state.e + 1);
  forming = setInterval(() => state.e >= last ? stop() : toMoment(state.e + 1), 500);
}

const toMoment = e => report.training && set({e: clamp(e, report.training.length - 1)});

function showCard() {
  $('card').replaceChildren(...report.card.flatMap(([name, value]) =>
    [element('dt', {textContent: name}), element('dd', {textContent: value})]));
}

// ------------------------------------------------------------------------------------------------------- input

let asked = 0;

async function show() {
  const turn = ++asked;
  delete document.documentElement.dataset.ready;
  document.documentElement.dataset.theme = state.theme;
  if (state.c === state.s) state.c = -1;
  const shown = [sentence(), ...(state.c >= 0 ? [report.sentences[state.c]] : [])];
  await Promise.all(shown.map(open));
  if (turn !== asked) return;  // something else was chosen meanwhile
  panes = shown.map((one, i) => new Pane(one, shown[1 - i]));
  $('panes').className = panes.length > 1 ? 'two' : '';
  $('panes').replaceChildren(...panes.map(pane => pane.root));
  panes.forEach(pane => pane.draw());
  showControls();
  showHeadline();
  showTraining();
  showGrid();
  showRanking();
  showCalculation();
  showStep();
  showBeam();
  showEffects();
  save();
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}

function toggle(h) {
  const on = state.on.includes(h) ? state.on.filter(x => x !== h) : [...state.on, h].sort((a, b) => a - b);
  set({on, h: on.includes(h) ? h : on[0] ?? h});
}

const KEYS = {
  ArrowLeft: () => turn(-1), ArrowRight: () => turn(1), ArrowUp: () => step(-1), ArrowDown: () => step(1),
  '[': () => set({l: state.l - 1}), ']': () => set({l: state.l + 1}), w: () => set({words: !state.words}),
  p: () => set({padded: !state.padded}), a: () => set({on: range(shape()[1])}), Escape: () => set({q: null, m: null}),
  ',': () => walk(-1), '.': () => walk(1), '<': () => toMoment(state.e - 1), '>': () => toMoment(state.e + 1),
  ...Object.fromEntries(kindsOf.map((kind, i) => [i + 1, () => set({k: kind})])),
};

function turn(by) {
  const heads = shape()[1], h = (state.h + by + heads) % heads;
  set({h, on: [h]});
}

function step(by) {
  const count = panes[0].queries.length;
  set({q: state.q === null ? (by > 0 ? 0 : count - 1) : (state.q + by + count) % count, m: null});
}

function walk(by) {
  state.t = clamp(state.t + by, sentence().steps.length - 1);
  showStep();
  save();
}

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || ['SELECT', 'INPUT'].includes(event.target.tagName)) return;
  if (!KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
// Clicks are told from double clicks by their count, since a click draws the squares anew.
$('heads').addEventListener('click', event => {
  const h = event.target.dataset.head;
  if (h !== undefined) event.detail >= 2 ? set({on: [+h], h: +h}) : toggle(+h);
});
$('sentence').addEventListener('change', event => set({s: +event.target.value}));
$('compare').addEventListener('change', event => set({c: +event.target.value}));
$('layer').addEventListener('change', event => set({l: +event.target.value}));
$('words').addEventListener('click', () => set({words: true}));
$('pieces').addEventListener('click', () => set({words: false}));
$('padded').addEventListener('click', () => set({padded: !state.padded}));
$('all-heads').addEventListener('click', () => set({on: range(shape()[1])}));
$('theme').addEventListener('click', () => set({theme: {'': 'dark', dark: 'light', light: ''}[state.theme]}));
$('controls').addEventListener('submit', event => event.preventDefault());
$('step').addEventListener('input', event => { state.t = +event.target.value; showStep(); save(); });
$('play').addEventListener('click', play);
$('moment').addEventListener('input', event => toMoment(+event.target.value));
$('play-training').addEventListener('click', playTraining);
$('chart').addEventListener('click', event => {
  const {x, width} = chartGeometry(), box = $('chart').getBoundingClientRect();
  const at = (event.clientX - box.left) * width / box.width, far = e => Math.abs(x(e) - at);
  toMoment(range(report.training.length).reduce((best, e) => far(e) < far(best) ? e : best));
});
window.addEventListener('hashchange', () => { restore(); show(); });
window.addEventListener('resize', () => panes.forEach(pane => pane.draw()));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);

showCard();
restore();
show();
