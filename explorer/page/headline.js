// The first line: the chosen weight in words.

function showHeadline() {
  const [pane] = panes, where = `${KINDS[state.k]}, layer ${state.l + 1}, head ${state.h + 1}`;
  let text = report.training ? `${snapshotName()}: ${where}` : `${where[0].toUpperCase()}${where.slice(1)}`;
  if (state.q !== null) {
    const row = range(pane.keys.length).map(j => pane.heatMap.map.at(state.q, j));
    const j = state.m ?? row.indexOf(Math.max(...row)), unit = pane.queries[state.q];
    const who = unit.reads === null ? `“${unit.label}”` : `“${unit.reads}”, to predict “${unit.label}”,`;
    text += pane.heatMap.isMasked(state.q, j) ? `: ${pane.describe(state.q, j)}` :
      `: ${who} attends ${state.m === null ? 'most ' : ''}to “${pane.keys[j].label}”, ${row[j].toFixed(2)}`;
  } else text += ': choose a query';
  $('headline').textContent = `${text}.`;
}
