// The first line: the chosen weight in words, or what differs between two sentences.

function showHeadline() {
  const pane = activePane(), beside = panes[1 - state.a], where = `${KINDS[state.k]}, layer ${state.l + 1}, head ${state.h + 1}`;
  let text = report.training ? `${snapshotName()}: ${where}` : `${where[0].toUpperCase()}${where.slice(1)}`;
  if (state.q === null) text += ': choose a query';
  else text += `: ${(beside && contrast(pane, beside)) ?? weightInWords(pane)}`;
  $('headline').textContent = `${text}.`;
}

// The chosen weight, or the largest of the chosen row.
function weightInWords(pane) {
  const top = largest(pane, state.q), j = state.m ?? top, unit = pane.queries[state.q];
  if (pane.heatMap.isMasked(state.q, j)) return pane.describe(state.q, j);
  const who = unit.reads === null ? quoted(unit.label) : `${quoted(unit.reads)}, to predict ${quoted(unit.label)},`;
  const weight = shown(pane.heatMap.map.at(state.q, j), 2);
  return `${who} attends ${state.m === null ? 'most ' : ''}to ${quoted(pane.keys[j].label)}, ${weight}`;
}

const largest = (pane, i) => {
  const row = range(pane.keys.length).map(j => pane.heatMap.map.at(i, j));
  return row.indexOf(Math.max(...row));
};

// What to notice where the chosen rows of two sentences go together and have their largest weight on different words;
// null elsewhere, and where another key is chosen.
function contrast(pane, beside) {
  const i = state.q, there = counterpart(pane.queries, beside.queries, i);
  const j = largest(pane, i), elsewhere = largest(beside, there);
  const [word, other] = [pane.keys[j].label, beside.keys[elsewhere].label];
  if (word === other || (state.m ?? j) !== j || !goTogether(pane.queries, beside.queries, i)) return null;
  const doing = pane.queries[i].reads === null ? 'reading' : 'writing';
  const [query, otherQuery] = [pane.queries[i].label, beside.queries[there].label];
  const second = query === otherQuery ? 'in the sentence beside' : `${doing} ${quoted(otherQuery)}`;
  return `${doing} ${quoted(query)}, it looks at ${quoted(word)}, ${shown(pane.heatMap.map.at(i, j), 2)}; ` +
    `${second}, at ${quoted(other)}, ${shown(beside.heatMap.map.at(there, elsewhere), 2)}`;
}
