// Text to token ids and back, as SentencePiece does it without normalisation: byte-pair encoding, a unigram language
// model, or characters. explorer/live.py writes the vocabulary and refuses others.

const SPACE = '▁';  // SentencePiece's mark of a space
const UNKNOWN_TEXT = ' ⁇ ';  // how an unknown token is decoded
const UNKNOWN_COST = 10;  // of an unknown character, below the least score of a unigram model

class Subwords {
  // kind, pieces, scores; `control`, `bytes` (ids); bos, eos, unknown (ids); dummy_prefix, byte_fallback (booleans)
  constructor(record) {
    Object.assign(this, record);
    this.control = new Set(record.control);
    this.byteOf = new Map(record.bytes.map(id => [id, parseInt(this.pieces[id].slice(3, 5), 16)]));
    this.ofByte = new Map([...this.byteOf].map(([id, byte]) => [byte, id]));
    this.ids = new Map();  // of the pieces that text may be split into
    this.pieces.forEach((piece, id) => {
      if (id !== this.unknown && !this.control.has(id) && !this.byteOf.has(id)) this.ids.set(piece, id);
    });
    this.longest = Math.max(...[...this.ids.keys()].map(piece => [...piece].length));
    this.unknownScore = Math.fround([...this.ids.values()].reduce((least, id) => Math.min(least, this.scores[id]),
                                                                  Infinity) - UNKNOWN_COST);
  }

  encode(text) {
    if (!text) return [];
    const characters = [...(this.dummy_prefix ? ' ' : '') + text.toWellFormed()].map(c => c === ' ' ? SPACE : c);
    const found = [];
    for (const piece of this.kind === 'unigram' ? this.likeliest(characters) : this.merged(characters)) {
      const id = this.ids.get(piece);
      if (id !== undefined) found.push(id);
      else if (this.byte_fallback) new TextEncoder().encode(piece).forEach(byte => found.push(this.ofByte.get(byte)));
      else if (found.at(-1) !== this.unknown) found.push(this.unknown);  // several in a row are one
    }
    return found;
  }

  // Byte-pair encoding: joins the neighbours with the best score, the first of equals, while there are any.
  merged(characters) {
    const symbols = [...characters];
    const joining = i => i + 1 < symbols.length  // the last has no neighbour to join
      ? this.scores[this.ids.get(symbols[i] + symbols[i + 1])] ?? -Infinity : -Infinity;
    const scores = symbols.map((_, i) => joining(i));
    for (;;) {
      let best = 0;
      for (let i = 1; i < scores.length; i++) if (scores[i] > scores[best]) best = i;
      if (scores[best] === -Infinity) return symbols;
      symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
      scores.splice(best + 1, 1);
      scores[best] = joining(best);
      if (best) scores[best - 1] = joining(best - 1);
    }
  }

  // The likeliest segmentation under a unigram model (Viterbi), with sums in float32 as SentencePiece makes them.
  likeliest(characters) {
    const count = characters.length, from = new Int32Array(count + 1).fill(-1), best = new Float32Array(count + 1);
    for (let start = 0; start < count; start++) {
      const reach = (end, score) => {
        const total = Math.fround(score + best[start]);
        if (from[end] < 0 || total > best[end]) [from[end], best[end]] = [start, total];
      };
      let piece = '';
      for (let end = start + 1; end <= Math.min(count, start + this.longest); end++) {
        const id = this.ids.get(piece += characters[end - 1]);
        if (id !== undefined) reach(end, this.scores[id]);
        else if (end === start + 1) reach(end, this.unknownScore);
      }
    }
    const pieces = [];
    for (let end = count; end > 0; end = from[end]) pieces.unshift(characters.slice(from[end], end).join(''));
    return pieces;
  }

  decode(ids) {
    let text = '', bytes = [], isFirst = true, spaceTaken = false;
    const spell = () => { text += fromUtf8(bytes); bytes = []; };
    for (const id of ids) {
      if (this.byteOf.has(id)) { bytes.push(this.byteOf.get(id)); continue; }
      spell();
      if (spaceTaken || text) isFirst = false;
      spaceTaken = false;
      if (this.control.has(id)) continue;
      if (id === this.unknown) { text += UNKNOWN_TEXT; continue; }
      let piece = this.pieces[id];
      if (isFirst && this.dummy_prefix && piece.startsWith(SPACE)) {  // the space that encoding has put in front
        piece = piece.slice(SPACE.length);
        spaceTaken = true;
      }
      text += piece.replaceAll(SPACE, ' ');
    }
    spell();
    return text;
  }
}

// The text of UTF-8 bytes, with U+FFFD for each byte that is no part of a character.
function fromUtf8(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at], size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      text += new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(
        Uint8Array.from(bytes.slice(at, at + size)));
      at += size;
    } catch {
      text += '\ufffd';
      at++;
    }
  }
  return text;
}
