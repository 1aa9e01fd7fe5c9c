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

// For each word of a the word of b that goes with it: the same word, or, where the sentences differ, the one at its place.
function counterparts(a, b, found = matches(a, b)) {
  let shift = 0;  // of the newest word that both have
  return found.map((there, i) => {
    if (there >= 0) shift = there - i;
    return Math.min(i + shift, b.length - 1);
  });
}

const ALIKE = 0.5;  // least share of words that two sentences have in common, for others of theirs to stand for each other

// Whether a word of a and its counterpart are the same one, or stand for each other in sentences that are alike.
function goTogether(a, b, i) {
  const found = matches(a, b), common = found.filter(there => there >= 0).length;
  if (found[i] >= 0) return true;
  return 2 * common / (a.length + b.length) >= ALIKE && !found.includes(counterparts(a, b, found)[i]);
}

const counterpart = (a, b, i) => i === null ? null : counterparts(a, b)[i];
