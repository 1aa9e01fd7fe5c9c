// While it trained: a slider over the snapshots of training, and a chart of one weight in all of them.

// The snapshot that is shown, in words.
const snapshotName = () => {
  const {step} = report.training[state.e];
  return step ? `After ${step.toLocaleString('en')} update${step > 1 ? 's' : ''}` : 'Before training';
};

const toSnapshot = e => set({e: clamp(e, report.training.length - 1)});

// The weight that the chart follows: the chosen one, or the largest of the chosen query; null without a choice.
function followed() {
  if (state.q === null) return null;
  const pane = activePane(), row = range(pane.keys.length).map(j => pane.heatMap.map.at(state.q, j));
  return {q: state.q, m: state.m ?? row.indexOf(Math.max(...row))};
}

// Where the chart has a snapshot (x) and a weight (y), in pixels.
function chartGeometry() {
  const width = clamp($('chart').parentNode.clientWidth || 600, 760), [left, right, top, height] = [34, 14, 8, 120];
  const most = Math.max(1, report.training.at(-1).step);
  return {width, height, left, x: e => left + (width - left - right) * report.training[e].step / most,
          y: weight => top + (height - top - 22) * (1 - weight)};
}

// The followed weight in every snapshot, a line for each head that is on, and a line where the slider stands.
function drawChart(make) {
  const {width, height, left, x, y} = chartGeometry(), look = theme(), cell = followed();
  const pen = make(width, height), snapshots = range(report.training.length), last = snapshots.length - 1;
  pen.fillStyle = look.ground;
  pen.fillRect(0, 0, width, height);
  const line = (points, style, wide) => {
    pen.strokeStyle = style;
    pen.lineWidth = wide;
    pen.beginPath();
    points.forEach((at, i) => i ? pen.lineTo(...at) : pen.moveTo(...at));
    pen.stroke();
  };
  pen.font = '11px sans-serif';
  pen.fillStyle = look.dim;
  pen.textAlign = 'end';
  for (const weight of [0, 0.5, 1]) {
    line([[left, y(weight)], [x(last), y(weight)]], look.line, 1);
    pen.fillText(weight.toFixed(1), left - 6, y(weight) + 4);
  }
  if (last) pen.fillText(`${report.training[last].step.toLocaleString('en')} updates`, x(last), height - 4);
  pen.textAlign = 'start';
  pen.fillText('0', left, height - 4);
  const weight = (h, e) => attentionMap(sentence(), state.k, state.l, h, state.words, e).at(cell.q, cell.m);
  for (const h of cell ? state.on : []) line(snapshots.map(e => [x(e), y(weight(h, e))]), colour(h), 2.5);
  line([[x(state.e), y(1)], [x(state.e), y(0)]], look.ink, 1.5);
  return pen;
}

function showTraining() {
  const {summary} = report.training[state.e], pane = activePane(), cell = followed();
  Object.assign($('snapshot'), {max: report.training.length - 1, value: state.e});
  $('snapshot-text').textContent = [snapshotName(), summary,
    `log-probability of the text ${sentence().log_probs[state.e].toFixed(2)}`].filter(Boolean).join(' · ');
  $('chart-caption').replaceChildren(...(cell ? [
    `How much ${quoted(pane.queries[cell.q].label)} attends to ${quoted(pane.keys[cell.m].label)}: layer ${state.l + 1}, ` +
    `head ${state.on.map(h => h + 1).join(', ') || '–'}`,
    element('span', {}, ...exportButtons('training', drawChart))] : ['Choose a query to follow its weight.']));
  drawChart((width, height) => { $('chart').style.width = `${width}px`; return canvasPen($('chart'), width, height); });
}

let trainingTimer = null;  // while it plays

function playTraining() {
  const stop = () => { clearInterval(trainingTimer); trainingTimer = null; $('play-training').textContent = 'play'; };
  if (trainingTimer) return stop();
  const last = report.training.length - 1;
  $('play-training').textContent = 'pause';
  toSnapshot(state.e >= last ? 0 : state.e + 1);
  trainingTimer = setInterval(() => state.e >= last ? stop() : toSnapshot(state.e + 1), 500);
}

// Goes to the snapshot nearest to a click into the chart.
function chooseSnapshot(event) {
  const {x, width} = chartGeometry(), box = $('chart').getBoundingClientRect();
  const at = (event.clientX - box.left) * width / box.width, far = e => Math.abs(x(e) - at);
  toSnapshot(range(report.training.length).reduce((best, e) => far(e) < far(best) ? e : best));
}

$('training-keys').hidden = !report.training;
if (report.training) addPanel({
  id: 'training',
  title: ['While it trained'],
  content: [
    element('p', {className: 'slider'},
      element('button', {type: 'button', id: 'play-training', textContent: 'play', onclick: playTraining}),
      element('input', {type: 'range', id: 'snapshot', min: 0, value: 0, 'aria-label': 'Snapshot of training',
                        oninput: event => toSnapshot(+event.target.value)}),
      element('span', {id: 'snapshot-text', role: 'status'})),
    element('div', {className: 'caption', id: 'chart-caption'}),
    element('div', {}, element('canvas', {id: 'chart', role: 'img', onclick: chooseSnapshot,
                                          'aria-label': 'The weight in every snapshot of training'}))],
  show: showTraining,
  keys: {'<': () => toSnapshot(state.e - 1), '>': () => toSnapshot(state.e + 1)},
});
