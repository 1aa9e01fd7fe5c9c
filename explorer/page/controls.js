// The controls above the views: which sentences, heads and units are shown. Kind and layer: architecture.js.

function showControls() {
  const heads = shape()[1];
  const fill = (select, labels, chosen) => {
    select.replaceChildren(...labels.map(([value, text]) => element('option', {value, textContent: text})));
    select.value = chosen;
  };
  const short = text => [...text].length <= 30 ? text :
    `${[...text].slice(0, 10).join('')} … ${[...text].slice(-17).join('')}`;
  const sentences = report.sentences.map((s, i) => [i, `${i + 1}: ${inOwnDirection(short(s.source || s.target))}` +
    (s.origin === report.sentences[0].origin ? '' : ` (${s.origin})`)]);
  fill($('sentence'), sentences, state.s);
  fill($('compare'), [[-1, 'nothing'], ...sentences.filter(([i]) => i !== state.s)], state.c);
  $('compare-label').hidden = report.sentences.length < 2;
  $('heads').replaceChildren(...range(heads).map(h => {
    const on = state.on.includes(h);
    const button = element('button', {type: 'button', textContent: h + 1, 'aria-pressed': on, 'data-head': h,
                                      className: h === state.h ? 'current' : ''});
    button.style.borderColor = colour(h);
    button.style.background = on ? colour(h) : 'none';
    return button;
  }));
  rove($('heads'), 'heads', square ?? state.h, {'Shift+ArrowLeft': () => toSquare(-1), 'Shift+ArrowRight': () => toSquare(1)});
  square = null;
  $('words').setAttribute('aria-pressed', state.words);
  $('pieces').setAttribute('aria-pressed', !state.words);
  $('padded').setAttribute('aria-pressed', state.padded);
  $('padded').hidden = !sentence().padded.some(Boolean);  // where nothing is known of padding
}

let square = null;  // whose head is being switched: it keeps the keyboard even where another becomes the current one

// Moves the keyboard to the square before or after, and draws nothing.
function toSquare(by) {
  const squares = [...$('heads').children], at = squares.indexOf(document.activeElement) + by + squares.length;
  squares.forEach((button, h) => { button.tabIndex = h === at % squares.length ? 0 : -1; });
  focusGroup('heads');
}

// Switches a head's arcs on or off.
function toggle(h) {
  square = h;
  const on = state.on.includes(h) ? state.on.filter(x => x !== h) : [...state.on, h].sort((a, b) => a - b);
  set({on, h: on.includes(h) ? h : on[0] ?? h});
}

const allHeads = () => set({on: range(shape()[1])});

// A click draws the squares anew, so that no dblclick event follows; the click's own count shows the second one.
$('heads').addEventListener('click', event => {
  const h = event.target.dataset.head;
  if (h !== undefined) event.detail >= 2 ? set({on: [+h], h: +h}) : toggle(+h);
});
$('sentence').addEventListener('change', event => {  // the one that stands beside changes places with it
  const s = +event.target.value;
  set({s, c: s === state.c ? state.s : state.c, a: 0});
});
$('compare').addEventListener('change', event => set({c: +event.target.value}));
$('words').addEventListener('click', () => set({words: true}));
$('pieces').addEventListener('click', () => set({words: false}));
$('padded').addEventListener('click', () => set({padded: !state.padded}));
$('all-heads').addEventListener('click', allHeads);
$('theme').addEventListener('click', () => set({theme: {'': 'dark', dark: 'light', light: ''}[state.theme]}));
$('controls').addEventListener('submit', event => event.preventDefault());
