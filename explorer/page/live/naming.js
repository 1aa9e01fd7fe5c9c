// The names of tokens for the axes of a map, piece by piece and word by word, as explorer/texts.py makes them.

const MARK = /^\p{M}/u;  // drawn on the character before it, such as a vowel sign or a combining accent
const CONTINUES = /^[\p{L}\p{N}\p{M}'’-]$/u;  // a character that can continue a word
// Letters of scripts that have no spaces: each piece begins a word.
const STANDS_ALONE = new RegExp('^[\u3041-\u3096\u309d-\u309f\u30a1-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff' +
  '\uf900-\ufaff\u{20000}-\u{3ffff}\u0e01-\u0e5b\u0e81-\u0edf\u1780-\u17ff]$', 'u');
const isLetter = character => CONTINUES.test(character) && !STANDS_ALONE.test(character);

// A text without the spaces around it, those that Python's strip() takes away.
const stripped = text => text.replace(/^(?:[^\S\ufeff]|[\x1c-\x1f\x85])+|(?:[^\S\ufeff]|[\x1c-\x1f\x85])+$/g, '');

// Whether a piece begins a word after the piece `before`, '' at the text's beginning.
function beginsWord(before, piece) {
  if (!before || piece.startsWith(SPACE)) return true;
  if (!piece) return false;  // a further byte of the same character
  return before !== SPACE && !MARK.test(piece) && !(isLetter([...before].at(-1)) && isLetter([...piece][0]));
}

// Pieces with bytes replaced by the character that they spell, at its first byte, and by '' at its other bytes.
function spelt(ids, vocabulary) {
  const values = ids.map(id => vocabulary.byteOf.get(id));
  return ids.map((id, at) => {
    const value = values[at];
    if (value === undefined) return vocabulary.pieces[id];
    if (value >= 0x80 && value < 0xc0) return '';
    const size = value < 0xc0 ? 1 : value < 0xe0 ? 2 : value < 0xf0 ? 3 : 4;
    return new TextDecoder().decode(Uint8Array.from(values.slice(at, at + size).filter(v => v !== undefined)));
  });
}

const pieceName = (piece, begins) => (begins ? '' : '·') + (piece.replace(/^▁/, '') || SPACE);

const specialName = (id, vocabulary) => ({[vocabulary.bos]: '⟨bos⟩', [vocabulary.eos]: '⟨eos⟩'})[id];

// The text of ids, BOS and EOS included, as a record of a report has it.
function namedText(ids, vocabulary) {
  const special = ids.map(id => specialName(id, vocabulary) !== undefined), added = spelt(ids, vocabulary);
  const wordOfPiece = [], pieces = [], words = [];
  let before = '';
  ids.forEach((id, at) => {
    const begins = special[at] || beginsWord(before, added[at]);
    before = special[at] ? '' : added[at] || before;
    if (begins) words.push([]);
    words.at(-1).push(id);
    wordOfPiece.push(words.length - 1);
    pieces.push(specialName(id, vocabulary) ?? pieceName(vocabulary.pieces[id], begins));
  });
  const text = word => stripped(vocabulary.decode(word).replaceAll('\n', '\\n'));
  const wordName = word => specialName(word[0], vocabulary) ?? (text(word) || SPACE);
  return {pieces, words: words.map(wordName), word_of_piece: wordOfPiece, special};
}

// The name of a token outside a text, such as a candidate for the next one. A comma begins a word with a space before it
// and without: to tell the two, the space is shown.
function tokenName(id, vocabulary) {
  const piece = vocabulary.pieces[id], bare = piece.replace(/^▁/, '');
  if (piece !== bare && bare && beginsWord('x', bare)) return specialName(id, vocabulary) ?? piece;
  return specialName(id, vocabulary) ?? pieceName(piece, beginsWord('x', piece));
}
