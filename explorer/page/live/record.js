// The record of a typed sentence: what explorer/page.py writes of one, computed here, so that every panel shows it.

const TOP = 10;  // next tokens kept at each step, as in explorer/capture.py

// What decode() and encode() are asked to record: weights, queries, keys and values of every head, the output of each
// decoder layer.
class Witness {
  constructor(options) { Object.assign(this, {options, shapes: {}, weights: {}, vectors: {}, streams: []}); }

  // Makes room for a kind of attention with so many queries and entries.
  sized(kind, Q, M) {
    const {layers, heads} = this.options;
    this.shapes[kind] = [kind === 'encoder' ? layers.encoder : layers.decoder, heads, Q, M];
    this.weights[kind] = new Uint16Array(this.shapes[kind].reduce((a, b) => a * b));
  }

  recorder(kind, layer) {
    const [, heads, Q, M] = this.shapes[kind];
    return (row, head, weights) => {
      const start = ((layer * heads + head) * Q + row) * M;
      for (let m = 0; m < weights.length; m++) this.weights[kind][start + m] = Math.round(weights[m] * 65535);
    };
  }

  // Keeps one layer's queries, keys and values, each [heads, tokens, width], and what the queries are made of.
  operands(kind, layer, input, queries, entries) {
    const {heads, kv_heads, key_size, value_size} = this.options, [, , Q, M] = this.shapes[kind];
    const byHead = (numbers, tokens, own, width) => {
      const found = new Float32Array(heads * tokens * width);
      for (let h = 0; h < heads; h++) for (let t = 0; t < tokens; t++) {
        const start = (t * own + Math.floor(h / (heads / own))) * width;
        found.set(numbers.subarray(start, start + width), (h * tokens + t) * width);
      }
      return found;
    };
    (this.vectors[kind] ??= [])[layer] = {query_input: Float32Array.from(input), query: byHead(queries, Q, heads, key_size),
      key: byHead(entries.keys, M, kv_heads, key_size), value: byHead(entries.values, M, kv_heads, value_size)};
  }

  afterLayer(stream) { this.streams.push(stream); }
  afterEncoder(memory) { this.memory = memory; }

  // Queries, keys, values and their inputs as data.js reads them: numbers with a scale for each layer, here as they are.
  vectorRecord(scaled) {
    const {heads, key_size, value_size, width} = this.options, parts = [];
    const widths = {query: key_size, key: key_size, value: value_size}, add = (kind, role, layers, heads, width) => {
      const size = layers[0].length, numbers = new Float32Array(layers.length * size);
      layers.forEach((layer, l) => numbers.set(layer, l * size));
      parts.push({kind, role, shape: [layers.length, heads, size / heads / width, width],
                  scales: layers.map(() => 32767), numbers});
    };
    for (const [kind, layers] of Object.entries(this.vectors)) {
      for (const role in widths) add(kind, role, layers.map(layer => layer[role]), heads, widths[role]);
      add(kind, 'query_input', layers.map(layer => layer.query_input), 1, width);
    }
    add('cross', 'key_input', [this.memory], 1, width);
    return {scaled, parts};
  }
}

// The ids that the model reads of a text: they end in EOS; of a text that is too long, the first.
function sourceIds(text, live) {
  const ids = live.source.encode(text).slice(0, live.longest - 1);
  return [...ids, live.source.eos];
}

// What is said beside a text that is too long, or nothing.
const cutNote = (text, live) => live.source.encode(text).length < live.longest ? ''
  : ` · of this text only the first ${live.longest} tokens are read`;

// The hypotheses for a source of so many tokens, and, of a beam, the tree; see search.js. Logits are divided by the
// temperature.
function searchFor(memory, live, search) {
  const step = live.model.stepper(memory), limit = memory[0].count + search.extra_length;
  const warm = (tokens, parents) => {
    const logits = step(tokens, parents);
    if (search.temperature !== 1) for (let i = 0; i < logits.length; i++) logits[i] /= search.temperature;
    return logits;
  };
  return (search.beam_size === 1 ? greedySearch : beamSearch)(warm, limit, search);
}

// Gives the decoder a translation (teacher forcing); returns what it read and the logits [T, V].
function forced(memory, written, live, witness) {
  const {model} = live, T = written.length, reads = [live.target.bos, ...written.slice(0, -1)], places = range(T);
  witness.sized('decoder', T, T);
  witness.sized('cross', T, memory[0].count);
  model.decode(model.start(memory), reads, places, places.map(t => range(t + 1)), witness);
  return {reads, logits: model.logits(witness.streams.at(-1), T)};
}

// The likeliest tokens of a row of logits with their probabilities, [[name, share]].
function likeliestTokens(row, count, live) {
  const found = [], normalizer = logSumExp(row);
  for (let token = 0; token < row.length; token++) {
    if (found.length === count && row[token] <= row[found[count - 1]]) continue;
    let at = found.length;
    while (at && row[token] > row[found[at - 1]]) at--;
    found.splice(at, 0, token);
    found.length = Math.min(found.length, count);
  }
  return found.map(token => [tokenName(token, live.target), Math.exp(row[token] - normalizer)]);
}

// The step-by-step part of a record: log-probabilities, the likeliest next tokens, and what a decoder cut after each
// layer would predict (streams: the layers' outputs), which is computed for the steps that are looked at alone.
function stepRecords(written, logits, streams, live, temperature) {
  const {model, target} = live, size = target.pieces.length, {width} = model.options;
  const warm = numbers => temperature === 1 ? numbers : numbers.map(logit => logit / temperature);
  const rows = written.map((_, t) => warm(logits.subarray(t * size, (t + 1) * size)));
  const atLayer = (stream, t) => warm(model.logits(stream.subarray(t * width, (t + 1) * width), 1));
  return {logProbs: written.map((token, t) => rows[t][token] - logSumExp(rows[t])), steps: written.map((token, t) => {
    let lens = null;
    return {top: likeliestTokens(rows[t], TOP, live), written: tokenName(token, target),
            get lens() { return lens ??= streams.map(stream => likeliestTokens(atLayer(stream, t), 1, live)[0]); }};
  })};
}

// The text of a hypothesis, which ends in EOS.
const spellOut = (tokens, live) => live.target.decode(tokens.slice(0, -1)).replaceAll('\n', ' ');

// Translates a text and returns its record. search: see search.js, with a temperature.
function sentenceRecord(text, live, search) {
  const ids = sourceIds(text, live), witness = new Witness(live.model.options);
  witness.sized('encoder', ids.length, ids.length);
  const memory = live.model.encode(ids, witness), {found, nodes, best} = searchFor(memory, live, search);
  const written = found[0].tokens, {reads, logits} = forced(memory, written, live, witness);
  const {logProbs, steps} = stepRecords(written, logits, witness.streams, live, search.temperature);
  const record = {
    ids: written, source: text, target: spellOut(written, live), origin: 'translated in this page', padded: [0, 0],
    texts: {source: namedText(ids, live.source), reads: namedText(reads, live.target),
            predicts: namedText(written, live.target)},
    shapes: witness.shapes, log_probs: logProbs, steps,
    snapshots: [{maps: witness.weights, pooled: new Map()}], unpacked: Promise.resolve(),
    hypotheses: found.map(({tokens, score}) => ({text: spellOut(tokens, live), score}))};
  if (live.computable) record.vectors = witness.vectorRecord(live.model.options.score === 'scaled_dot');
  if (nodes) record.beam = {best, penalty: search.penalty, compared: false, nodes: nodes.map(
    ([parent, step, token, ...rest]) => [parent, step, tokenName(token, live.target), ...rest])};
  return record;
}

// The model, vocabularies and search of report.live, ready to translate.
async function unpackLive(record) {
  const source = new Subwords(record.vocabularies[0]);
  return {model: new LiveModel(record.model, await unpackWeights(record.weights)), source,
          target: record.vocabularies[1] ? new Subwords(record.vocabularies[1]) : source,
          longest: record.longest, computable: record.computable, search: record.search};
}
