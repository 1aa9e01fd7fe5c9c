// The calculation behind a weight, repeated in the page from the model's own queries, keys and values.

// q · k, ÷ √d_k, softmax, weighted values, for every key of the chosen query; `sharp`: the softmax without the division.
function calculate(of, kind, layer, head, query) {
  const q = vectors(of, kind, 'query', layer, head)[query];
  const keys = vectors(of, kind, 'key', layer, head), values = vectors(of, kind, 'value', layer, head);
  const visible = kind === 'decoder' ? query + 1 : keys.length;
  const dot = keys.slice(0, visible).map(k => k.reduce((sum, x, d) => sum + x * q[d], 0));
  const scaled = dot.map(x => of.vectors.scaled ? x / Math.sqrt(q.length) : x), weights = softmax([...scaled]);
  const norm = v => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));
  const parts = weights.map((w, m) => w * norm(values[m]));
  const context = values[0].map((_, d) => weights.reduce((sum, w, m) => sum + w * values[m][d], 0));
  return {q, keys, dot, scaled, weights, sharp: softmax([...dot]), parts, context, length: norm(context)};
}

// The largest size among numbers of either sign.
const farthest = numbers => numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-9);
const exact = number => number.toFixed(3);

// The pieces whose calculation is shown: the first of the chosen query and, of the chosen key or of all, the one with
// the most weight; null where there is none.
function chosenPieces(of) {
  if (!of.vectors || state.q === null) return null;
  const query = axis(of, state.k, 'query', state.words)[state.q].first;
  const column = state.m === null ? null : axis(of, state.k, 'key', state.words)[state.m];
  const found = calculate(of, state.k, state.l, state.h, query), all = range(found.dot.length);
  const within = all.filter(m => !column || m >= column.first && m <= column.last);
  const key = (within.length ? within : all).reduce((best, m) => found.weights[m] > found.weights[best] ? m : best);
  const unit = side => axis(of, state.k, side, false);
  return {query, key, column, found, queryUnit: unit('query')[query], keyUnits: unit('key')};
}

// A vector as a row of cells, one for each dimension: blue above 0, orange below, as strong as its share of `most`, the
// largest number. saying: a cell's number in words.
function strip({name, numbers, most, saying}) {
  const look = theme(), made = element('div', {className: 'strip', role: 'img', 'aria-label': name},
    ...numbers.map((number, d) => element('span', {title: `dimension ${d + 1}: ${saying(d)}`})));
  [...made.children].forEach((cell, d) => { cell.style.background = signed(look, numbers[d] / most).background; });
  return made;
}

// The token whose vector a query is made from: in the decoder the one that is read, not the one that it predicts.
const madeFrom = unit => unit.reads ?? unit.label;

const nameOf = text => element('span', {className: 'name', dir: 'auto', textContent: text});

// What numbers of either sign add up to, told apart by sign with the colours of cells, and then `rest`.
function sumLegend(numbers, rest) {
  const sum = from => from.reduce((a, b) => a + b, 0), positive = sum(numbers.filter(x => x > 0));
  return [swatch(signed(theme(), 1).background), ` above 0: together ${positive.toFixed(2)} · `,
          swatch(signed(theme(), -1).background), ` below 0: ${(sum(numbers) - positive).toFixed(2)} · ${rest}`];
}

// How q and one key make their score: both vectors and, under them, what each dimension adds to the product.
function showProducts({q, keys, dot, scaled}, m, names) {
  const key = keys[m], products = q.map((x, d) => x * key[d]), most = farthest([...q, ...key]);
  const strips = [
    {name: `q ${quoted(names.query)}`, numbers: q, most, saying: d => exact(q[d])},
    {name: `k ${quoted(names.key)}`, numbers: key, most, saying: d => exact(key[d])},
    {name: 'product', numbers: products, most: farthest(products),
     saying: d => `${exact(q[d])} × ${exact(key[d])} = ${exact(products[d])}`}];
  $('strips').replaceChildren(...strips.flatMap(each => [nameOf(each.name), strip(each)]));
  $('products').replaceChildren(...sumLegend(products, `the products add up to q·k = ${dot[m].toFixed(2)}` +
    (scaled[m] === dot[m] ? '.' : `, divided by √${q.length} = ${scaled[m].toFixed(2)}.`)));
}

// The step before: how a token's vector becomes its query and its key.
function whereFrom(width) {
  if (!report.projected) return '';
  const {d_model: from, rotary, biased, sharing} = report.projected;
  const plus = letter => biased ? ` + b^${letter}` : '';
  return `They are made from the tokens’ vectors x of d_model = ${from} numbers by the head’s matrices ` +
    `(${from} × ${width}): q = x W^Q${plus('Q')}, and k = x W^K${plus('K')}` +
    `${state.k === 'cross' ? ', where the key’s x is the encoder’s output and the query’s the decoder’s' : ''}` +
    `${sharing > 1 ? `; W^K is the same in ${sharing} heads` : ''}` +
    `${rotary && state.k !== 'cross' ? '; their positions turn both' : ''}. `;
}

function showCalculation() {
  const of = sentence();
  $('calculation-panel').hidden = !of.vectors;
  const pieces = chosenPieces(of);
  if (!pieces) {
    $('calculation-text').textContent = 'Choose a query.';
    [$('calculation'), $('strips'), $('products')].forEach(part => part.replaceChildren());
    return;
  }
  const {key, column, found, queryUnit: unit, keyUnits} = pieces, width = found.q.length;
  const who = unit.reads === null ? quoted(unit.label) : `${quoted(unit.reads)}, which ${quoted(unit.label)} is to follow`;
  $('calculation-text').textContent = `Layer ${state.l + 1}, head ${state.h + 1}, the piece ${who}: its query q has ` +
    `d_k = ${width} numbers, and so has each key k. ${whereFrom(width)}The softmax of ${of.vectors.scaled ? `q·k / √${width}` : 'q·k'} ` +
    `is the weight α, and the head's output is the sum of the values v times α, of length ${found.length.toFixed(2)}.`;
  showProducts(found, key, {query: madeFrom(unit), key: keyUnits[key].label});
  const titles = ['key', 'q·k', ...(of.vectors.scaled ? ['q·k / √d_k'] : []), 'α', '', '|α v|',
                  ...(of.vectors.scaled ? ['α without ÷√d_k'] : [])];
  const byWeight = range(found.dot.length).sort((a, b) => found.weights[b] - found.weights[a]);
  const rows = byWeight.map(m => {
    const isChosen = column && m >= column.first && m <= column.last;
    const cells = [found.dot[m].toFixed(2), ...(of.vectors.scaled ? [found.scaled[m].toFixed(2)] : []),
                   precise(found.weights[m])];
    return element('tr', {className: isChosen ? 'chosen' : ''},
      element('td', {dir: 'auto', textContent: keyUnits[m].label}),
      ...cells.map(text => element('td', {textContent: text})),
      element('td', {style: 'text-align:start'}, bar(found.weights[m], 7)),
      element('td', {textContent: precise(found.parts[m])}),
      ...(of.vectors.scaled ? [element('td', {textContent: precise(found.sharp[m])})] : []));
  });
  $('calculation').replaceChildren(element('table', {},
    element('tr', {}, ...titles.map(text => element('th', {textContent: text}))), ...rows));
}

addPanel({
  id: 'calculation',
  title: ['The calculation behind the weight'],
  content: [
    element('p', {id: 'calculation-text'}),
    element('div', {id: 'strips'}),
    element('p', {id: 'products', className: 'legend'}),
    element('div', {id: 'calculation', className: 'scrolls'})],
  show: showCalculation,
});
