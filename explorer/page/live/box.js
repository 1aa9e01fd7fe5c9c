// The text box with its answer, and the controls of what the page computes.

let typing = 0;  // the timer of the newest key

// A sentence is translated after the key has been shown; of keys that follow each other fast, after the last.
function onTyped({timeStamp}) {
  fitBox();
  clearTimeout(typing);
  typing = setTimeout(async () => {
    await setSession({text: $('typed').value.replaceAll('\n', ' ')});
    $('live-note').textContent = `Translated and drawn in ${Math.round(performance.now() - timeStamp)} ms.`;
  });
}

// The box is as high as its text.
function fitBox() {
  const box = $('typed');
  box.style.height = 'auto';
  box.style.height = `${box.scrollHeight + box.offsetHeight - box.clientHeight}px`;
}

function keepOrDrop() {
  return state.kept ? setSession({kept: ''}) : setSession({kept: report.sentences[state.s].source});
}

function showBox() {
  const of = report.sentences[state.s], {k, l, h} = state;
  if (document.activeElement !== $('typed')) $('typed').value = of.source;
  fitBox();
  $('translation').textContent = of.target;
  $('hypotheses').replaceChildren(...(of.hypotheses ?? []).slice(1).map(({text, score}) => element('li', {},
    element('span', {dir: 'auto', textContent: text}),
    element('span', {className: 'aside', title: 'log-probability ÷ length penalty',
                     textContent: ` ${score.toFixed(2)}`}))));
  $('keep').textContent = state.kept ? '✎ let A go' : '✎ keep as A';
  $('keep').setAttribute('aria-pressed', Boolean(state.kept));
  $('kept').textContent = state.kept ? `A: ${inOwnDirection(state.kept)}` : '';
  const isClosed = closedHeads().some(({name}) => name === headName(k, l, h));
  $('close-head').replaceChildren(isClosed ? 'open ' : 'close ',
    element('span', {className: 'roomy', textContent: `layer ${l + 1}, head ${h + 1}`}),
    element('span', {className: 'tight', textContent: `${l + 1}.${h + 1}`}));
  $('close-head').setAttribute('aria-pressed', isClosed);
  $('closed').replaceChildren(...closedHeads().map(({kind, layer, head}) => element('button', {type: 'button',
    title: 'Open this head again', textContent: `${KINDS[kind]} ${layer + 1}.${head + 1} ×`,
    onclick: () => toggleHead(kind, layer, head)})));
  $('closed-heads').hidden = !state.closed;
  $('beams').value = state.beams;
  $('heat').value = state.heat;
  $('heat-value').textContent = state.heat.toFixed(1);
}

function boxElements() {
  const {suggestions, search} = report.live;
  const chip = text => element('button', {type: 'button', dir: 'auto', textContent: text, onclick: () => {
    $('typed').value = text;
    setSession({text});
  }, onfocus: ({target}) => roveChips(target)});
  const chips = element('p', {id: 'suggestions', hidden: !suggestions.length}, 'Try: ',
                        ...suggestions.flatMap(text => [chip(text), ' ']));
  roveChips(chips.querySelector('button'), chips);
  return element('section', {id: 'live', 'aria-label': 'Translate'},
    element('label', {htmlFor: 'typed', textContent: 'Type a sentence; this page translates it itself.'}),
    element('textarea', {id: 'typed', rows: 1, maxLength: 1000, dir: 'auto', spellcheck: false, oninput: onTyped}),
    chips,
    element('p', {id: 'translation', role: 'status', dir: 'auto'}),
    element('div', {id: 'live-controls'},
      element('button', {type: 'button', id: 'keep', onclick: keepOrDrop}),
      element('details', {className: 'folds'}, element('summary', {textContent: 'beam, temperature'}),
        ...searchElements(search))),
    element('p', {id: 'kept', className: 'aside', dir: 'auto'}),
    element('p', {id: 'closed-heads', className: 'aside'}, 'Closed while this page translates: ',
            element('span', {id: 'closed'})));
}

// Makes one suggestion the tab stop of all; from there arrow keys go to the one before or after it.
function roveChips(chip, chips = $('suggestions')) {
  const all = [...chips.querySelectorAll('button')], at = all.indexOf(chip);
  const go = by => () => all.at((at + by) % all.length).focus();
  rove(chips, 'suggestions', at, {ArrowRight: go(1), ArrowLeft: go(-1)});
}

// What of the search can be chosen, and what it found beside its best.
const searchElements = search => [
  element('p', {id: 'search-controls'},
    element('label', {}, 'beam size ', element('input', {type: 'number', id: 'beams', min: 1, max: MOST_BEAMS,
      onchange: event => setSession({beams: clamp(Math.round(+event.target.value) - 1, MOST_BEAMS - 1) + 1})})), ' ',
    element('label', {title: 'Logits are divided by it: above 1 likely and unlikely tokens come closer'},
      'temperature ', element('input', {type: 'range', id: 'heat', min: HEAT.least, max: HEAT.most, step: 0.1,
                        oninput: event => setSession({heat: +event.target.value})}),
      element('span', {id: 'heat-value'})), ' ',
    element('button', {type: 'button', id: 'save', textContent: 'save as a report', onclick: saveReport,
                       title: 'One file with what is shown, without the model'}),
    element('span', {id: 'live-note', className: 'aside'},
      `The run searches with ${search.beam_size === 1 ? 'no beam' : `a beam of ${search.beam_size}`}.`)),
  element('ol', {id: 'hypotheses', start: 2, 'aria-label': 'Further translations that the beam found'})];

if (report.live) {
  document.querySelector('header').before(boxElements());
  window.addEventListener('resize', fitBox);
  $('all-heads').after(' ', element('button', {type: 'button', id: 'close-head', className: 'of-live',
    title: 'What the head writes is multiplied by 0', onclick: () => toggleHead(state.k, state.l, state.h)}));
  panels.push({show: showBox, keys: {}});
}
