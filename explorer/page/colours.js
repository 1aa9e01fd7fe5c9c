// The colours of heads, of the page and of weights.

// Paul Tol's bright scheme, for colour-blind readers too, and two more; from the ninth head on they repeat.
const COLOURS = ['#4477AA', '#EE6677', '#228833', '#CCBB44', '#66CCEE', '#AA3377', '#EE7733', '#8A8F98'];
const colour = head => COLOURS[head % COLOURS.length];

// The colours of the page's light or dark theme, as page.css has them.
function theme() {
  const style = getComputedStyle(document.documentElement), value = name => style.getPropertyValue(name).trim();
  const numbers = name => value(name).split(',').map(Number);
  return {ground: value('--ground'), ink: value('--ink'), dim: value('--dim'), line: value('--line'),
          accent: value('--accent'), low: numbers('--low'), high: numbers('--high')};
}

// The colour of a weight from 0 to 1.
const shade = (look, share) => `rgb(${look.low.map((low, i) => Math.round(low + (look.high[i] - low) * share))})`;
