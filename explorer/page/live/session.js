// What is typed, what is kept beside it, which heads are closed and how the page searches: part of the state, and so of
// the address. The records of the typed and the kept sentence stand behind the report's own sentences.

const MOST_BEAMS = 8, HEAT = {least: 0.1, most: 3};  // of what a visitor may choose
const typedPlace = report.sentences.length, keptPlace = typedPlace + 1;
let live = null;  // the model, once it is unpacked

if (report.live) {
  Object.assign(state, {
    text: '',  // what is typed; '': nothing yet, and the report's own sentences are shown
    kept: '',  // the sentence that stays beside it, or ''
    closed: '',  // heads: kind.layer.head, counted from 0, with _ between them
    beams: report.live.search.beam_size,
    heat: 1,  // the temperature that logits are divided by
  });
  preparations.push(unpackLive(report.live).then(unpacked => { live = unpacked; }));
  restorers.push(restoreSession);
}

const closedHeads = () => state.closed.split('_').filter(Boolean).map(name => {
  const [kind, layer, head] = name.split('.');
  return {name, kind, layer: +layer, head: +head};
});
const headName = (kind, layer, head) => `${kind}.${layer}.${head}`;
const sessionSearch = () => ({...live.search, beam_size: state.beams, temperature: state.heat});
// Whether the page computes otherwise than the run does by itself.
const isChanged = () => Boolean(state.closed) || state.heat !== 1 || state.beams !== report.live.search.beam_size;

// Reads the session from the address; what does not fit the model is left out.
function restoreSession(found) {
  if (!live) return;  // the first view reads the address again
  const {gates} = live.model, within = (name, least, most, otherwise) =>
    found.get(name) && +found.get(name) >= least && +found.get(name) <= most ? +found.get(name) : otherwise;
  Object.assign(state, {text: found.get('text') ?? '', kept: found.get('kept') ?? '',
    closed: (found.get('closed') ?? '').split('_').filter(name => {
      const [kind, layer, head] = name.split('.');
      return Object.hasOwn(gates, kind) && gates[kind][layer]?.[head] !== undefined && /^\w+\.\d+\.\d+$/.test(name);
    }).join('_'),
    beams: Math.round(within('beams', 1, MOST_BEAMS, report.live.search.beam_size)),
    heat: within('heat', HEAT.least, HEAT.most, 1)});
  translateAll();
}

// Makes the records of what is typed and kept, where they are not those of the present session already.
function translateAll() {
  const {sentences} = report;
  live.model.openAll();
  for (const {kind, layer, head} of closedHeads()) live.model.gates[kind][layer][head] = 0;
  const texts = [state.text, state.kept].map(text => stripped(text) && text);
  const wanted = texts[0] ? texts.slice(0, texts[1] ? 2 : 1) : [];
  const made = sentences.splice(typedPlace);
  wanted.forEach((text, i) => {
    const madeOf = JSON.stringify([text, state.closed, state.beams, state.heat]);
    const record = made.find(record => record.madeOf === madeOf) ??
      {...sentenceRecord(text, live, sessionSearch()), madeOf};
    made.push(record);
    sentences.push({...record, origin: (i ? 'A, kept' : 'typed') + cutNote(text, live)});
  });
}

// Changes the session and shows it. What is shown becomes what is typed; a word that was chosen stays chosen, or the
// one at its place.
function setSession(changes) {
  const axes = of => ['query', 'key'].map(side => axis(of, state.k, side, state.words));
  const [rows, columns] = axes(sentence()), {q, m} = state, beside = report.sentences[state.c];
  const text = state.s === keptPlace ? state.text : report.sentences[state.s].source;  // A is kept as it is
  Object.assign(state, {text}, changes);
  if (beside && isChanged() && !state.kept && !('kept' in changes)) state.kept = beside.source;  // else one side would be another model's
  translateAll();
  const {length} = report.sentences, s = length > typedPlace ? typedPlace : report.first_view.sentence;
  const [newRows, newColumns] = axes(report.sentences[s]);
  return set({s, c: length > keptPlace ? keptPlace : state.c < length && !isChanged() ? state.c : -1, a: 0,
              q: counterpart(rows, newRows, q), m: counterpart(columns, newColumns, m)});
}

// Closes an open head, or opens a closed one.
function toggleHead(kind, layer, head) {
  const name = headName(kind, layer, head), names = closedHeads().map(other => other.name);
  const closed = names.includes(name) ? names.filter(other => other !== name) : [...names, name];
  return setSession({closed: closed.join('_')});
}
