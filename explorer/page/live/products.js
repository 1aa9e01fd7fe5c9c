// Arithmetic on rows of float32 numbers: matrix products, normalisation, activations, log Σ exp.
// Sums are made in double precision, JavaScript's own.

// Returns x Wᵀ + b, [rows, outputs], of x [rows, inputs] and a weight of shape [outputs, inputs]; `bias` may be absent.
function product(x, rows, weight, bias) {
  const [outputs, inputs] = weight.shape, y = new Float32Array(rows * outputs);
  let row = 0;
  for (; row + 4 <= rows; row += 4) fourRows(x, row, weight.data, inputs, outputs, y);
  for (; row < rows; row++) oneRow(x, row, weight.data, inputs, outputs, y);
  if (bias) for (let start = 0; start < y.length; start += outputs)
    for (let o = 0; o < outputs; o++) y[start + o] += bias.data[o];
  return y;
}

// Four rows and two outputs at once: six numbers are read for eight products, which is faster than one by one.
function fourRows(x, row, W, inputs, outputs, y) {
  const a = row * inputs, b = a + inputs, c = b + inputs, d = c + inputs;
  for (let o = 0; o < outputs; o += 2) {
    const first = o * inputs, hasSecond = o + 1 < outputs, second = hasSecond ? first + inputs : first;
    let a1 = 0, b1 = 0, c1 = 0, d1 = 0, a2 = 0, b2 = 0, c2 = 0, d2 = 0;
    for (let i = 0; i < inputs; i++) {
      const w1 = W[first + i], w2 = W[second + i], xa = x[a + i], xb = x[b + i], xc = x[c + i], xd = x[d + i];
      a1 += w1 * xa;
      b1 += w1 * xb;
      c1 += w1 * xc;
      d1 += w1 * xd;
      a2 += w2 * xa;
      b2 += w2 * xb;
      c2 += w2 * xc;
      d2 += w2 * xd;
    }
    const to = row * outputs + o;
    y[to] = a1;
    y[to + outputs] = b1;
    y[to + 2 * outputs] = c1;
    y[to + 3 * outputs] = d1;
    if (!hasSecond) break;
    y[to + 1] = a2;
    y[to + 1 + outputs] = b2;
    y[to + 1 + 2 * outputs] = c2;
    y[to + 1 + 3 * outputs] = d2;
  }
}

function oneRow(x, row, W, inputs, outputs, y) {
  const a = row * inputs;
  for (let o = 0, w = 0; o < outputs; o++, w += inputs) {
    let even = 0, odd = 0, i = 0;
    for (; i + 1 < inputs; i += 2) {
      even += W[w + i] * x[a + i];
      odd += W[w + i + 1] * x[a + i + 1];
    }
    if (i < inputs) even += W[w + i] * x[a + i];
    y[row * outputs + o] = even + odd;
  }
}

const sumOf = (x, y) => x.map((value, i) => value + y[i]);

// Normalises each row of x (transformer/normalization.py); `scale` and `bias` are weights, the bias may be absent.
function normalized(x, rows, {centred, epsilon, scale, bias}) {
  const width = x.length / rows, y = new Float32Array(x.length);
  for (let row = 0; row < rows; row++) {
    const start = row * width;
    let mean = 0, squares = 0;
    if (centred) {
      for (let i = 0; i < width; i++) mean += x[start + i];
      mean /= width;
    }
    for (let i = 0; i < width; i++) squares += (x[start + i] - mean) ** 2;
    const factor = 1 / Math.sqrt(squares / width + epsilon);
    for (let i = 0; i < width; i++)
      y[start + i] = (x[start + i] - mean) * factor * scale.data[i] + (bias ? bias.data[i] : 0);
  }
  return y;
}

// The error function (Abramowitz & Stegun, 1964, 7.1.26), off by 1.5e-7 at most.
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

const swish = x => x / (1 + Math.exp(-x));
// As in transformer/feed_forward.py; swiglu's product with a third matrix follows where there is one.
const ACTIVATIONS = {
  relu: x => Math.max(0, x), gelu: x => x * (1 + erf(x / Math.SQRT2)) / 2, swish, swiglu: swish};

// log Σ exp of a row of logits.
function logSumExp(logits) {
  let most = -Infinity, total = 0;
  for (let i = 0; i < logits.length; i++) if (logits[i] > most) most = logits[i];
  for (let i = 0; i < logits.length; i++) total += Math.exp(logits[i] - most);
  return most + Math.log(total);
}
