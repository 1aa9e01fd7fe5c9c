// The numbers of the report: unpacked, and read as one head's attention between pieces or words.
// Weights are 16-bit integers, 65535 for 1; queries, keys and values are 16-bit shares of their layer's scale.

const report = JSON.parse($('report').textContent);
// The kinds of attention and their names, as in explorer/gates.py.
const KINDS = {encoder: 'encoder self-attention', cross: 'cross-attention', decoder: 'decoder self-attention'};
const kindsOfModel = Object.keys(KINDS).filter(kind => report.sentences[0].shapes[kind]);

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).arrayBuffer();
}

// Unpacks a sentence's numbers, once; a promise.
const unpacked = sentence => sentence.unpacked ??= unpack(sentence);

// A report on training has the weights of several snapshots of the model, any other of one.
async function unpack(sentence) {
  sentence.snapshots = await Promise.all([sentence.weights].flat().map(async packed => {
    const weights = new Uint16Array(await inflate(packed)), maps = {};
    let start = 0;
    for (const kind of ['encoder', 'decoder', 'cross'].filter(kind => sentence.shapes[kind])) {
      const size = sentence.shapes[kind].reduce((a, b) => a * b);
      maps[kind] = weights.subarray(start, start += size);
    }
    return {maps, pooled: new Map()};
  }));
  if (sentence.vectors) {
    const numbers = await inflateShares(sentence.vectors);
    sentence.vectors.parts.forEach((part, i) => { part.numbers = numbers[i]; });
  }
}

// The numbers of each part of a record that explorer/page.py packed as shares of its layers' scales.
async function inflateShares({parts, data}) {
  const numbers = new Int16Array(await inflate(data));
  return parts.map(({start, size}) => numbers.subarray(start, start + size));
}

// The weights between pieces in the snapshot that is shown: by kind, [layers, heads, queries, keys] in one array.
const weightsOf = sentence => sentence.snapshots[state.e].maps;

// What the rows (side 'query') or columns ('key') of a map are called:
// [{label, reads (what the decoder has read last, else null), first, last (pieces of a word), special (BOS or EOS)}].
function axis(sentence, kind, side, words) {
  const name = {encoder: {query: 'source', key: 'source'}, decoder: {query: 'predicts', key: 'reads'},
                cross: {query: 'predicts', key: 'source'}}[kind][side];
  const text = sentence.texts[name];
  const units = words ? text.words : text.pieces;
  const of = words ? text.word_of_piece : range(units.length);
  return units.map((label, unit) => {
    const first = of.indexOf(unit), last = of.lastIndexOf(unit);
    const unitRead = sentence.texts.reads;
    const reads = name !== 'predicts' ? null
      : words ? unitRead.words[unitRead.word_of_piece[first]] : unitRead.pieces[first];
    return {label, reads, first, last, special: text.special[first]};
  });
}

// One head's attention between pieces or words: the sum over a word's keys, the mean over its queries. `masked` marks
// the future, which the decoder may not see.
function attentionMap(sentence, kind, layer, head, words, snapshot = state.e) {
  const {maps, pooled} = sentence.snapshots[snapshot], name = [kind, layer, head, words].join();
  if (pooled.has(name)) return pooled.get(name);
  const rows = axis(sentence, kind, 'query', words), columns = axis(sentence, kind, 'key', words);
  const [, heads, Q, M] = sentence.shapes[kind];
  const pieces = maps[kind].subarray((layer * heads + head) * Q * M);
  const values = new Float32Array(rows.length * columns.length), masked = new Uint8Array(values.length);
  rows.forEach((row, i) => columns.forEach((column, j) => {
    let sum = 0;
    for (let q = row.first; q <= row.last; q++)
      for (let m = column.first; m <= column.last; m++) sum += pieces[q * M + m];
    values[i * columns.length + j] = sum / (row.last - row.first + 1) / 65535;
    masked[i * columns.length + j] = kind === 'decoder' && column.first > row.last;
  }));
  const made = {rows, columns, values, masked, at: (i, j) => values[i * columns.length + j]};
  pooled.set(name, made);
  return made;
}

// A head's vectors [tokens][width] of a role, 'query', 'key' or 'value', where the report has them.
const vectors = (sentence, kind, role, layer, head) =>
  rowsOf(sentence.vectors.parts.find(p => p.kind === kind && p.role === role), layer, head);

// The vectors [tokens][d_model] that the heads of a layer make queries or keys of; undefined where the report has none.
// The keys of self-attention are made of the same as its queries, those of cross-attention in all layers of one.
function inputs(sentence, kind, side, layer) {
  const isMemory = kind === 'cross' && side === 'key', role = isMemory ? 'key_input' : 'query_input';
  const part = sentence.vectors?.parts.find(p => p.kind === kind && p.role === role);
  return part && rowsOf(part, isMemory ? 0 : layer, 0);
}

// The rows of a head in an array [layers, heads, rows, width] that was packed as shares of its layers' scales.
function rowsOf({shape: [, heads, rows, width], scales, numbers}, layer, head) {
  const start = (layer * heads + head) * rows * width, scale = scales[layer] / 32767;
  return range(rows).map(r => range(width).map(d => numbers[start + r * width + d] * scale));
}

// Turns scores into weights that sum to 1, in place, and returns them.
function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  let total = 0;
  for (let i = 0; i < scores.length; i++) total += scores[i] = Math.exp(scores[i] - most);
  for (let i = 0; i < scores.length; i++) scores[i] /= total;
  return scores;
}
