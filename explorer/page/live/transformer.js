// The encoder-decoder (Figure 1) in typed arrays, for one sentence without padding: the same as transformer/model.py.
// A cached step of W hypotheses and a whole target are one function, decode(): rows with their places and entries.

class LiveModel {
  // options: the model's record, see explorer/live.py; weights: as unpackWeights() returns them.
  constructor(options, weights) {
    Object.assign(this, {options, weights});
    const attention = (name, side, layer) => new Attention(options, weights, name, side, layer);
    this.encoder = range(options.layers.encoder).map(l => ({name: `encoder_layers_${l}`,
      self: attention(`encoder_layers_${l}.self_attention`, 'encoder', l)}));
    this.decoder = range(options.layers.decoder).map(l => ({name: `decoder_layers_${l}`,
      self: attention(`decoder_layers_${l}.self_attention`, 'decoder', l),
      cross: attention(`decoder_layers_${l}.cross_attention`, null, l)}));
    this.openAll();
  }

  // Opens the gates of all heads: gates[kind][layer][head] is what the head's output is multiplied by.
  openAll() {
    const {layers, heads} = this.options, open = count => range(count).map(() => range(heads).map(() => 1));
    this.gates = {encoder: open(layers.encoder), decoder: open(layers.decoder), cross: open(layers.decoder)};
  }

  norm(name, x, rows) {
    const {normalization, epsilon} = this.options, part = which => this.weights[`${name}.${which}`];
    const centred = normalization === 'layer_norm';
    return normalized(x, rows, {centred, epsilon, scale: part('scale'), bias: part('bias')});
  }

  // A sub-layer with what stands around it: normalisation and addition, §3.1.
  around(name, x, rows, sublayer) {
    return this.options.norm === 'pre' ? sumOf(x, sublayer(this.norm(`${name}.norm`, x, rows)))
      : this.norm(`${name}.norm`, sumOf(x, sublayer(x)), rows);
  }

  // The stream after the last layer, which only pre-norm leaves unnormalised.
  finished(side, x, rows) { return this.options.norm === 'pre' ? this.norm(`${side}_norm`, x, rows) : x; }

  feedForward(name, x, rows) {
    const part = which => this.weights[`${name}.feed_forward.${which}`];
    const activation = ACTIVATIONS[this.options.activation], hidden = product(x, rows, part('w1'), part('b1'));
    for (let i = 0; i < hidden.length; i++) hidden[i] = activation(hidden[i]);
    if (part('w_gate')) {
      const gate = product(x, rows, part('w_gate'));
      for (let i = 0; i < hidden.length; i++) hidden[i] *= gate[i];
    }
    return product(hidden, rows, part('w2'), part('b2'));
  }

  // Embeddings times √d_model plus positions (§3.4, §3.5).
  embed(side, ids, places) {
    const {width, tables, positions} = this.options, table = this.weights[tables[side]].data;
    const x = new Float32Array(ids.length * width), factor = Math.sqrt(width);
    const learned = this.weights[`${side === 'source' ? 'encoder' : 'decoder'}_positions.table`]?.data;
    ids.forEach((id, row) => {
      for (let d = 0; d < width; d++)
        x[row * width + d] = table[id * width + d] * factor + (learned ? learned[places[row] * width + d] : 0);
      if (positions === 'sinusoidal') this.addSines(x, row * width, places[row]);
    });
    return x;
  }

  addSines(x, start, place) {
    const {width, layout, wavenumbers} = this.options, half = width / 2;
    wavenumbers.forEach((wave, i) => {
      const [first, second] = layout === 'halves' ? [i, i + half] : [2 * i, 2 * i + 1];
      x[start + first] += Math.sin(place * wave);
      x[start + second] += Math.cos(place * wave);
    });
  }

  entries(room) {
    const {kv_heads, key_size, value_size} = this.options;
    return new Entries(kv_heads * key_size, kv_heads * value_size, room);
  }

  // Encodes ids, which end in EOS; returns for each decoder layer the entries of cross-attention. `seen`: see decode().
  encode(ids, seen) {
    const rows = ids.length, places = range(rows), everything = places.map(() => places);
    let x = this.embed('source', ids, places);
    this.encoder.forEach(({name, self}, l) => {
      x = this.around(`${name}.around_self`, x, rows, y => {
        const entries = this.entries(rows), q = self.queries(y, rows, places);
        self.remember(y, rows, entries, places);
        seen?.operands('encoder', l, y, q, entries);
        return self.attend(q, rows, entries, everything, places, this.gates.encoder[l], seen?.recorder('encoder', l));
      });
      x = this.around(`${name}.around_feed_forward`, x, rows, y => this.feedForward(name, y, rows));
    });
    const memory = this.finished('encoder', x, rows);
    seen?.afterEncoder(memory);
    return this.decoder.map(({cross}) => {
      const entries = this.entries(rows);
      cross.remember(memory, rows, entries, places);
      return entries;
    });
  }

  // A cache for decode(): nothing is read yet. `memory` is what encode() returned.
  start(memory) { return {memory, past: this.decoder.map(() => this.entries(16))}; }

  // Reads one token in each row and returns the last layer's output, [rows, width]; the cache grows by as many entries.
  // places: of the rows in their text. lists: for each row the entries of the cache that it may see, in the order of
  // their text, its own included. seen, if given: records weights, operands and each layer's output.
  decode(cache, ids, places, lists, seen) {
    const rows = ids.length, sources = range(cache.memory[0].count), everything = ids.map(() => sources);
    let x = this.embed('target', ids, places);
    this.decoder.forEach(({name, self, cross}, l) => {
      x = this.around(`${name}.around_self`, x, rows, y => {
        const q = self.queries(y, rows, places);
        self.remember(y, rows, cache.past[l], places);
        seen?.operands('decoder', l, y, q, cache.past[l]);
        return self.attend(q, rows, cache.past[l], lists, places, this.gates.decoder[l], seen?.recorder('decoder', l));
      });
      x = this.around(`${name}.around_cross`, x, rows, y => {
        const q = cross.queries(y, rows, places);
        seen?.operands('cross', l, y, q, cache.memory[l]);
        return cross.attend(q, rows, cache.memory[l], everything, places, this.gates.cross[l],
                            seen?.recorder('cross', l));
      });
      x = this.around(`${name}.around_feed_forward`, x, rows, y => this.feedForward(name, y, rows));
      seen?.afterLayer(this.finished('decoder', x, rows));
    });
    return this.finished('decoder', x, rows);
  }

  // The output projection (§3.4): [rows, V].
  logits(x, rows) { return product(x, rows, this.weights[this.options.tables.output], this.weights.output_bias); }

  // A step function for search.js: step(tokens, parents) gives each hypothesis its next token and returns the logits of
  // the one after, [hypotheses, V]; parents are places among the hypotheses of the call before.
  stepper(memory) {
    const cache = this.start(memory);
    let lists = [[]], place = 0;
    return (tokens, parents) => {
      const written = cache.past[0].count;
      lists = parents.map((parent, i) => [...lists[parent], written + i]);
      const states = this.decode(cache, tokens, tokens.map(() => place), lists);
      place++;
      return this.logits(states, tokens.length);
    };
  }
}
