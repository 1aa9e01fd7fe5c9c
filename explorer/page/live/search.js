// Greedy and beam search over a step function, for one sentence: as transformer/search, see there what options mean.
//
// step(tokens, parents) -> logits [hypotheses, V], see LiveModel.stepper().
// search: {beam_size, min_length, early_stopping, noise, penalties (by length, from 1), bos, eos}; limit: the longest
// output, EOS included. A hypothesis that was found: {tokens, gained (log-probability of each), logProb, score}.

const penaltyOf = (search, length) => search.penalties[length - 1];

const foundOf = (search, tokens, gained) => {
  const logProb = gained.reduce((a, b) => a + b, 0);
  return {tokens, gained, logProb, score: logProb / penaltyOf(search, tokens.length)};
};

// The likeliest token at each step, until EOS; at the last place only EOS is possible.
function greedySearch(step, limit, search) {
  const tokens = [], gained = [];
  for (let last = search.bos; last !== search.eos;) {
    const logits = step([last], [0]), normalizer = logSumExp(logits);
    if (tokens.length < search.min_length) logits[search.eos] = -Infinity;
    last = tokens.length + 1 >= limit ? search.eos
      : logits.reduce((best, logit, token) => logit > logits[best] ? token : best, 0);
    tokens.push(last);
    gained.push(logits[last] - normalizer);
  }
  return {found: [foundOf(search, tokens, gained)]};
}

// The `count` best continuations of the live hypotheses: [{parent, token, gained, total}], the best first.
function continuations(logits, live, count, allowed) {
  const size = logits.length / live.length, best = [];
  live.forEach((hypothesis, parent) => {
    const row = logits.subarray(parent * size, (parent + 1) * size), normalizer = logSumExp(row);
    for (let token = 0; token < size; token++) {
      const gained = row[token] - normalizer, total = hypothesis.logProb + gained;
      if (best.length === count && !(total > best[count - 1].total) || !allowed(token)) continue;
      if (best.length === count) best.pop();
      let at = best.length;
      while (at && total > best[at - 1].total) at--;
      best.splice(at, 0, {parent, token, gained, total});
    }
  });
  return best;
}

// Whether no live hypothesis can become better than what is found, by each way of transformer/search/early_stopping.py.
const EARLY_STOPPING = {
  exact: ({found, live, limit, search}) => isAhead(found[0], live, penaltyOf(search, limit), search),
  full: ({found, search}) => found.length >= search.beam_size,
  heuristic: ({found, live, length, search}) => isAhead(found[search.beam_size - 1], live, penaltyOf(search, length), search),
  top: ({found, live, length, search}) => isAhead(found[0], live, penaltyOf(search, length), search),
};
const isAhead = (ended, live, penalty, search) => ended && ended.score - search.noise >= live / penalty;

// Returns {found: the finished hypotheses, the best first, at most beam_size; nodes, best: the tree of all that were
// considered, as explorer/beam.py has it, with tokens in place of their names}.
function beamSearch(step, limit, search) {
  const {beam_size, eos} = search, nodes = [];
  let live = [{tokens: [], gained: [], logProb: 0, node: -1}], parents = [0], found = [];
  for (let t = 0; t < limit; t++) {
    const isLast = t + 1 >= limit;
    const logits = step(live.map(each => each.tokens.at(-1) ?? search.bos), parents);
    const allowed = token => isLast ? token === eos : token !== eos || t >= search.min_length;
    const next = [], ended = [];
    continuations(logits, live, 2 * beam_size, allowed).forEach(({parent, token, gained, total}, rank) => {
      const [isGood, good] = token === eos ? [rank < beam_size, 'finished'] : [next.length < beam_size, 'kept'];
      const fate = isGood ? good : 'pruned';
      const one = {tokens: [...live[parent].tokens, token], gained: [...live[parent].gained, gained], logProb: total,
                   node: nodes.length, parent};
      if (fate === 'kept') next.push(one);
      if (fate === 'finished') ended.push({...one, score: total / penaltyOf(search, t + 1)});
      nodes.push([live[parent].node, t, token, total, fate, fate === 'finished' ? ended.at(-1).score : null]);
    });
    found = [...found, ...ended].sort((a, b) => b.score - a.score).slice(0, beam_size);
    if (isLast || EARLY_STOPPING[search.early_stopping](
      {found, live: next[0].logProb, length: t + 1, limit, search})) break;
    parents = next.map(each => each.parent);
    live = next;
  }
  const best = [];
  for (let node = found[0].node; node >= 0; node = nodes[node][0]) best.unshift(node);
  return {found, nodes, best};
}
