// One sentence with its two views, arcs and heat map, which follow the pointer together.

// A query of the decoder is named by what it has read last and what it predicts.
const fullName = unit => unit.reads === null ? unit.label : `${unit.reads} → ${unit.label}`;

// The same for a canvas, at most so many characters. Both parts are isolated, so that each is written in its own direction
// and what is read stands left of what is predicted in every script.
function drawnName(unit, most = Infinity) {
  const text = [...fullName(unit)], cut = text.length > most ? [...text.slice(0, most - 1), '…'] : text;
  if (unit.reads === null) return cut.join('');
  const read = [...unit.reads].length, arrow = read + 3, part = (from, to) => cut.slice(from, to).join('');
  return isolated(part(0, read)) + part(read, arrow) + isolated(part(arrow));
}

class Pane {
  // `other`: the sentence beside it, if any. `place`: of this pane among them.
  constructor(sentence, other, place) {
    Object.assign(this, {sentence, other, place, hover: null});
    this.queries = this.axis('query');
    this.keys = this.axis('key');
    this.arcs = new ArcView(this);
    this.heatMap = new HeatMap(this);
    const text = name => element('span', {dir: 'auto'}, ...(other ? markedWords(sentence[name], other[name])
      : [sentence[name]]));
    const isActive = place === state.a;
    this.root = element('article', {className: other && isActive ? 'pane active' : 'pane', onclick: () => this.activate()},
      element('p', {className: 'texts'}, text('source'), text('target'),
              element('span', {className: 'aside', textContent: sentence.origin +
                (other && isActive ? ' · the panels below are about this one' : '')})),
      element('div', {className: 'views'}, this.arcs.root, this.heatMap.root));
  }

  axis(side, of = this.sentence) { return axis(of, state.k, side, state.words); }

  // Chooses tokens of this pane, which the panels then are about. A click on a token that is chosen lets it go; a query
  // of undefined stays as it is.
  choose(query, key) {
    const [q, m] = [this.here('query', state.q), this.here('key', state.m)], a = this.place;
    if (query === undefined) return set({a, q, m: m === key && a === state.a ? null : key});
    set(q === query && key === null && a === state.a ? {a, q: null, m: null} : {a, q: query, m: key});
  }

  // A click beside the tokens chooses the pane alone.
  activate() {
    if (this.place !== state.a) set({a: this.place});
  }

  // Shows what the pointer is on ({query, key, cell: whether in the heat map}, or null), here and in the pane beside.
  follow(hover) {
    for (const pane of panes) {
      const there = side => hover && hover[side] !== null && hover[side] !== undefined ?
        (pane === this ? hover[side] : counterpart(this.axis(side), pane.axis(side), hover[side])) : null;
      pane.hover = hover && {query: there('query'), key: there('key'), cell: hover.cell};
      pane.draw();
    }
  }

  // The tokens whose weights are shown: under the pointer, else chosen. `chosen`: the key beside a chosen query.
  focus() {
    if (this.hover) return this.hover;
    return {query: this.here('query', state.q), key: state.q === null ? this.here('key', state.m) : null,
            chosen: this.here('key', state.m)};
  }

  // The place in this pane of a token that is chosen in the active one.
  here(side, i) { return counterpart(this.axis(side, sentence()), this.axis(side), i); }

  draw() {
    const focus = this.focus(), key = focus.key ?? focus.chosen ?? null;
    this.arcs.draw(focus);
    this.heatMap.draw(focus);
    this.heatMap.value.textContent = focus.query !== null && key !== null ? this.describe(focus.query, key) : '';
  }

  // One weight of the heat map in words.
  describe(i, j) {
    const [row, column] = [this.queries[i], this.keys[j]];
    if (this.heatMap.isMasked(i, j)) return `${quoted(row.label)} may not attend to ${quoted(column.label)}: it comes later`;
    const who = row.reads === null ? quoted(row.label) : `${quoted(row.reads)}, to predict ${quoted(row.label)},`;
    return `${who} attends to ${quoted(column.label)}: ${shown(this.heatMap.map.at(i, j), 2)}`;
  }
}
