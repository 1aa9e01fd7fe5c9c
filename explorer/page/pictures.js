// Pictures for a file: a view is drawn once more, onto a pen of its own, and downloaded.
// A function draw(make) calls make(width, height) for its pen, draws, and returns the pen.

// Buttons that download a view's picture.
const exportButtons = (name, draw) => ['SVG', 'PNG'].map(format => element('button', {type: 'button',
  textContent: format, title: `Download this picture as ${format}`, onclick: () => download(format, name, draw)}));

function download(format, name, draw) {
  const file = `${state.k}-layer${state.l + 1}-head${state.h + 1}-${name}.${format.toLowerCase()}`;
  const give = blob => {
    const link = element('a', {href: URL.createObjectURL(blob), download: file});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  if (format === 'SVG') {
    const pen = draw((width, height) => new SvgPen(width, height));
    give(new Blob([pen.text()], {type: 'image/svg+xml'}));
  } else {
    const canvas = element('canvas');
    draw((width, height) => canvasPen(canvas, width, height));
    canvas.toBlob(give, 'image/png');
  }
}
