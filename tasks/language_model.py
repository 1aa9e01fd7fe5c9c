"""Training a language model, and letting it write: lines of text are continued, one for one.

Perplexity per token depends on the vocabulary; per byte it does not. With n the nats of all of a split's tokens, EOS
included, t their number and b the bytes of its text in UTF-8:

    per token  exp(n / t)      per byte  exp(n / b)      bits per byte  n / (b ln 2)
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import corpora
from checks.errors import ConfigError
from corpora import vocabulary as vocabularies
from decoding.continuer import BATCH_TOKENS, Continuer
from tasks.from_folder import read_run
from training.checkpoint import Measure
from training.evaluation import Conclusion, Examination, Setting, exponential, per_token

BITS_PER_BYTE = Measure('bits_per_byte', higher_is_better=False)


# ------------------------------------------------------------------------------------------------------- the text


def make_vocabularies(options: vocabularies.VocabularyConfig, corpus: corpora.Corpus, keep: vocabularies.Keep
                      ) -> tuple[bytes, None]:
  """Supplied, or trained on the lines of the training text; there is no second one."""
  lines = (corpora.Pair(line, '') for text in corpus.train for line in text.split('\n'))
  return vocabularies.make(options, lines, keep)


def known_words(corpus: corpora.Corpus) -> Iterator[str]:
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


def prompts(split: corpora.TextSplit, count: int) -> list[Prompt]:
  """`count` prompts, the first halves of lines that lie evenly over a split; fewer where it has fewer lines."""
  lines = [line for text in split for line in text.split('\n') if len(line.split()) >= 4]
  chosen = [lines[len(lines) * n // count] for n in range(count)] if len(lines) >= count else lines
  halves = [line[:len(line) // 2].rpartition(' ')[0] or line[:len(line) // 2] for line in chosen]
  return [Prompt(half, line[len(half):]) for half, line in zip(halves, chosen)]


def samples(corpus: corpora.Corpus, count: int) -> list[tuple[str, str]]:
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


def conclude(setting: Setting, params: Any, split: corpora.TextSplit, sums_of: Callable) -> Conclusion:
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


def load(workdir: str, checkpoint: str = 'final', **search_options) -> Continuer:
  """A run, ready to write: load('runs/lm').continue_lines(['Once upon'])[0].text

  Args and errors as in from_folder.load.
  """
  run = read_run(workdir, checkpoint, BITS_PER_BYTE, search_options)
  if wrong := check(run.config):
    raise ConfigError('\n  '.join(wrong))
  return Continuer(run.model, run.params, run.target, run.search, run.config.data.max_length, **_writing(run.config))


def _writing(config: Any) -> dict[str, Any]:
  return {'batch_tokens': config.search.batch_tokens or BATCH_TOKENS, 'include_prompt': config.search.include_prompt}


def _continuer(setting: Setting, params: Any) -> Continuer:
  options = _writing(setting.config) | {'include_prompt': True}
  return Continuer(setting.model, params, setting.target, setting.search, setting.config.data.max_length, **options)
