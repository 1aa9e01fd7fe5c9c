// The beam search as a tree: every hypothesis that was considered.

const [BEAM_WIDE, BEAM_HIGH] = [134, 19];  // pixels of an entry

// A column for each step, hypotheses best first: kept, pruned (dim) and finished (with their score), the result's path
// bold; the column of the step that is shown above stands on a ground of its own.
function drawBeam(make) {
  const {nodes, best} = sentence().beam, look = theme(), [wide, high] = [BEAM_WIDE, BEAM_HIGH];
  const rows = new Map();
  const places = nodes.map(([, step]) => {
    rows.set(step, (rows.get(step) ?? -1) + 1);
    return [step, rows.get(step)];
  });
  const width = (rows.size + 1) * wide, height = (Math.max(...rows.values()) + 1) * high + 8;
  const pen = make(width, height);
  pen.fillStyle = look.ground;
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = look.line;
  pen.fillRect(state.t * wide + 20, 0, wide, height);
  nodes.forEach(([parent, , label, logProb, fate, score], n) => {
    const [step, row] = places[n], [x, y] = [step * wide + 26, row * high + 17], onPath = best.includes(n);
    pen.fillStyle = {kept: look.ink, pruned: look.dim, finished: look.accent}[fate];
    pen.font = `${onPath ? 'bold ' : fate === 'pruned' ? 'italic ' : ''}12px sans-serif`;
    const number = score === null ? logProb.toFixed(2) : `■ ${score.toFixed(2)}`;
    pen.fillText(`${inOwnDirection([...label].slice(0, 9).join(''))} ${number}`, x, y);
    pen.strokeStyle = onPath ? look.accent : fate === 'pruned' ? look.line : look.dim;
    pen.lineWidth = onPath ? 2.5 : 1;
    pen.beginPath();
    pen.moveTo(parent < 0 ? 2 : places[parent][0] * wide + wide - 4, parent < 0 ? 13 : places[parent][1] * high + 13);
    pen.lineTo(x - 4, y - 4);
    pen.stroke();
  });
  return pen;
}

// What the length penalty is, and what it comes to for the result.
function penaltyInWords({nodes, best, penalty}) {
  const [, , , logProb, , score] = nodes[best.at(-1)];
  return penalty + (score ? `: ${(logProb / score).toFixed(2)} for the ${best.length} tokens of the result` : '');
}

function showBeam() {
  const {beam} = sentence();
  $('beam-panel').hidden = !beam;
  if (!beam) return;
  $('beam').hidden = Boolean(beam.refused);
  if (beam.refused) return $('beam-text').replaceChildren(`There is no tree of this search. ${beam.refused}`);
  const count = fate => beam.nodes.filter(node => node[4] === fate).length;
  let text = 'Each column is a step, each entry a hypothesis with its log-probability, ■ a finished one with its ' +
    `score, its log-probability divided by the length penalty (${penaltyInWords(beam)}): ` +
    `${count('kept')} kept, ${count('finished')} finished, ${count('pruned')} pruned (dim). `;
  if (beam.left?.least_kept === null) text += `The reference stays in the beam until the search ends after step ` +
    `${beam.left.step}, before it comes to the reference’s ${quoted(beam.left.token)}.`;
  else if (beam.left) text += `The reference leaves the beam at step ${beam.left.step + 1} with ` +
    `${quoted(beam.left.token)}: its log-probability is ${beam.left.log_prob.toFixed(2)} there, that of the worst kept hypothesis ` +
    `${beam.left.least_kept.toFixed(2)}.`;
  else if (beam.compared) text += 'The reference stays in the beam.';
  $('beam-text').replaceChildren(text, ' ', ...exportButtons('beam', drawBeam));
  const canvas = $('beam');
  canvas.dataset.step = state.t;
  drawBeam((width, height) => { canvas.style.width = `${width}px`; return canvasPen(canvas, width, height); });
}

addPanel({
  id: 'beam',
  title: ['The beam as a tree'],
  content: [
    element('p', {id: 'beam-text', className: 'aside'}),
    element('div', {className: 'scrolls'},
      element('canvas', {id: 'beam', role: 'img', 'aria-label': 'Hypotheses of the beam search',
                         onclick: event => toStep(Math.floor((event.offsetX - 20) / BEAM_WIDE))}))],
  show: showBeam,
});
