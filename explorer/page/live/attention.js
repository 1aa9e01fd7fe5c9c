// Multi-head attention (§3.2.2) on rows of numbers, as transformer/attention.py computes it: scores, weights, context.
// The rows of a text and the newest tokens of a beam are computed alike: each row has a list of the entries it may see.

// Keys and values that rows attend to, and that further rows are added to: [entries, heads * width] each.
class Entries {
  constructor(keyWidth, valueWidth, room) {
    Object.assign(this, {keyWidth, valueWidth, count: 0, keys: new Float32Array(room * keyWidth),
                         values: new Float32Array(room * valueWidth)});
  }

  add(keys, values, count) {
    const grown = (old, more, width) => {
      const needed = (this.count + count) * width;
      if (needed > old.length) {
        const larger = new Float32Array(2 * needed);
        larger.set(old);
        old = larger;
      }
      old.set(more, this.count * width);
      return old;
    };
    this.keys = grown(this.keys, keys, this.keyWidth);
    this.values = grown(this.values, values, this.valueWidth);
    this.count += count;
  }
}

class Attention {
  // options: the model's record; weights: all; name: of this attention's parameters; side: 'encoder' or 'decoder',
  // whose positions count, or null in cross-attention; layer: its number.
  constructor(options, weights, name, side, layer) {
    const own = (part, ofScore = '') => weights[`${name}.${ofScore}${part}`];
    Object.assign(this, {options, side, layer, own, score: options.score,
                         multiplicative: own('w_score', 'score.'), additive: own('v_score', 'score.')});
    const table = part => side && options.positions === 'relative' ? this.ofLayer(weights[`${side}_positions.${part}`])
      : null;
    this.keyTable = table('key_table');
    this.valueTable = table('value_table');
    this.biasTable = side && options.positions === 't5' ? weights[`${side}_positions.bias_table`] : null;
    this.turns = side && options.positions === 'rotary';
  }

  // The rows of this layer in a table whose first axis is layers.
  ofLayer({shape: [layers, rows, width], data}) {
    return {width, data: data.subarray(this.layer * rows * width, (this.layer + 1) * rows * width)};
  }

  project(x, rows, part) { return product(x, rows, this.own(`w_${part}`), this.own(`b_${part}`)); }

  // The queries of rows at these places.
  queries(x, rows, places) {
    const {heads, key_size} = this.options;
    let q = this.project(x, rows, 'query');
    if (this.multiplicative) q = this.scored(q, rows);
    if (this.turns) this.turn(q, rows, heads, key_size, places);
    return q;
  }

  // q W for each head, the score of Luong et al.
  scored(q, rows) {
    const {heads, key_size} = this.options, W = this.multiplicative.data, y = new Float32Array(q.length);
    for (let row = 0; row < rows; row++) for (let h = 0; h < heads; h++)
      for (let c = 0, start = (row * heads + h) * key_size; c < key_size; c++) {
        let sum = 0;
        for (let k = 0; k < key_size; k++) sum += q[start + k] * W[(h * key_size + k) * key_size + c];
        y[start + c] = sum;
      }
    return y;
  }

  // Adds the keys and values of rows at these places to entries.
  remember(x, rows, entries, places) {
    const keys = this.project(x, rows, 'key');
    if (this.turns) this.turn(keys, rows, this.options.kv_heads, this.options.key_size, places);
    entries.add(keys, this.project(x, rows, 'value'), rows);
  }

  // Rotates pairs of columns by angles that grow with the place (rotary positions), in place.
  turn(x, rows, heads, width, places) {
    const {layout, wavenumbers} = this.options, half = width / 2;
    for (let row = 0; row < rows; row++) for (let i = 0; i < half; i++) {
      const angle = places[row] * wavenumbers[i], cos = Math.cos(angle), sin = Math.sin(angle);
      const [first, second] = layout === 'halves' ? [i, i + half] : [2 * i, 2 * i + 1];
      for (let h = 0, start = row * heads * width; h < heads; h++, start += width) {
        const a = x[start + first], b = x[start + second];
        x[start + first] = a * cos - b * sin;
        x[start + second] = a * sin + b * cos;
      }
    }
  }

  // The row of a table of distances for an entry seen from a place, both counted in tokens of their text.
  distance(entry, place, reach) { return Math.max(-reach, Math.min(reach, entry - place)) + reach; }

  // The scores of a query for the entries of its list.
  scoresOf(q, start, head, keys, list, place) {
    const {heads, kv_heads, key_size, divisor, clip, buckets} = this.options, scores = new Float32Array(list.length);
    const group = Math.floor(head / (heads / kv_heads)) * key_size, edges = this.keyTable, v = this.additive?.data;
    for (let m = 0; m < list.length; m++) {
      const key = list[m] * kv_heads * key_size + group;
      const edge = edges ? this.distance(m, place, clip) * key_size : 0;
      let sum = 0;
      if (v) for (let k = 0; k < key_size; k++)
        sum += v[head * key_size + k] * Math.tanh(q[start + k] + keys[key + k] + (edges ? edges.data[edge + k] : 0));
      else if (edges) for (let k = 0; k < key_size; k++) sum += q[start + k] * (keys[key + k] + edges.data[edge + k]);
      else for (let k = 0; k < key_size; k++) sum += q[start + k] * keys[key + k];
      scores[m] = sum / divisor;
      if (this.biasTable)
        scores[m] += this.biasTable.data[buckets[this.side][this.distance(m, place, buckets.reach)] * heads + head];
    }
    return scores;
  }

  // Attends with rows of queries to entries, each row to those of its list; returns what the layer adds, [rows, width].
  // gates: for each head what its output is multiplied by. record(row, head, weights), if given, gets the weights.
  attend(q, rows, entries, lists, places, gates, record) {
    const {heads, kv_heads, key_size, value_size, clip} = this.options;
    const context = new Float32Array(rows * heads * value_size);
    for (let row = 0; row < rows; row++) for (let h = 0; h < heads; h++) {
      const list = lists[row], group = Math.floor(h / (heads / kv_heads)) * value_size;
      const weights = this.scoresOf(q, (row * heads + h) * key_size, h, entries.keys, list, places[row]);
      softmax(weights);
      record?.(row, h, weights);
      const to = (row * heads + h) * value_size;
      for (let m = 0; m < list.length; m++) {
        const value = list[m] * kv_heads * value_size + group, weight = weights[m] * gates[h];
        for (let u = 0; u < value_size; u++) context[to + u] += weight * entries.values[value + u];
        if (!this.valueTable) continue;
        const edge = this.distance(m, places[row], clip) * value_size;
        for (let u = 0; u < value_size; u++) context[to + u] += weight * this.valueTable.data[edge + u];
      }
    }
    return this.project(context, rows, 'out');
  }
}
