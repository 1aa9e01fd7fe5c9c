// The calculation behind a weight, repeated in the page from the model's own queries, keys and values.

// q · k, ÷ √d_k, softmax, weighted values, for every key of the chosen query.
function calculate(of, kind, layer, head, query) {
  const q = vectors(of, kind, 'query', layer, head)[query];
  const keys = vectors(of, kind, 'key', layer, head), values = vectors(of, kind, 'value', layer, head);
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
  const of = sentence();
  $('calculation-panel').hidden = !of.vectors;
  if (!of.vectors || state.q === null) {
    $('calculation-text').textContent = 'Choose a query.';
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
    const isChosen = column && m >= column.first && m <= column.last;
    const cells = [dot.toFixed(2), ...(of.vectors.scaled ? [found.scaled[m].toFixed(2)] : []),
                   shown(found.weights[m], 3)];
    return element('tr', {className: isChosen ? 'chosen' : ''},
      element('td', {dir: 'auto', textContent: piece('key')[m].label}),
      ...cells.map(text => element('td', {textContent: text})),
      element('td', {style: 'text-align:start'}, bar(found.weights[m], 7)),
      element('td', {textContent: found.parts[m].toFixed(3)}));
  });
  $('calculation').replaceChildren(element('table', {},
    element('tr', {}, ...titles.map(text => element('th', {textContent: text}))), ...rows));
}

addPanel({
  id: 'calculation',
  title: ['The calculation behind the weight'],
  content: [element('p', {id: 'calculation-text'}), element('div', {id: 'calculation', className: 'scrolls'})],
  show: showCalculation,
});
