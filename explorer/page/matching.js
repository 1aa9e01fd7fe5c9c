// Two sentences side by side: which word (or piece) of one goes with which of the other.

// For each word of a its place in b, or -1: the longest common subsequence of their labels.
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

// The words of a text, those marked that do not go with any word of the other: nodes for an element.
function markedWords(text, other) {
  const words = text.split(' '), labelled = list => list.map(label => ({label}));
  const found = matches(labelled(words), labelled(other.split(' ')));
  return words.flatMap((word, i) => [i ? ' ' : '', found[i] < 0 ? element('mark', {textContent: word}) : word]);
}

// The word of b that goes with word i of a: the same word, or, where the sentences differ, the one at its place.
function counterpart(a, b, i) {
  if (i === null) return null;
  const found = matches(a, b);
  if (found[i] >= 0) return found[i];
  for (let back = i - 1; back >= 0; back--)
    if (found[back] >= 0) return Math.min(found[back] + (i - back), b.length - 1);
  return Math.min(i, b.length - 1);
}
