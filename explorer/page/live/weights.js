// The model's weights, unpacked to float32: 16-bit floats or, for matrices, 8-bit integers with a scale for each row.
// explorer/live_weights.py writes them.

// The number that a 16-bit float stands for.
function fromHalf(bits) {
  const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * (1 + fraction / 1024) * 2 ** (exponent - 15) : sign * fraction * 2 ** -24;
}

// Returns {name: {shape, data}}; matrices are [outputs, inputs].
async function unpackWeights({format, tensors, data}) {
  const buffer = await inflate(data), weights = {};
  const numbers = Float32Array.from({length: 1 << 16}, (_, bits) => fromHalf(bits));
  let at = 0;
  const take = (Type, count) => new Type(buffer.slice(at, at += count * Type.BYTES_PER_ELEMENT));
  for (const [name, shape] of tensors) {
    const unpacked = new Float32Array(shape.reduce((a, b) => a * b, 1));
    if (format === 'int8' && shape.length === 2) {
      const scales = take(Float32Array, shape[0]), integers = take(Int8Array, unpacked.length);
      for (let i = 0; i < integers.length; i++) unpacked[i] = integers[i] * scales[Math.floor(i / shape[1])];
    } else {
      const halves = take(Uint16Array, unpacked.length);
      for (let i = 0; i < halves.length; i++) unpacked[i] = numbers[halves[i]];
    }
    weights[name] = {shape, data: unpacked};
  }
  return weights;
}
