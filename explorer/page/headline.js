// The first line: the chosen weight in words.

function showHeadline() {
  const [pane] = panes, where = `${KINDS[state.k][0]} layer ${state.l + 1}, head ${state.h + 1}`;
  let text = report.training ? `${snapshotName()}: ${where}` : `${where[0].toUpperCase()}${where.slice(1)}`;
  if (state.q !== null) {
    const row = range(pane.keys.length).map(j => pane.heatMap.map.at(state.q, j));
    const j = state.m ?? row.indexOf(Math.max(...row)), unit = pane.queries[state.q];
    const who = unit.reads === null ? `“${unit.label}” looks` : `to write “${unit.label}”, “${unit.reads}” looks`;
    text += pane.heatMap.isMasked(state.q, j) ? `: ${pane.describe(state.q, j)}` :
      `: ${who} ${state.m === null ? 'most ' : ''}at “${pane.keys[j].label}”, ${row[j].toFixed(2)}`;
  } else text += ': choose a token';
  $('headline').textContent = `${text}.`;
}
