'use strict';
// What every other part uses: elements found and made, and two functions on numbers.
// Texts of the report enter the page through textContent or a canvas's fillText alone, never as markup.

const $ = id => document.getElementById(id);
const range = n => [...Array(n).keys()];
const clamp = (value, most) => Math.max(0, Math.min(most, value));

// Makes an element. An attribute on… is a listener; others are properties where the element has them.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== 'list') made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A horizontal bar, `most` rem wide for a share of 1.
function bar(share, most, background = '') {
  const made = element('span', {className: 'bar'});
  made.style.width = `${most * share}rem`;
  made.style.background = background;
  return made;
}

// A weight or probability to so many decimals; one that would be all zeros is told as less than the last of them.
const shown = (share, decimals) => +share.toFixed(decimals) === 0 ? `<${(10 ** -decimals).toFixed(decimals).slice(1)}`
  : share.toFixed(decimals);

// A share to three decimals or, below .001, in powers of ten: 3.2·10⁻⁵.
function precise(share) {
  if (share >= 0.0005 || share === 0) return share.toFixed(3);
  const [digits, power] = share.toExponential(1).split('e');
  return `${digits}·10${[...power].map(c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]).join('')}`;
}

// A number of either sign with about two digits that count, so that small ones can be told apart.
function brief(number) {
  const size = Math.abs(number);
  if (size < 5e-6) return '0';
  return size >= 1 ? number.toFixed(size >= 10 ? 1 : 2) : `${+number.toPrecision(2)}`;
}

// A number of either sign to so many decimals; one that would be all zeros has no sign.
const rounded = (number, decimals) => (+number.toFixed(decimals) || 0).toFixed(decimals);

// A text inside another that is written from left to right: in its own direction, so that a word of Hebrew or Arabic does
// not draw the numbers and quotation marks beside it over to its other side.
const isolated = text => `\u2068${text}\u2069`;
const FROM_THE_RIGHT = new RegExp('[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2068\ufb1d-\ufdff\ufe70-\ufeff' +
  '\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]', 'u');
const inOwnDirection = text => FROM_THE_RIGHT.test(text) ? isolated(text) : text;  // all other texts stay as they are
const quoted = text => `“${inOwnDirection(text)}”`;

// A small square of a colour, for legends.
function swatch(background) {
  const made = element('span', {className: 'swatch'});
  made.style.background = background;
  return made;
}
