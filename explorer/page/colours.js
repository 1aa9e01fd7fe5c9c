// The colours of heads, of the page and of weights.

// Paul Tol's bright scheme, for colour-blind readers too, and two more; from the ninth head on they repeat.
const COLOURS = ['#4477AA', '#EE6677', '#228833', '#CCBB44', '#66CCEE', '#AA3377', '#EE7733', '#8A8F98'];
const colour = head => COLOURS[head % COLOURS.length];

// The colours of the page's light or dark theme, as page.css has them.
function theme() {
  const style = getComputedStyle(document.documentElement), value = name => style.getPropertyValue(name).trim();
  const numbers = name => value(name).split(',').map(Number);
  return {ground: value('--ground'), ink: value('--ink'), dim: value('--dim'), line: value('--line'),
          accent: value('--accent'), low: numbers('--low'), high: numbers('--high'),
          plus: numbers('--plus'), minus: numbers('--minus')};
}

const mixed = (from, to, share) => from.map((start, i) => Math.round(start + (to[i] - start) * share));

// The colour of a weight from 0 to 1.
const shade = (look, share) => `rgb(${mixed(look.low, look.high, share)})`;

// The colours of a number from -1 to 1, blue above 0 and orange below, which colour-blind readers can tell apart; and
// of text on it, black or white, whichever is easier to read there.
function signed(look, number) {
  const ground = mixed(look.low, number < 0 ? look.minus : look.plus, Math.min(1, Math.abs(number)));
  const linear = ground.map(part => (part / 255) ** 2.2);
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return {background: `rgb(${ground})`, color: luminance > 0.18 ? '#000' : '#fff'};
}
