// Which head does this? All heads of a kind by their weight between two chosen tokens.

function showRanking() {
  const {q, m} = state, [layers, heads] = shape(), pane = activePane();
  const isChosen = q !== null && m !== null, isMasked = isChosen && pane.heatMap.isMasked(q, m);
  $('ranking-hint').textContent = !isChosen ? 'Choose a query, on the left, and then a key, on the right.' :
    isMasked ? `In no head: ${pane.describe(q, m)}.` :
    `All heads of ${KINDS[state.k]} by their weight from ${quoted(pane.queries[q].label)} to ${quoted(pane.keys[m].label)}:`;
  const found = !isChosen || isMasked ? [] : range(layers).flatMap(l => range(heads).map(h =>
    ({l, h, weight: attentionMap(sentence(), state.k, l, h, state.words).at(q, m)})));
  found.sort((a, b) => b.weight - a.weight);
  const next = by => found[(at + by + found.length) % found.length];
  const at = found.findIndex(({l, h}) => l === state.l && h === state.h), to = ({l, h}) => set({l, h, on: [h]});
  $('ranking').replaceChildren(...found.map(({l, h, weight}) =>
    element('li', {}, element('button', {type: 'button', textContent: `layer ${l + 1}, head ${h + 1}`,
      onclick: () => to({l, h})}), ` ${shown(weight, 3)} `, bar(weight, 5, colour(h)))));
  rove($('ranking'), 'ranking', at, {ArrowUp: () => to(next(-1)), ArrowDown: () => to(next(1))});
}

addPanel({
  id: 'ranking',
  title: ['Which head does this?'],
  content: [element('p', {id: 'ranking-hint', className: 'aside'}), element('ol', {id: 'ranking'})],
  show: showRanking,
});
