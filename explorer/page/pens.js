// Pens: one drawing goes onto a canvas or, by the same calls, into an SVG file.

// The methods of a canvas's context that the views use, written as SVG.
class SvgPen {
  constructor(width, height) {
    Object.assign(this, {width, height, parts: [], path: '', globalAlpha: 1, lineWidth: 1, strokeStyle: '#000',
                         fillStyle: '#000', font: '12px sans-serif', textAlign: 'start', turned: null});
  }
  fillRect(x, y, w, h) {
    this.add('rect', {x, y, width: w, height: h, fill: this.fillStyle, 'fill-opacity': this.globalAlpha});
  }
  strokeRect(x, y, w, h) {
    this.add('rect', {x, y, width: w, height: h, fill: 'none', stroke: this.strokeStyle,
                      'stroke-width': this.lineWidth});
  }
  beginPath() { this.path = ''; }
  moveTo(...at) { this.path += `M${at.join(' ')}`; }
  lineTo(...at) { this.path += `L${at.join(' ')}`; }
  bezierCurveTo(...at) { this.path += `C${at.join(' ')}`; }
  stroke() {
    this.add('path', {d: this.path, fill: 'none', stroke: this.strokeStyle, 'stroke-width': this.lineWidth,
                      'stroke-opacity': this.globalAlpha});
  }
  fillText(text, x, y) {
    const anchor = {end: 'end', right: 'end', center: 'middle'}[this.textAlign] ?? 'start';
    this.add('text', {x, y, fill: this.fillStyle, 'text-anchor': anchor, style: `font:${this.font}`,
                      ...(this.turned && {transform: this.turned})}, text);
  }
  add(tag, attributes, text) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes))
      made.setAttribute(name, typeof value === 'number' ? +value.toFixed(3) : value);
    if (text !== undefined) made.textContent = text;
    this.parts.push(made);
  }
  drawing() {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
    svg.append(...this.parts);
    return svg;
  }
  text() { return new XMLSerializer().serializeToString(this.drawing()); }
}

const MOST_PIXELS = 32767;  // of a side: a larger canvas stays blank, in every browser

// The context of a canvas of this size, sharp on any screen unless it is longer than a canvas can be.
function canvasPen(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, (MOST_PIXELS - 1) / width, (MOST_PIXELS - 1) / height);
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  canvas.style.aspectRatio = `${width} / ${height}`;
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

// Writes slanted text upwards from a place, for the names of columns.
function upwards(pen, text, x, y) {
  if (pen instanceof SvgPen) {
    pen.turned = `rotate(-60 ${x} ${y})`;
    pen.fillText(text, x, y);
    pen.turned = null;
    return;
  }
  pen.save();
  pen.translate(x, y);
  pen.rotate(-Math.PI / 3);
  pen.fillText(text, 0, 0);
  pen.restore();
}

// Hatches a square where there is no weight: padding densely, the future lightly.
function hatch(pen, x, y, size, look, dense) {
  pen.strokeStyle = dense ? look.dim : look.line;
  pen.lineWidth = 1;
  pen.beginPath();
  const gap = dense ? 4 : 6;
  for (let d = gap; d < 2 * size; d += gap) {
    pen.moveTo(x + Math.max(0, d - size), y + Math.min(d, size));
    pen.lineTo(x + Math.min(d, size), y + Math.max(0, d - size));
  }
  pen.stroke();
}
