// What closing each head does to a typed sentence: measured when asked for, since the page is busy for a few seconds.

// The log-probability of a translation that is given to the decoder, as the gates stand.
function forcedLogProb(ids, written, live, temperature) {
  const reads = [live.target.bos, ...written.slice(0, -1)], places = range(written.length), {model} = live;
  const states = model.decode(model.start(model.encode(ids)), reads, places, places.map(t => range(t + 1)));
  const logits = model.logits(states, reads.length).map(logit => logit / temperature);
  const size = logits.length / reads.length;
  return written.reduce((sum, token, t) => sum + logits[t * size + token] -
    logSumExp(logits.subarray(t * size, (t + 1) * size)), 0);
}

// Closes each head in turn, besides those that are closed already; stops when another sentence is shown.
async function measureEffects() {
  const of = sentence(), {model} = live, search = sessionSearch(), ids = sourceIds(of.source, live), heads = {};
  const log_prob = of.log_probs.reduce((a, b) => a + b), all = Object.values(model.gates).flat(2).length;
  let count = 0;
  for (const [kind, layers] of Object.entries(model.gates)) {
    heads[kind] = layers.map(() => []);
    for (const [l, gates] of layers.entries()) for (const h of gates.keys()) {
      $('measure').textContent = `${++count} of ${all} …`;
      await new Promise(next => setTimeout(next));
      if (sentence() !== of) return;
      const before = gates[h];
      gates[h] = 0;
      const {found} = searchFor(model.encode(ids), live, search);
      heads[kind][l][h] = {change: forcedLogProb(ids, of.ids, live, search.temperature) - log_prob,
                           text: spellOut(found[0].tokens, live)};
      gates[h] = before;
    }
  }
  of.effects = {log_prob, heads};
  await show();
}

function showMeasuring() {
  const isUnmeasured = shownPlace() >= typedPlace && !sentence().effects;
  $('measure').hidden = !isUnmeasured;
  $('measure').textContent = 'close each head in turn';
  if (!isUnmeasured) return;
  $('effects-panel').hidden = $('to-effects').hidden = false;
  $('effects').replaceChildren();
  $('effect').replaceChildren();
  $('strongest').replaceChildren();
  $('effects-legend').replaceChildren();
}

if (report.live) {
  $('effects').before(
    element('button', {type: 'button', id: 'measure', className: 'of-live', onclick: measureEffects}));
  panels.push({show: showMeasuring, keys: {}});
}
