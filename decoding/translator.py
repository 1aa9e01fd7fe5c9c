"""Translation of raw lines: lines -> ids -> batches -> search -> text, in the order of the lines.

    translator = Translator([model], [params], source_vocabulary, target_vocabulary, SearchConfig())
    translator.translate(['The dog sleeps.'])[0].text
"""

import contextlib
import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from checks.errors import ConfigError
from corpora.vocabulary import Vocabulary
from decoding import text_lines
from decoding.batches import (
    COARSE,
    FINE,
    QUEUE,
    ROWS,
    SearchBatch,
    by_program,
    dealt,
    lay_automata,
    lay_prefixes,
    line_numbers,
    search_batches,
    search_rows,
    spread,
    until,
)
from decoding.limits import LONGEST_SOURCE, check_attention, longest_source
from decoding.requests import Request, Translation
from decoding.searcher import Searcher
from decoding.tally import Tally
from decoding.wishes import Wishes, settle
from transformer import partitioning, search, tokens
from transformer.model import Model, Params
from transformer.search import SearchConfig
from transformer.search import cache as beam_cache

_PARTS = 1 << 20  # part p of a line samples as the line p times this further on
PATIENCE = 2.0  # seconds that a program may take to be ready before the user is told
_OUT_OF_MEMORY = 'RESOURCE_EXHAUSTED'  # how XLA begins its message

Progress = Callable[[int], object]  # is called with the number of lines just finished
_unheard: Callable[[str], object] = lambda text: None  # takes a message for which nobody listens


class Translator:
  """A translator of lines by one model, or several as an ensemble.

  The rows that a device searches together depend only on the length of their sentences, and a sentence's length class
  only on the sentence: a line is translated in the same shapes whatever its neighbours and the number of devices, so
  its translation depends on neither. Each device has a queue of its own, of which it searches some lines at once.
  """

  def __init__(self, models: Sequence[Model], params: Sequence[Params], source_vocabulary: Vocabulary,
               target_vocabulary: Vocabulary, config: SearchConfig, batch_tokens: int = 2048,
               say: Callable[[str], object] | None = None, devices: Sequence[jax.Device] | None = None, least: int = FINE):
    """Make a translator; nothing is computed yet.

    Args:
      models, params: of an ensemble's members; mostly one.
      source_vocabulary, target_vocabulary: of all of them.
      config: how to search.
      batch_tokens: bounds rows × beams × source length of a device's search batch, padding included.
      say: called with a message, such as that a line is cut, before the search that it concerns.
      devices: those to search on; by default all of this process.
      least: see length_class: COARSE compiles fewer programs, which few lines repay.
    """
    for model in models:
      check_attention(model, config)
    self._models, self._source, self._target = list(models), source_vocabulary, target_vocabulary
    self._config, self._batch_tokens, self._least, self.say = config, batch_tokens, least, say or _unheard
    devices = list(devices or jax.local_devices())
    self._mesh = jax.make_mesh((len(devices),), (partitioning.DATA,), axis_types=(jax.sharding.AxisType.Auto,),
                               devices=devices)
    self.params = params
    self._searcher = Searcher(models, target_vocabulary, config)
    self._compiled: dict[tuple[int, bool], Callable] = {}  # by rows, and whether the cache reaches to the limit
    self._scoring = self._sharded(self._searcher.score)
    self.longest_source = min(longest_source(model, config) for model in models)
    self._most_written = min((model.longest for model in models if model.longest), default=None)  # tokens
    self.longest_trained: int | None = None  # tokens of the longest source in training, where that is known
    self.records = ''  # the options of models and search as text, where they were read from runs
    self.tally = Tally()
    self._halvings = 0  # times that the rows of a search batch were halved for lack of memory
    self._shapes: set[tuple[int, int]] = set()  # rows and source length of the search batches so far
    self._largest = 0  # bytes of the largest cache so far
    self._unmet: dict[str, int] = {}  # the line, counted from 1, of each note on wishes that were left out
    self._late: list[int] = []  # lines with required phrases in a search that shares out no beam, counted from 1
    self._cut: set[int] = set()  # lines cut to longest_source tokens so far, counted from 1
    self._long: list[int] = []  # lines that are not cut, but longer than longest_trained, counted from 1
    self._nothing: list[int] = []  # lines for which nothing was found, counted from 1
    self._close: list[int] = []  # lines whose two best translations score within search.NOISE, counted from 1

  @property
  def params(self) -> list[Params]:
    """The parameters of each model, on every device."""
    return self._params

  @params.setter
  def params(self, params: Sequence[Params]) -> None:
    self._params = jax.device_put(partitioning.own_copy(list(params)), NamedSharding(self._mesh, PartitionSpec()))

  @property
  def parts(self) -> tuple[Model, Vocabulary, Vocabulary]:
    """The (first) model, and the vocabularies of source and target."""
    return self._models[0], self._source, self._target

  @property
  def search_config(self) -> SearchConfig:
    """The options of the search."""
    return self._config

  def fingerprint(self) -> str:
    """Return a hash of what decides a line's translation: parameters, vocabularies, options of models and search."""
    found = hashlib.sha256(repr([self._source.fingerprint, self._target.fingerprint, self.records]).encode())
    for path, leaf in jax.tree_util.tree_leaves_with_path(self._params):
      found.update(f'{jax.tree_util.keystr(path)} {leaf.dtype} {leaf.shape}'.encode())
      found.update(np.asarray(leaf).tobytes())
    return found.hexdigest()

  def _sharded(self, function: Callable, arguments: int = 1) -> Callable:
    """Compile function(params, *rows) with its rows split over the devices, each of which works on its own."""
    every, split = PartitionSpec(), PartitionSpec(partitioning.DATA)
    return jax.jit(jax.shard_map(function, mesh=self._mesh, in_specs=(every, *[split] * arguments), out_specs=split,
                                 check_vma=False))

  def _searching(self, rows: int, to_the_limit: bool) -> Callable:
    """Return the compiled search with so many rows, see Searcher.search."""
    if (rows, to_the_limit) not in self._compiled:
      self._compiled[rows, to_the_limit] = self._sharded(
          functools.partial(self._searcher.search, rows=rows, to_the_limit=to_the_limit), arguments=2)
    return self._compiled[rows, to_the_limit]

  def encode(self, lines: Sequence[str]) -> list[list[int]]:
    """Return what the model reads of each line: ids that end in EOS, cut to longest_source; none of a blank line."""
    return [self._cut_to_fit(ids) for ids in self._encode_whole(lines)]

  def _cut_to_fit(self, ids: list[int]) -> list[int]:
    longest = self.longest_source
    return ids if len(ids) <= longest else ids[:longest - 1] + ids[-1:]

  def _encode_whole(self, lines: Sequence[str]) -> list[list[int]]:
    return [[*ids, self._source.eos_id] if line.strip() else []
            for line, ids in zip(lines, self._source.encode_batch(list(lines)))]

  def translate(self, lines: Sequence[str | Request], progress: Progress | None = None, first: int = 0, draw: int = 0
                ) -> list[Translation]:
    """Translate each line, in order; a blank line stays blank.

    Args:
      lines: raw text without line ends, or requests.
      progress: called with the number of lines just finished, after each batch.
      first: number of the first line, from 0; what is sampled for a line depends on its number ...
      draw: ... and on this number: 0, 1, … give different samples, which no other seed gives.
    """
    requests = [Request(line) if isinstance(line, str) else line for line in lines]
    numbers = [first + place if request.line is None else request.line for place, request in enumerate(requests)]
    parts = [number + request.part * _PARTS & 0x7fffffff for number, request in zip(numbers, requests)]
    encoded = self._encode([request.source for request in requests], numbers)
    wishes = [self._settle(request, len(ids), number + 1) for request, ids, number in zip(requests, encoded, numbers)]
    out, left = [Translation('')] * len(lines), [i for i, ids in enumerate(encoded) if ids]
    for to_the_limit in (False, True):
      given_up: list[int] = []
      for length, alike in self._programs(left, encoded, wishes, to_the_limit):
        lay = lambda some, length=length: self._batch(some, encoded, wishes, len(some), length, parts, draw)
        for index, found in self._search_all(alike, length, lay, to_the_limit, progress or (lambda finished: None)):
          if found is None:
            given_up.append(index)
          else:
            out[index] = self._read(found, numbers[index] + 1)
      left = given_up
    return out

  def _programs(self, members: Sequence[int], encoded: Sequence[list[int]], wishes: Sequence[Wishes], to_the_limit: bool
                ) -> list[tuple[int, list[int]]]:
    """Divide lines by their program, see by_program(): coarsely where the cache reaches to the limit, as few lines need."""
    lengths = {i: len(encoded[i]) for i in members}
    return list(by_program(lengths, wishes, self.longest_source, COARSE if to_the_limit else self._least))

  def compilations(self, params: Sequence[Params], lines: Sequence[str]) -> Iterator[Callable[[], object]]:
    """Yield calls that each compile a search that translate(lines) begins with; of `params` only the shapes count."""
    every = NamedSharding(self._mesh, PartitionSpec())
    abstract = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=every), list(params))
    encoded, wishes, numbers = self.encode(lines), [Wishes()] * len(lines), [0] * len(lines)
    for length, alike in self._programs([i for i, ids in enumerate(encoded) if ids], encoded, wishes, False):
      rows, one = self._rows(length, False), self._batch(alike[:1], encoded, wishes, 1, length, numbers, 0)
      batch, counts = spread(one, np.zeros(1, int), rows, self._mesh.size), np.zeros(self._mesh.size, np.int32)
      yield lambda rows=rows, batch=batch, counts=counts: self._searching(rows, False).lower(
          abstract, batch, counts).compile()

  def _rows(self, length: int, to_the_limit: bool) -> int:
    """Return the rows of a search; the few lines that need the long cache fill no more than the fewest."""
    wanted = ROWS if to_the_limit else search_rows(length, self._batch_tokens, self._config.width)
    return max(1, wanted >> self._halvings)

  def _settle(self, request: Request, length: int, number: int) -> Wishes:
    """Return the wishes of a line of so many tokens that can be met, and report those that cannot, once."""
    found = settle(request, self._target, length + self._config.extra_length, number) if length else Wishes()
    for note in found.notes:
      if note not in self._unmet:  # minimum Bayes risk translates the same line many times
        self.say(note)
      self._unmet[note] = number
    if found.requires and not self._config.shares_beam:
      self._late.append(number)
    return found

  def _search_all(self, members: list[int], length: int, lay: Callable[[list[int]], SearchBatch], to_the_limit: bool,
                  progress: Progress) -> Iterator[tuple[int, search.Hypotheses | None]]:
    """Search for lines of one program; yield each line's index and its row of hypotheses, None if it was given up.

    Args:
      members: the lines.
      length: the padded one.
      lay: lays some of the lines out.
      to_the_limit: see Searcher.search.
      progress: see translate.
    """
    while members:
      rows = self._rows(length, to_the_limit)
      chosen = members[:rows * QUEUE * self._mesh.size]
      self._report_memory(rows, length)
      try:
        outcome = self._search(chosen, rows, lay, to_the_limit)
      except jax.errors.JaxRuntimeError as error:
        if _OUT_OF_MEMORY not in str(error) or rows == 1:
          raise
        self._halvings += 1
        fewer = self._batch_tokens >> self._halvings
        helps = not to_the_limit and search_rows(length, fewer, self._config.width) < rows
        self.say(f'out of memory with {rows} rows of {length} tokens and {self._config.width} beams: going on with half as many; '
                 + (f'set --search.batch_tokens={fewer} to begin with them' if helps else
                    'a smaller --search.beam_size needs less'))
        continue
      places = dealt(len(chosen), rows, self._mesh.size)
      for index, row in zip(chosen, places, strict=True):
        given_up = outcome.given_up[row]
        yield index, None if given_up else jax.tree.map(lambda leaf, row=row: leaf[row], outcome.hypotheses)
      members = members[len(chosen):]
      progress(int((~outcome.given_up[places]).sum()))

  def _search(self, chosen: list[int], rows: int, lay: Callable[[list[int]], SearchBatch], to_the_limit: bool
              ) -> search.Outcome:
    """Search for some lines on all devices; a line's row is as in dealt()."""
    places = dealt(len(chosen), rows, devices := self._mesh.size)
    counts = np.array([len(range(device, len(chosen), devices)) for device in range(devices)], np.int32)
    batch = spread(lay(chosen), places, rows, devices)
    started = time.perf_counter()
    with self._announced(rows, batch):
      found = self._searching(rows, to_the_limit)(self.params, batch, counts)
    ready = time.perf_counter()
    outcome = jax.device_get(found)
    self.tally.count(outcome, places, rows, time.perf_counter() - started, ready - started)
    return outcome

  @contextlib.contextmanager
  def _announced(self, rows: int, batch: SearchBatch) -> Iterator[None]:
    """Say so when the call within takes long, as it does when a program has to be compiled for these shapes."""
    text = (f'compiling the search for {rows} rows of up to {batch.source.ids.shape[1]} tokens; later runs find it in '
            'the cache …')
    timer = threading.Timer(PATIENCE, self.say, [text])
    timer.daemon = True
    timer.start()
    try:
      yield
    finally:
      timer.cancel()

  def _encode(self, lines: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
    """Encode as encode() does, and report lines that are cut; `numbers` are those of the lines, from 0."""
    whole = self._encode_whole(lines)
    for number, ids in zip(numbers, whole):
      if len(ids) > self.longest_source:
        if number + 1 not in self._cut:  # minimum Bayes risk translates the same line many times
          self.say(f'line {number + 1:,} has {len(ids):,} tokens and is cut to {self.longest_source:,}')
        self._cut.add(number + 1)
      elif self.longest_trained and len(ids) > self.longest_trained:
        self._long.append(number + 1)
    return [self._cut_to_fit(ids) for ids in whole]

  def _batch(self, members: Sequence[int], encoded: Sequence[list[int]], wishes: Sequence[Wishes], rows: int,
             length: int, parts: Sequence[int], draw: int) -> SearchBatch:
    """Lay out the lines that are `members` as rows to search; `parts` number the lines for sampling."""
    theirs, all_rows = [wishes[i] for i in members], lambda number: np.full(rows, number, np.int32)
    return SearchBatch(
        tokens.pad([encoded[i] for i in members], rows, length, self._source.pad_id),
        line_numbers([parts[i] for i in members], rows), all_rows(self._config.seed), all_rows(draw),
        prefix=lay_prefixes(theirs, rows, self._target.pad_id, self._most_written), phrases=lay_automata(theirs, rows))

  def _report_memory(self, rows: int, length: int) -> None:
    """Report how large the cache of a search batch will be, when it is the largest so far and somebody listens."""
    if self.say is _unheard or any(rows <= others and length <= longer for others, longer in self._shapes):
      return  # the encoder is traced to find out
    self._shapes.add((rows, length))
    blank = jax.ShapeDtypeStruct((rows, length), jnp.int32)
    source = tokens.Tokens(blank, blank, blank)
    size = beam_cache.num_bytes(jax.eval_shape(self._searcher.cache, self.params, source))
    if size > self._largest:
      self._largest = size
      self.say(f'search batches of up to {rows} rows × {length} source tokens, {self._config.width} beams: '
               f'{size / 2**20:,.1f} MiB of cache'
               + (f' on each of {self._mesh.size} devices' if self._mesh.size > 1 else ''))

  def _read(self, found: search.Hypotheses, number: int) -> Translation:
    """Make a line's translation from its row of hypotheses; `number` is the line's, from 1."""
    ranks = np.flatnonzero(found.found)[:self._config.n_best + 1]  # one more than is wanted tells whether two are close
    if not len(ranks):  # every wish that is searched for can be met, so that only the model can be the reason
      self._nothing.append(number)
      return Translation('')
    if len(ranks) > 1 and float(found.scores[0]) - float(found.scores[1]) < search.NOISE:
      self._close.append(number)
    listed = [self._read_rank(found, rank) for rank in ranks[:self._config.n_best]]
    return listed[0]._replace(others=tuple(listed[1:]))

  def _read_rank(self, found: search.Hypotheses, rank: int) -> Translation:
    """Make a translation from one of the hypotheses of a line."""
    ids, size = tuple(until(found.tokens[rank], self._target.eos_id)), int(found.lengths[rank])
    text = ' '.join(self._target.decode(ids).split('\n'))
    return Translation(text, float(found.scores[rank]), float(found.log_probs[rank]), ids,
                       tuple(found.token_log_probs[rank, :size].astype(float).tolist()))

  def score(self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None) -> list[Translation]:
    """Return given translations with their scores and log-probabilities, as translate() does for those that it finds.

    A target is spelt in the pieces that its vocabulary prefers; a search may write the same text in other pieces. One with
    text beside a blank source is scored as a translation of EOS alone.

    Raises:
      ConfigError: naming the line, when a target is longer than the model can write.
    """
    written = [[*ids, self._target.eos_id] for ids in self._target.encode_batch(list(targets))]
    longest = min((model.longest or LONGEST_SOURCE * 2 for model in self._models))
    for number, ids in enumerate(written, 1):
      if len(ids) > longest:
        raise ConfigError(f'line {number} of the target has {len(ids):,} tokens; expected at most {longest}')
    encoded = [ids or [self._source.eos_id] * (len(own) > 1)
               for ids, own in zip(self._encode(sources, range(len(sources))), written)]
    return self._score_ids(encoded, written, targets, progress)

  def _score_ids(self, sources: Sequence[list[int]], written: Sequence[list[int]], texts: Sequence[str],
                 progress: Progress | None) -> list[Translation]:
    """Score translations given as ids; `sources` and `written` end in EOS, and `texts` are the translations."""
    out = [Translation(text) for text in texts]
    longer = {i: max(len(ids), len(written[i])) for i, ids in enumerate(sources) if ids}
    most = min((model.longest for model in self._models if model.longest), default=None)
    for length, members in search_batches(longer, self._batch_tokens, self._mesh.size, most=most):
      rows = search_rows(length, self._batch_tokens) * self._mesh.size
      batch = tokens.Batch(tokens.pad([sources[i] for i in members], rows, length, self._source.pad_id),
                           tokens.pad([written[i] for i in members], rows, length, self._target.pad_id))
      gained, covered = (None if part is None else np.asarray(part, np.float64)
                         for part in self._scoring(self.params, batch))
      for row, i in enumerate(members):
        each = gained[row, :len(written[i])]
        score = float(each.sum()) / float(self._config.penalty(len(written[i])))
        score += 0.0 if covered is None else float(covered[row])
        out[i] = Translation(texts[i], score, float(each.sum()), tuple(written[i][:-1]), tuple(each.tolist()))
      if progress:
        progress(len(members))
    return out

  def notes(self) -> list[str]:
    """Return notes for the user on the lines translated so far, a sentence each."""
    told = (
        ([*self._unmet.values()], 'wishes that cannot be met were left out in'),
        (self._late, 'a required phrase that the model does not write by itself comes at the end of the longest output, '
         'behind much that means nothing, since only a plain beam (search.beam_size 2 or more, groups 1, strategy beam) '
         'looks for its place; this search was asked for such phrases in'),
        (self._cut, f'only the first {self.longest_source:,} tokens are translated of'),
        (self._long, f'training read at most {self.longest_trained or 0:,} tokens of a line, and longer ones are often '
         'translated badly:'),
        (self._nothing, 'the model gives no token a probability that is a number, as one does whose training diverged; '
         'there is no translation of'),
        (self._close, f'two best translations are within {search.NOISE:g} of each other, so that another machine may '
         'choose the other one, of'))
    return [f'{what} {text_lines.numbered(lines)}' for lines, what in told if lines]
