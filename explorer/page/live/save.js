// The page without its model, as a report in a file of its own: what explorer/page.py writes, with what was typed.

// Packs the bytes of an array as explorer/page.py does: deflated, in base64.
async function deflated(numbers) {
  const stream = new Blob([numbers]).stream().pipeThrough(new CompressionStream('deflate'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = '';
  for (let start = 0; start < bytes.length; start += 8192)
    text += String.fromCharCode(...bytes.subarray(start, start + 8192));
  return btoa(text);
}

// Queries, keys and values as 16-bit shares of the largest number in their layer.
async function packedVectors({scaled, parts}) {
  const shares = [], described = [];
  let start = 0;
  for (const {kind, role, shape, numbers} of parts) {
    const size = numbers.length / shape[0], scales = range(shape[0]).map(l =>
      numbers.subarray(l * size, (l + 1) * size).reduce((most, x) => Math.max(most, Math.abs(x)), 1e-30));
    shares.push(Int16Array.from(numbers, (x, i) => Math.round(x / scales[Math.floor(i / size)] * 32767)));
    described.push({kind, role, shape, start, size: numbers.length, scales});
    start += numbers.length;
  }
  const all = new Int16Array(start);
  described.forEach((part, i) => all.set(shares[i], part.start));
  return {scaled, parts: described, data: await deflated(all)};
}

// A sentence as the report's JSON has it.
async function savedSentence({snapshots, unpacked, madeOf, ids, hypotheses, ...of}) {
  if (of.weights) {  // the report's own, which need not be unpacked: unpacking only adds to it
    if (of.vectors) of.vectors = {...of.vectors, parts: of.vectors.parts.map(({numbers, ...part}) => part)};
    return of;
  }
  if (of.vectors) of.vectors = await packedVectors(of.vectors);
  const {maps} = snapshots[0], kinds = ['encoder', 'decoder', 'cross'].filter(kind => maps[kind]);
  const all = new Uint16Array(kinds.reduce((sum, kind) => sum + maps[kind].length, 0));
  kinds.reduce((at, kind) => { all.set(maps[kind], at); return at + maps[kind].length; }, 0);
  return {...of, weights: await deflated(all)};
}

// The report's JSON: it opens with what is shown. Closed heads, beam size and temperature are told on its card.
async function savedContent() {
  const {live: _, ...content} = report, {s, c, a, k: kind, l: layer, h: head, q: query, m: key, words} = state;
  const sentences = await Promise.all(report.sentences.map(savedSentence));
  const card = isChanged() ? [...content.card, ['in the living page', [
    `beam size ${state.beams}`, `temperature ${state.heat}`,
    ...closedHeads().map(closed => `closed: ${KINDS[closed.kind]}, layer ${closed.layer + 1}, head ${closed.head + 1}`),
  ].join(', ')]] : content.card;
  return {...content, sentences, card,
          first_view: {...content.first_view, sentence: shownPlace(), kind, layer, head, query, key, words,
                       beside: c < 0 ? null : a ? s : c}};
}

// The page as HTML: as it came, without what scripts have added, and with other JSON.
async function savedPage() {
  const brief = (_, value) => typeof value === 'number' ? +value.toPrecision(7) : value;
  const json = JSON.stringify(await savedContent(), brief).replace(/[<>&\u2028\u2029]/g, character =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const copy = document.documentElement.cloneNode(true);
  for (const name of Object.keys(copy.dataset)) delete copy.dataset[name];
  copy.querySelectorAll('#live, .of-live').forEach(part => part.remove());
  copy.querySelectorAll('#panels, #architecture').forEach(part => part.replaceChildren());
  copy.querySelector('#report').textContent = json;
  return `<!doctype html>\n${copy.outerHTML}\n`;
}

async function saveReport() {
  const link = element('a', {href: URL.createObjectURL(new Blob([await savedPage()], {type: 'text/html'})),
                             download: 'report.html'});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
