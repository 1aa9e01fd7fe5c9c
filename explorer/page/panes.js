// The panes and their place among the panels: the chosen sentence, and another beside it if one is chosen.

let panes = [];
const activePane = () => panes[state.a];

$('panels').append(element('main', {id: 'panes'}));

function showPanes(sentences) {
  panes = [];
  sentences.forEach((one, i) => panes.push(new Pane(one, sentences[1 - i], i)));
  $('panes').className = panes.length > 1 ? 'two' : '';
  $('panes').replaceChildren(...panes.map(pane => pane.root));
  panes.forEach(pane => pane.draw());
}

window.addEventListener('resize', () => panes.forEach(pane => pane.draw()));
