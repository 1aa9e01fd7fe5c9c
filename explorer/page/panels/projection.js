// The step before the scores, repeated in the page: a token's vector x times a head's matrix W is its query, or its key.

let matrices = null;  // of queries and keys, by kind: parts as rowsOf() in data.js reads them

if (report.projected?.matrices) preparations.push(inflateShares(report.projected.matrices).then(numbers => {
  matrices = report.projected.matrices.parts.map((part, i) => ({...part, numbers: numbers[i]}));
}));

// x W of the query or the key of a piece: x [d_model], the matrix's columns [d_k][d_model], and the sums x W [d_k].
function project(of, kind, side, layer, head, piece) {
  const part = matrices.find(p => p.kind === kind && p.role === side), [, heads] = of.shapes[kind];
  const columns = rowsOf(part, layer, Math.floor(head / (heads / part.shape[1])));  // heads may share keys
  const x = inputs(of, kind, side, layer)[piece];
  return {x, columns, sums: columns.map(column => column.reduce((sum, w, i) => sum + w * x[i], 0))};
}

// Draws rows of numbers as cells, a pixel each, which the style sheet enlarges: blue above 0, orange below.
function drawCells(canvas, rows, most) {
  const {low, plus, minus} = theme(), [height, width] = [rows.length, rows[0].length];
  Object.assign(canvas, {width, height});
  const image = new ImageData(width, height);
  rows.forEach((row, r) => row.forEach((number, c) => image.data.set(
    [...mixed(low, number < 0 ? minus : plus, Math.min(1, Math.abs(number) / most)), 255], 4 * (r * width + c))));
  canvas.getContext('2d').putImageData(image, 0, 0);
}

// The picture of one side: x above the matrix, whose row j is the column j of W, what they give on the right, and below
// the products of the chosen row.
function drawProjection(side, label, {x, columns, sums}, result, j) {
  const letter = side === 'query' ? 'q' : 'k', weight = side === 'query' ? 'W^Q' : 'W^K';
  const products = columns[j].map((w, i) => w * x[i]), canvas = element('canvas', {role: 'img',
    'aria-label': `${weight}: ${columns.length} rows, one for each number of ${letter}, of ${x.length} cells`});
  drawCells(canvas, columns, farthest(columns.flat()));
  canvas.addEventListener('click', ({clientY}) => {
    const {top, height} = canvas.getBoundingClientRect();
    toNumber(Math.floor((clientY - top) / height * columns.length));
  });
  const marker = element('div', {className: 'marker'}), made = element('canvas', {role: 'img',
    'aria-label': `${letter}: ${columns.length} numbers`});
  Object.assign(marker.style, {top: `${100 * j / columns.length}%`, height: `${100 / columns.length}%`});
  drawCells(made, result.map(number => [number]), farthest(result));
  const own = {name: `x ${quoted(label)}`, numbers: x, most: farthest(x), saying: i => exact(x[i])};
  const terms = {name: `x · row ${j + 1}`, numbers: products, most: farthest(products),
                 saying: i => `${exact(x[i])} × ${exact(columns[j][i])} = ${exact(products[i])}`};
  return element('div', {className: 'projection'},
    nameOf(own.name), strip(own), element('span'),
    nameOf(weight), element('div', {className: 'matrix'}, canvas, marker), made,
    nameOf(terms.name), strip(terms), element('span'),
    element('p', {className: 'legend'}, ...sumLegend(products, saying(letter, j, sums[j], result[j]))));
}

// What becomes of a sum x W_j.
function saying(letter, j, sum, result) {
  const {rotary, biased} = report.projected, turned = rotary && state.k !== 'cross';
  const then = turned ? '; the position of its token then turns it with its neighbours' : '';
  if (biased && turned) return `the products add up to ${sum.toFixed(2)}, to which number ${j + 1} of ${letter} adds its bias${then}.`;
  return biased ? `the products add up to ${sum.toFixed(2)}, with its bias ${letter} has the number ${result.toFixed(2)}.`
    : `the products add up to number ${j + 1} of ${letter} = ${sum.toFixed(2)}${then}.`;
}

// Shows how another number of q and k is made.
function toNumber(j) {
  state.d = j;
  showProjection();
  save();
}

function showProjection() {
  const of = sentence();
  const pieces = matrices && inputs(of, state.k, 'query', state.l) ? chosenPieces(of) : null;
  $('projection-panel').hidden = !pieces;
  if (!pieces) return;
  const {query, key, found, queryUnit, keyUnits} = pieces, width = found.q.length, j = clamp(state.d, width - 1);
  Object.assign($('dimension'), {max: width, value: j + 1});
  $('dimension-count').textContent = `${j + 1} of ${width}`;
  const turned = report.projected.rotary && state.k !== 'cross';
  const sides = [['query', query, madeFrom(queryUnit), found.q], ['key', key, keyUnits[key].label, found.keys[key]]];
  $('projections').replaceChildren(...sides.map(([side, piece, label, result]) => {
    const projected = project(of, state.k, side, state.l, state.h, piece);
    return drawProjection(side, label, projected, turned ? projected.sums : result, j);
  }));
}

addPanel({
  id: 'projection',
  title: ['Where the query and the key come from'],
  content: [
    element('p', {className: 'aside', textContent: 'A token’s vector x times the head’s matrix: each row below is a ' +
      'column of the matrix, and what its products with x add up to is the number on its right. Shades are shares of ' +
      'the largest number in each part.'}),
    element('p', {}, element('label', {htmlFor: 'dimension', textContent: 'Number '}),
      element('input', {type: 'range', id: 'dimension', min: 1, value: 1, oninput: event => toNumber(+event.target.value - 1)}),
      ' ', element('span', {id: 'dimension-count'})),
    element('div', {id: 'projections', className: 'columns'})],
  show: showProjection,
});
