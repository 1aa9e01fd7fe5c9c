// The sections of the page. Each file after this one that adds a panel adds it below the others: the order of the files
// in explorer/page.py is the order on the page.

const panels = [];

// Adds a section.
//   id       of the section, followed by -panel
//   title    of its heading: text and elements
//   content  elements below the heading
//   show     draws it; called whenever the state has changed, after the panes have been built
//   keys     {key: what it does}, if it has any on the keyboard
function addPanel({id, title, content, show, keys = {}}) {
  $('panels').append(element('section', {id: `${id}-panel`}, element('h2', {}, ...title), ...content));
  panels.push({show, keys});
}
