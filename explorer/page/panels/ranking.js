// Which head does this? All heads of a kind by their weight between two chosen tokens.

function showRanking() {
  const {q, m} = state, [layers, heads] = shape(), [pane] = panes;
  $('ranking-hint').textContent = q === null || m === null ?
    'Choose a query, on the left, and then a key, on the right.' :
    `All heads of ${KINDS[state.k]} by their weight from “${pane.queries[q].label}” to “${pane.keys[m].label}”:`;
  const found = q === null || m === null ? [] : range(layers).flatMap(l => range(heads).map(h =>
    ({l, h, weight: attentionMap(sentence(), state.k, l, h, state.words).at(q, m)})));
  found.sort((a, b) => b.weight - a.weight);
  $('ranking').replaceChildren(...found.map(({l, h, weight}) =>
    element('li', {}, element('button', {type: 'button', textContent: `layer ${l + 1}, head ${h + 1}`,
      onclick: () => set({l, h, on: [h]})}), ` ${weight.toFixed(3)} `, bar(weight, 5, colour(h)))));
}

addPanel({
  id: 'ranking',
  title: ['Which head does this?'],
  content: [element('p', {id: 'ranking-hint', className: 'aside'}), element('ol', {id: 'ranking'})],
  show: showRanking,
});
