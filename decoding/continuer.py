"""Continuation of lines by a language model, one continuation for each line."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from corpora.vocabulary import Vocabulary
from decoding.batches import line_numbers, search_batches, search_rows, until
from decoding.limits import check_attention
from transformer import search, tokens
from transformer.model import Model, Params
from transformer.search import SearchConfig, SearchProblem, Sentences, constraints
from transformer.tokens import Array

BATCH_TOKENS = 2048  # fewer than for translation, because each row's cache is as long as the context
LINE_END = '\\n'  # how a line end inside a prompt or a continuation is written, so that both stay one line


def plain(line: str) -> str:
  """Return the text of a prompt's line, with its line ends."""
  return line.replace(LINE_END, '\n')


class Continuation(NamedTuple):
  """A model's continuation of a prompt."""

  text: str  # one line: a line end within is LINE_END
  log_prob: float  # natural logarithm of what was written, EOS included, given the prompt
  ids: tuple[int, ...] = ()  # prompt and continuation, without EOS


class Continuer:
  """A language model that continues prompts.

  The search forces every output to begin with its prompt. The rows of a search batch depend only on the length of its
  prompts, and sampling for a line only on its number: a continuation does not depend on the neighbouring lines.
  """

  def __init__(self, model: Model, params: Params, vocabulary: Vocabulary, config: SearchConfig, context: int,
               batch_tokens: int = BATCH_TOKENS, include_prompt: bool = True):
    """Make a continuer; nothing is computed yet.

    Args:
      context: most tokens of a prompt and its continuation together; of a longer prompt only the end is read.
      batch_tokens: bounds rows × beams × prompt length of a search batch, padding included.
      include_prompt: whether continuations begin with their prompt.
    """
    check_attention(model, config)
    self._model, self.params, self._vocabulary, self._config = model, params, vocabulary, config
    self._most = context - config.extra_length - 1  # tokens of a prompt; EOS needs one place
    self._batch_tokens, self._include_prompt = batch_tokens, include_prompt
    self._compiled = jax.jit(self._search)
    self._cut: set[str] = set()  # prompts of which only the end was read so far
    self._nothing: set[str] = set()  # prompts for which nothing was found

  def _search(self, params: Params, prompts: tokens.Tokens, limits: Int[Array, ' B'], lines: Int[Array, ' B']
              ) -> tuple[Int[Array, 'B L'], Float[Array, ' B'], Bool[Array, ' B']]:
    """Find the best continuation of each row: its tokens, the prompt included, its log-probability, and whether there is one.

    Args:
      prompts: a row each, P columns.
      limits: tokens of a prompt and its continuation, EOS included.
      lines: numbers that seed what is drawn.
    """
    length = prompts.ids.shape[1] + self._config.extra_length + 1
    nothing = jnp.zeros((limits.shape[0], 0), jnp.int32)
    memory = self._model.encode(params, tokens.Tokens(nothing, nothing, nothing))
    cache = self._model.init_cache(params, memory, length, self._config.width)
    assert self._model.prefill  # as every language model has it
    cache = self._model.prefill(params, cache, tokens.shift_right(prompts, self._vocabulary.bos_id))
    rules, known = [], []
    if self._config.no_repeat_ngram:
      rules.append(constraints.no_repeat_ngram(self._config.no_repeat_ngram, length, self._vocabulary.eos_id,
                                               self._config.min_length))
      known.append(constraints.Repeatable(limits, None))
    problem = SearchProblem(
        lambda cache, token: self._model.decode_step(params, cache, token), length, self._vocabulary.bos_id,
        self._vocabulary.eos_id, self._vocabulary.pad_id, rules)
    sentences = Sentences(cache, limits, search.row_keys(self._config.seed, lines), known, prompts)
    best = search.search(problem, sentences, self._config)
    return best.tokens[:, 0], best.log_probs[:, 0], best.found[:, 0]

  def continue_lines(self, lines: Sequence[str], progress: Callable[[int], object] | None = None) -> list[Continuation]:
    """Continue each line, in order; a blank line is an empty prompt: its text starts from nothing.

    Args:
      lines: prompts; LINE_END in them stands for a line end.
      progress: called with the number of lines just finished.
    """
    asked = [self._vocabulary.encode(plain(line)) for line in lines]
    self._cut.update(line for line, prompt in zip(lines, asked) if len(prompt) > self._most)
    asked = [prompt[-self._most:] for prompt in asked]
    out = [Continuation('', 0.0)] * len(lines)
    # Counted with BOS, so that an empty prompt has a length, too.
    beams = self._config.width
    for padded, members in search_batches({i: len(prompt) + 1 for i, prompt in enumerate(asked)}, self._batch_tokens,
                                          beams=beams):
      rows, width = search_rows(padded, self._batch_tokens, beams), min(padded, self._most)
      prompts = tokens.pad([asked[i] for i in members], rows, width, self._vocabulary.pad_id)
      limits = np.ones(rows, np.int32)  # a row without a line ends at once
      limits[:len(members)] = [len(asked[i]) + self._config.extra_length + 1 for i in members]
      found = self._compiled(self.params, prompts, limits, line_numbers(members, rows))
      for row, (ids, log_prob, exists) in enumerate(zip(*jax.device_get(found))):
        if row < len(members):
          index = members[row]
          whole = until(ids, self._vocabulary.eos_id) if exists else asked[index]
          if not exists:
            self._nothing.add(lines[index])
          text = self._written(asked[index], whole)
          text = lines[index] + text if self._include_prompt else text
          out[index] = Continuation(text, float(log_prob), tuple(whole))
      if progress:
        progress(len(members))
    return out

  def _written(self, prompt: list[int], ids: list[int]) -> str:
    """Return the text of `ids` after the prompt. Both are decoded whole: a vocabulary may drop a text's first space."""
    before, whole = self._vocabulary.decode(prompt), self._vocabulary.decode(ids)
    return whole[len(before):].replace('\n', LINE_END)

  @property
  def parts(self) -> tuple[Model, Vocabulary]:
    """The model and its vocabulary."""
    return self._model, self._vocabulary

  def notes(self) -> list[str]:
    """Return notes for the user on the lines continued so far, a sentence each."""
    told = ((self._cut, f'were longer than {self._most} tokens; only their ends were read'),
            (self._nothing, 'have no continuation: the model gives no token a probability that is a number, as one does whose '
             'training diverged'))
    return [f'{len(prompts):,} prompts {what}' for prompts, what in told if prompts]
