// Where the keyboard is: groups of buttons that are one tab stop each, and links to parts of the page.

// Makes a group of buttons one tab stop: the chosen one, or the first. With null, none is. `moves`: what keys do inside
// the group; a key that is not among them does what it does everywhere.
function rove(group, name, chosen, moves = {}) {
  const buttons = [...group.querySelectorAll('button')];
  group.dataset.roving = name;
  group.moves = moves;
  buttons.forEach((button, i) => {
    button.tabIndex = chosen !== null && i === (buttons[chosen] ? chosen : 0) ? 0 : -1;
  });
}

const groupOfFocus = () => document.activeElement?.closest('[data-roving]')?.dataset.roving;

// Puts the focus on the tab stop of a group, which has been drawn anew or has another button chosen.
const focusGroup = name => document.querySelector(`[data-roving="${name}"] [tabindex="0"]`)?.focus();

// What arrow keys do in a table with a row for each layer and a column for each head.
const headMoves = {ArrowUp: () => set({l: state.l - 1}), ArrowDown: () => set({l: state.l + 1})};

// Links within the page leave the address alone: it keeps the state.
document.addEventListener('click', event => {
  const place = event.target.closest?.('a.jump')?.hash.slice(1);
  if (!place) return;
  event.preventDefault();
  $(place).tabIndex = -1;
  $(place).focus();
  $(place).scrollIntoView();
});

// What is scrolled to stands below the bar, not behind it.
new ResizeObserver(() => {
  const isSticky = getComputedStyle($('bar')).position === 'sticky';
  document.documentElement.style.scrollPaddingTop = `${isSticky ? $('bar').offsetHeight + 6 : 0}px`;
}).observe($('bar'));

// On a wide screen all controls are in sight; on a narrow one some are folded away until they are asked for.
const wide = matchMedia('(min-width: 801px)');
const foldControls = () => document.querySelectorAll('details.folds').forEach(part => { part.open = wide.matches; });
wide.addEventListener('change', foldControls);

// There the sheet of controls lies over the tokens until something else is pressed.
document.addEventListener('click', event => {
  if (!wide.matches && !event.target.closest?.('#more')) $('more').open = false;
});
