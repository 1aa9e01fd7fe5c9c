// A text box: the page translates what is typed, and shows it as any other sentence.

Object.assign(state, {
  text: '',  // what is typed; '': the report's own sentences are shown
});

const typedPlace = report.sentences.length;  // of the typed sentence among the sentences
let live = null, translated = '';  // the model; the text whose record is among the sentences

preparations.push(unpackLive(report.live).then(unpacked => { live = unpacked; }));

// Puts the record of what is typed among the sentences.
function translateTyped() {
  if (!stripped(state.text)) report.sentences.length = typedPlace;
  else if (state.text !== translated) report.sentences[typedPlace] = sentenceRecord(state.text, live, live.search);
  translated = state.text;
}

// Shows what is typed; a word that was chosen stays chosen, or the one at its place.
function retype(text) {
  const before = sentence(), axes = of => ['query', 'key'].map(side => axis(of, state.k, side, state.words));
  const [rows, columns] = axes(before), {q, m} = state;
  state.text = text;
  translateTyped();
  const s = Math.min(typedPlace, report.sentences.length - 1), [newRows, newColumns] = axes(report.sentences[s]);
  return set({s, q: counterpart(rows, newRows, q), m: counterpart(columns, newColumns, m)});
}

let typing = 0;  // the timer of the newest key

// A sentence is translated after the key has been shown; of keys that follow each other fast, after the last.
function onTyped({timeStamp}) {
  clearTimeout(typing);
  typing = setTimeout(async () => {
    await retype($('typed').value.replaceAll('\n', ' '));
    $('live-note').textContent = `Answered in ${Math.round(performance.now() - timeStamp)} ms.`;
  });
}

function showBox() {
  const of = sentence();
  if (document.activeElement !== $('typed')) $('typed').value = of.source;
  $('translation').textContent = of.target;
  $('hypotheses').replaceChildren(...(of.hypotheses ?? []).slice(1).map(({text, score}) =>
    element('li', {}, element('span', {dir: 'auto', textContent: text}), ` ${score.toFixed(2)}`)));
}

document.querySelector('header').before(element('section', {id: 'live'},
  element('label', {htmlFor: 'typed', textContent: 'Type a sentence. This page holds the model and translates it by itself.'}),
  element('textarea', {id: 'typed', rows: 2, maxLength: 1000, dir: 'auto', spellcheck: false, oninput: onTyped}),
  element('p', {id: 'suggestions'}, ...report.live.suggestions.map(text => element('button', {type: 'button', dir: 'auto',
    textContent: text, onclick: () => { $('typed').value = text; retype(text); }}))),
  element('p', {id: 'translation', role: 'status', dir: 'auto'}),
  element('ol', {id: 'hypotheses', start: 2}),
  element('p', {id: 'live-note', className: 'aside'})));
panels.push({show: showBox, keys: {}});

restorers.push(found => {
  state.text = found.get('text') ?? '';
  translateTyped();
});
