// Shows the page, and again after each change of the state; the keyboard.

let lastShown = 0;

async function show() {
  const number = ++lastShown;
  delete document.documentElement.dataset.ready;
  document.documentElement.dataset.theme = state.theme;
  const shown = [report.sentences[state.s], ...(state.c >= 0 ? [report.sentences[state.c]] : [])];
  await Promise.all(shown.map(unpacked));
  if (number !== lastShown) return;  // something else was chosen meanwhile
  const group = groupOfFocus();
  showPanes(shown);
  showArchitecture();
  showControls();
  showHeadline();
  panels.forEach(panel => panel.show());
  if (group) focusGroup(group);
  save();
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}

// The head before or after this one, alone.
function nextHead(by) {
  const heads = shape()[1], h = (state.h + by + heads) % heads;
  set({h, on: [h]});
}

// The token that looks before or after this one, in sight.
async function nextToken(by) {
  const count = activePane().queries.length;
  await set({q: state.q === null ? (by > 0 ? 0 : count - 1) : (state.q + by + count) % count, m: null});
  activePane().arcs.lists.query.querySelector('.chosen')?.scrollIntoView({block: 'nearest'});
}

// The key before or after the chosen one.
function nextKey(by) {
  const count = activePane().keys.length;
  set({m: state.m === null ? (by > 0 ? 0 : count - 1) : (state.m + by + count) % count});
}

const KEYS = {
  ArrowLeft: () => nextHead(-1), ArrowRight: () => nextHead(1),
  ArrowUp: () => nextToken(-1), ArrowDown: () => nextToken(1),
  '[': () => set({l: state.l - 1}), ']': () => set({l: state.l + 1}), w: () => set({words: !state.words}),
  p: () => set({padded: !state.padded}), a: allHeads, Escape: () => set({q: null, m: null}),
  ...Object.fromEntries(kindsOfModel.map((kind, i) => [i + 1, () => set({k: kind})])),
  ...Object.assign({}, ...panels.map(panel => panel.keys)),
};

document.addEventListener('keydown', event => {
  // Brackets are typed with Alt or AltGr on many keyboards.
  const isBracket = ['[', ']'].includes(event.key) && (event.getModifierState('AltGraph') || !event.ctrlKey && !event.metaKey);
  if (!isBracket && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if (['SELECT', 'INPUT', 'TEXTAREA'].includes(event.target.tagName)) return;
  const moves = event.target.closest?.('[data-roving]')?.moves ?? {};
  const act = (event.shiftKey && moves[`Shift+${event.key}`]) || (moves[event.key] ?? KEYS[event.key]);
  if (!act) return;
  event.preventDefault();
  act();
});
window.addEventListener('hashchange', () => { restore(); show(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);

foldControls();
Promise.all(preparations).then(() => { restore(); show(); });
