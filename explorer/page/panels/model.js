// The model: its size, run, search and scores.

function showModel() {
  $('card').replaceChildren(...report.card.flatMap(([name, value]) =>
    [element('dt', {textContent: name}), element('dd', {textContent: value})]));
}

addPanel({id: 'card', title: ['The model'], content: [element('dl', {id: 'card'})], show: showModel});
