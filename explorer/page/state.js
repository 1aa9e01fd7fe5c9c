// What is shown: one record, kept in the page's address and read from it. All numbers count from 0.

const state = {
  s: report.first_view.sentence,
  c: report.first_view.beside ?? -1,  // the sentence beside it, or -1
  a: 0,  // which of the two the choice is of, and the panels below are about: 0 the first, 1 the one beside
  k: report.first_view.kind,  // of attention
  l: report.first_view.layer,
  h: report.first_view.head,  // whose heat map is large
  on: [report.first_view.head],  // the heads whose arcs are drawn
  q: report.first_view.query,  // the chosen query, a word or piece, or null
  m: report.first_view.key,  // the chosen key, or null
  words: report.first_view.words ?? true,  // else pieces
  padded: false,  // whether padding is shown
  t: 0,  // step of decoding; where the decoder's rows are shown, the chosen row is that of the step
  d: 0,  // which of the d_k numbers of a query and a key the projection is about
  e: report.training ? report.training.length - 1 : 0,  // snapshot of training
  theme: '',  // light, dark, or as the system has it
};
// For parts that need or keep more, such as live/session.js: promises that the first view waits for, and functions that
// read the address before the state is read from it.
const preparations = [], restorers = [];
const shownPlace = () => state.a ? state.c : state.s;  // in the report, of the sentence that the panels are about
const sentence = () => report.sentences[shownPlace()];
const shape = () => sentence().shapes[state.k];

let saving = 0;  // the timer of a change of the address that waits

// Writes the state into the address; while something is typed, in a pause: browsers allow few changes in a short time.
function save() {
  clearTimeout(saving);
  if (document.activeElement.tagName === 'TEXTAREA') saving = setTimeout(writeAddress, 400);
  else writeAddress();
}

function writeAddress() {
  if (location.protocol === 'about:') return;  // in a notebook's frame there is no address to keep
  const parts = {...state, on: state.on.join('.'), words: +state.words, padded: +state.padded,
                 q: state.q ?? '', m: state.m ?? ''};
  history.replaceState(null, '', '#' + new URLSearchParams(parts));
}

// Reads the state from the address; what does not fit the report becomes the nearest that does.
function restore() {
  const found = new URLSearchParams(location.hash.slice(1));
  restorers.forEach(read => read(found));
  if (location.hash.length > 1) state.q = state.m = null;  // what the address does not name is not chosen
  const number = (name, most, otherwise) => /^-?\d+$/.test(found.get(name) ?? '') ?
    Math.max(name === 'c' ? -1 : 0, Math.min(most, +found.get(name))) : found.get(name) === '' ? null : otherwise;
  state.s = number('s', report.sentences.length - 1, state.s) ?? 0;
  state.c = number('c', report.sentences.length - 1, state.c) ?? -1;
  state.a = state.c < 0 ? 0 : number('a', 1, 0) ?? 0;
  if (kindsOfModel.includes(found.get('k'))) state.k = found.get('k');
  const [layers, heads] = shape();
  state.l = number('l', layers - 1, state.l) ?? 0;
  state.h = number('h', heads - 1, state.h) ?? 0;
  const on = (found.get('on') ?? '').split('.').filter(x => /^\d+$/.test(x)).map(Number).filter(x => x < heads);
  state.on = found.has('on') ? on : [state.h];
  if (found.has('words')) state.words = found.get('words') === '1';
  if (found.has('padded')) state.padded = found.get('padded') === '1';
  const place = (name, side) => {
    const most = axis(sentence(), state.k, side, state.words).length - 1, found = number(name, most, state[name]);
    return found === null ? null : clamp(found, most);
  };
  state.q = place('q', 'query');
  state.m = place('m', 'key');
  state.t = number('t', sentence().steps.length - 1, 0) ?? 0;
  followRow();
  state.d = number('d', Infinity, 0) ?? 0;
  state.e = number('e', (report.training?.length ?? 1) - 1, state.e) ?? 0;
  if (['', 'light', 'dark'].includes(found.get('theme'))) state.theme = found.get('theme');
}

// The step of decoding in which the chosen row is written, or null: the encoder's rows are written in none, and a page on
// training has no steps.
function rowsStep() {
  if (state.k === 'encoder' || state.q === null || !sentence().steps.length) return null;
  return Math.min(axis(sentence(), state.k, 'query', state.words)[state.q].first, sentence().steps.length - 1);
}

// The row that is written in a step, or null.
function stepsRow(t) {
  const row = state.k === 'encoder' ? -1 : axis(sentence(), state.k, 'query', state.words).findIndex(unit => t <= unit.last);
  return row < 0 ? null : row;
}

// Goes to the step of the chosen row, unless another piece of its word is written in the present one.
function followRow() {
  const step = rowsStep();
  if (step !== null && stepsRow(state.t) !== state.q) state.t = step;
}

// Where a chosen token is after a change: the same piece among words, the token that goes with it in another sentence.
// Another kind of attention that names its queries or keys otherwise has none.
function carried(i, side, before, of) {
  const named = kind => axis(of, kind, side, before.words).map(unit => unit.label).join('\n');
  if (i === null || state.k !== before.k && named(state.k) !== named(before.k)) return null;
  if (state.words !== before.words) {
    const piece = axis(of, state.k, side, before.words)[i].first;
    i = axis(of, state.k, side, state.words).findIndex(unit => piece <= unit.last);
  }
  const units = from => axis(from, state.k, side, state.words);
  return sentence() === of ? i : counterpart(units(of), units(sentence()), i);
}

// Changes the state and shows it. A choice that no longer exists after the change is dropped.
function set(changes) {
  const before = {...state}, of = sentence();
  Object.assign(state, changes);
  if (state.c === state.s) state.c = -1;
  if (state.c < 0) state.a = 0;
  const [layers, heads] = shape();
  state.l = clamp(state.l, layers - 1);
  state.h = clamp(state.h, heads - 1);
  state.on = state.on.filter(h => h < heads);
  if (!('q' in changes)) for (const [name, side] of [['q', 'query'], ['m', 'key']])
    state[name] = carried(state[name], side, before, of);
  state.t = sentence() === of ? clamp(state.t, Math.max(0, of.steps.length - 1)) : 0;  // what is typed may be shorter now
  if ('q' in changes && !('t' in changes)) state.t = rowsStep() ?? state.t;
  followRow();
  return show();
}
