"""Training a language model, and letting it write: lines of text are continued, one for one.

Perplexity per token depends on the vocabulary; per byte it does not. With n the nats of all of a split's tokens, EOS
included, t their number and b the bytes of its text in UTF-8:

    per token  exp(n / t)      per byte  exp(n / b)      bits per byte  n / (b ln 2)
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from checks.errors import ConfigError
from corpora import vocabulary as vocabularies
from corpora.splits import Corpus, Pair, TextSplit
from corpora.vocabulary import Vocabulary
from decoding.translator import check_attention, line_numbers, read_run, search_batches, search_rows, until
from training.checkpoint import Measure
from training.evaluation import Conclusion, Examination, Setting, exponential, per_token
from transformer import search, search_rules, tokens
from transformer.config import SearchConfig
from transformer.model import Model

BITS_PER_BYTE = Measure('bits_per_byte', higher_is_better=False)
BATCH_TOKENS = 2048  # where the configuration leaves search.batch_tokens open: each row's cache is as long as the context
LINE_END = '\\n'  # how a line end inside a prompt or a continuation is written, so that both stay one line


# ------------------------------------------------------------------------------------------------------- the text


def make_vocabularies(options: vocabularies.VocabularyConfig, corpus: Corpus, keep: vocabularies.Keep
                      ) -> tuple[bytes, None]:
  """Supplied, or trained on the lines of the training text; there is no second one."""
  lines = (Pair(line, '') for text in corpus.train for line in text.split('\n'))
  return vocabularies.make(options, lines, keep)


def known_words(corpus: Corpus) -> Iterator[str]:
  """Words of the training text."""
  return (word for text in corpus.train for word in vocabularies.words(text))


def check(config: Any) -> list[str]:
  """What a language model's options may not be, beyond what each record checks."""
  options, wrong = config['vocabulary'], []
  if not options['joint']:
    wrong.append('config.vocabulary.joint is False; a language model has one vocabulary')
  if options['kind'] == 'word' or not options['byte_fallback']:
    wrong.append(f'config.vocabulary.kind is {options["kind"]!r} and byte_fallback {options["byte_fallback"]}; a '
                 'language model predicts every byte of its text: expected bpe, unigram or char, with byte_fallback')
  if config['data']['subword_sampling'] != 'none':
    wrong.append(f'config.data.subword_sampling is {config["data"]["subword_sampling"]!r}; expected none: documents '
                 'are cut into blocks once, not anew each epoch')
  if config['model']['positions'] == 'learned' and config['model']['max_positions'] < config['data']['max_length']:
    wrong.append(f'config.model.max_positions is {config["model"]["max_positions"]}; expected data.max_length '
                 f'({config["data"]["max_length"]}) or more, the tokens of a block')
  if config['search']['extra_length'] + 2 > config['data']['max_length']:
    wrong.append(f'config.search.extra_length is {config["search"]["extra_length"]}; expected at most '
                 f'{config["data"]["max_length"] - 2}: prompt and continuation together are no longer than the blocks '
                 'of data.max_length tokens that are trained on')
  return wrong


# ------------------------------------------------------------------------------------------------------ evaluation


def per_byte(sums: dict[str, float], num_bytes: int) -> dict[str, float]:
  """Perplexity and bits per byte, from the sums over a split's tokens."""
  nats = sums['nll'] / num_bytes
  return {'perplexity_per_byte': exponential(nats), 'bits_per_byte': nats / math.log(2)}


def tell(measured: dict[str, Any]) -> str:
  """'perplexity 43.10 per token, 3.21 per byte (1.683 bits per byte)'."""
  return (f'perplexity {measured["perplexity"]:.2f} per token, {measured["perplexity_per_byte"]:.3f} per byte '
          f'({measured["bits_per_byte"]:.4f} bits per byte)')


def describe(results: dict[str, Any]) -> str:
  """The final figures, and what they were measured on."""
  return f'{tell(results)}\n  on {results["test_set"]}: {results["tokens"]:,} tokens, {results["bytes"]:,} bytes'


class Prompt(NamedTuple):
  """The first words of a line of a text, and what stands there after them."""

  prompt: str
  rest: str


def prompts(split: TextSplit, count: int) -> list[Prompt]:
  """`count` prompts, the first halves of lines that lie evenly over a split; fewer where it has fewer lines."""
  lines = [line for text in split for line in text.split('\n') if len(line.split()) >= 4]
  chosen = [lines[len(lines) * n // count] for n in range(count)] if len(lines) >= count else lines
  halves = [line[:len(line) // 2].rpartition(' ')[0] or line[:len(line) // 2] for line in chosen]
  return [Prompt(half, line[len(half):]) for half, line in zip(halves, chosen)]


def samples(corpus: Corpus, count: int) -> list[tuple[str, str]]:
  """The validation lines whose first halves are the prompts of samples/; none has a source."""
  return [('', prompt + rest) for prompt, rest in prompts(corpus.validation, count)]


class Examiner:
  """Bits per byte, and continuations of the same prompts, at every evaluation."""

  def __init__(self, setting: Setting):
    self._options, self._split = setting.config.train, setting.corpus.validation
    self._prompts = prompts(self._split, self._options.num_samples)
    self._continuer = _continuer(setting, None)

  def __call__(self, params: Any, sums: dict[str, float], step: int) -> Examination:
    self._continuer.params = params
    written = [found.text[len(prompt.prompt):] for prompt, found in zip(
        self._prompts, self._continuer.continue_lines([prompt.prompt for prompt in self._prompts]))]
    measures = per_byte(sums, self._split.num_bytes)
    samples = [[('prompt', prompt), ('text', rest), ('model', text)]
               for (prompt, rest), text in zip(self._prompts, written)]
    told = f'{measures["perplexity_per_byte"]:.3f} per byte ({measures["bits_per_byte"]:.4f} bits per byte)'
    if samples:
      (prompt, _), text = list(zip(self._prompts, written))[step // self._options.eval_every % len(samples)]
      told += f'\n    {prompt} …{text[:200]}'
    return Examination(measures, samples, told)


def conclude(setting: Setting, params: Any, split: TextSplit, sums_of: Callable) -> Conclusion:
  """Perplexity of a split, and continuations of its prompts."""
  print(f'Reading {split.name} ({split.num_bytes:,} bytes) …', flush=True)
  sums = sums_of(params, split)
  results = per_token(sums) | per_byte(sums, split.num_bytes)
  results |= {'nats': sums['nll'], 'tokens': round(sums['tokens']), 'bytes': split.num_bytes, 'test_set': split.name}
  asked = [prompt for prompt, _ in prompts(split, setting.config.train.num_samples)]
  written = [found.text for found in _continuer(setting, params).continue_lines(asked)]
  told = describe(results) + ''.join(f'\n\n    {text}' for text in written[:3])
  return Conclusion(results, told, written, asked[0] if asked else 'The')


# ------------------------------------------------------------------------------------------------------ continuing


def load(workdir: str, checkpoint: str = 'final', **search_options) -> 'Continuer':
  """A run, ready to write: load('runs/lm').continue_lines(['Once upon'])[0].text

  Args and errors as in translation.load.
  """
  run = read_run(workdir, checkpoint, BITS_PER_BYTE, search_options)
  if wrong := check(run.config):
    raise ConfigError('\n  '.join(wrong))
  return Continuer(run.model, run.params, run.target, run.search, run.config.data.max_length, **_writing(run.config))


def _writing(config: Any) -> dict[str, Any]:
  return {'batch_tokens': config.search.batch_tokens or BATCH_TOKENS, 'include_prompt': config.search.include_prompt}


def _continuer(setting: Setting, params: Any) -> 'Continuer':
  options = _writing(setting.config) | {'include_prompt': True}
  return Continuer(setting.model, params, setting.target, setting.search, setting.config.data.max_length, **options)


def plain(line: str) -> str:
  """The text that a prompt's line stands for."""
  return line.replace(LINE_END, '\n')


class Continuation(NamedTuple):
  """What a model wrote after a prompt."""

  text: str  # one line: a line end within is LINE_END
  log_prob: float  # natural logarithm of what was written, EOS included, given the prompt
  ids: tuple[int, ...] = ()  # prompt and continuation, without EOS


class Continuer:
  """A language model with its vocabulary and search options, ready for prompts.

  A prompt is a prefix that the search is held to. The rows of a search batch depend on nothing but its prompts'
  length, and what is drawn for a line on its number alone: its continuation does not depend on its neighbours.
  """

  def __init__(self, model: Model, params: Any, vocabulary: Vocabulary, config: SearchConfig, context: int,
               batch_tokens: int = BATCH_TOKENS, include_prompt: bool = True):
    """A model ready to write.

    Args:
      context: tokens that prompt and continuation have together at most; of a longer prompt the end is read.
      batch_tokens: bounds rows × beams × prompt length of a search batch, padding included.
      include_prompt: whether continuations begin with their prompt.
    """
    check_attention(model, config)
    self._model, self.params, self._vocabulary, self._config = model, params, vocabulary, config
    self._most = context - config.extra_length - 1  # tokens of a prompt; one place is EOS's
    self._batch_tokens, self._include_prompt = batch_tokens, include_prompt
    self._compiled = jax.jit(self._search)
    self.cut = 0  # prompts of which only the end was read so far

  def _search(self, params, prefix: jax.Array, lengths: jax.Array, lines: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Best continuation of each row: tokens [B, L], the prefix included, and log-probability [B].

    Args:
      prefix: [B, P] prompts.
      lengths: [B] their tokens; -1 in rows without one.
      lines: [B] numbers that seed what is drawn.
    """
    length = prefix.shape[1] + self._config.extra_length + 1
    limits = jnp.where(lengths >= 0, lengths + self._config.extra_length + 1, 1)
    nothing = jnp.zeros((prefix.shape[0], 0), jnp.int32)
    memory = self._model.encode(params, tokens.Tokens(nothing, nothing, nothing))
    cache = self._model.init_cache(params, memory, length, self._config.width)
    best = search.search(lambda cache, token: self._model.decode_step(params, cache, token), cache, limits, length,
                         self._vocabulary.bos_id, self._vocabulary.eos_id, self._vocabulary.pad_id, self._config,
                         search.row_keys(self._config.seed, lines), [search_rules.prefix(prefix, lengths)])
    return best.tokens[:, 0], best.log_probs[:, 0]

  def continue_lines(self, lines: Sequence[str], progress: Callable[[int], Any] | None = None) -> list[Continuation]:
    """One continuation per line, in order; a blank line is one, too: a text from its beginning.

    Args:
      lines: prompts; LINE_END in them stands for a line end.
      progress: called with the number of lines just finished.
    """
    asked = [self._vocabulary.encode(plain(line)) for line in lines]
    self.cut += sum(len(prompt) > self._most for prompt in asked)
    asked = [prompt[-self._most:] for prompt in asked]
    out = [Continuation('', 0.0)] * len(lines)
    # Counted with BOS, so that an empty prompt has a length, too.
    beams = self._config.width
    for padded, members in search_batches({i: len(prompt) + 1 for i, prompt in enumerate(asked)}, self._batch_tokens,
                                          beams=beams):
      rows, width = search_rows(padded, self._batch_tokens, beams), min(padded, self._most)
      prefix = tokens.pad([asked[i] for i in members], rows, width, self._vocabulary.pad_id).ids
      lengths = np.pad([len(asked[i]) for i in members], (0, rows - len(members)), constant_values=-1).astype(np.int32)
      found = self._compiled(self.params, prefix, lengths, line_numbers(members, rows))
      for row, (ids, log_prob) in enumerate(zip(*jax.device_get(found))):
        if row < len(members):
          index = members[row]
          whole = until(ids, self._vocabulary.eos_id)
          text = self._written(asked[index], whole)
          text = lines[index] + text if self._include_prompt else text
          out[index] = Continuation(text, float(log_prob), tuple(whole))
      if progress:
        progress(len(members))
    return out

  def _written(self, prompt: list[int], ids: list[int]) -> str:
    """What stands in ids after the prompt. Decoded together, since a vocabulary may drop a text's first space."""
    before, whole = self._vocabulary.decode(prompt), self._vocabulary.decode(ids)
    return whole[len(before):].replace('\n', LINE_END)

  @property
  def parts(self) -> tuple[Model, Vocabulary]:
    """The model and its vocabulary."""
    return self._model, self._vocabulary

  def notes(self) -> list[str]:
    """What a user should know of the lines so far."""
    return [f'{self.cut:,} prompts were longer than {self._most} tokens; only their ends were read'] if self.cut else []
