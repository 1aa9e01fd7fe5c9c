"""A model of the size of the paper's base with random arrays, whose translations end about where real ones do.

The model: width 512, 8 heads, 6 + 6 layers, d_ff 2,048, post-norm, an output projection of its own, and a vocabulary of
8,000 SentencePiece entries learnt from the lines. Its translations mean nothing; their lengths and the work do.

Random arrays alone would hardly ever choose EOS, and a bias for EOS would end all hypotheses at once or none: it knows
no length. So EOS's row of the output projection, 512 numbers, is fitted by least squares to the decoder's last states
over random targets, such that its logit rises by SLOPE with each token and reaches that of the likeliest other token
at STRETCH times the source's length. The row is an array like all others, so every system can have it, and a search
ends naturally: early in some lines, late in others, and on average after about as many tokens as the source has. For the states to show the position at all, the arrays
that end a sub-layer are smaller than the paper's, by the factor RESIDUAL.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from corpora import vocabulary as vocabularies
from corpora.vocabulary import Vocabulary, VocabularyConfig
from decoding.translator import Translator
from training import hardware
from transformer import architectures, tokens
from transformer.config import ModelConfig
from transformer.model import Model, Params
from transformer.search import SearchConfig

RESIDUAL = 0.3
GAIN = 4.0  # of the output projection: with it the likeliest token stands out as a trained model's does
SLOPE = 1.0  # logits by which EOS gains with each token
STRETCH = 1.5  # a search finds the first good place to end, which comes before the fitted one on average
FITTED = 64  # lines to fit EOS's row to ...
BEYOND = 0.8  # ... up to this share beyond their lengths
RIDGE = 10.0  # weight of the row's squared length in the fit, which keeps noise out


def translator(corpus: list[str], lines: list[str], beam: int, alpha: float, batch_tokens: int | None,
               early_stopping: str) -> Translator:
  """Return the model as a translator.

  Args:
    corpus: what the vocabulary is learnt from.
    lines: what will be translated, whose first ones EOS's row is fitted to.
    beam, alpha, batch_tokens, early_stopping: of the search.
  """
  vocabulary = Vocabulary(vocabularies.train(VocabularyConfig(size=8000), corpus), 'vocabulary')
  model = architectures.build(ModelConfig(vocabulary.size, vocabulary.size, tie_output=False, layer_norm_epsilon=1e-5))
  params = jax.tree_util.tree_map_with_path(
      lambda path, leaf: leaf * {'w_out': RESIDUAL, 'w2': RESIDUAL, 'output_projection': GAIN}.get(path[-1].key, 1.0),
      jax.jit(model.init)(jax.random.key(0)))
  row = fitted_row(model, params, vocabulary, lines[:FITTED])
  params |= {'output_projection': params['output_projection'].at[vocabulary.eos_id].set(row)}
  return Translator([model], [params], vocabulary, vocabulary,
                    SearchConfig(beam_size=beam, length_penalty='length', alpha=alpha, early_stopping=early_stopping),
                    hardware.search_tokens(batch_tokens))


def fitted_row(model: Model, params: Params, vocabulary: Vocabulary, lines: list[str]) -> Float[np.ndarray, ' D']:
  """Return the row of the output projection with which EOS becomes likeliest at the length of each line."""
  sources = [[*ids, vocabulary.eos_id] for ids in vocabulary.encode_batch(lines)]
  sizes = np.array([len(ids) for ids in sources])
  rows, longest, filler = len(lines), int(sizes.max()), vocabulary.pad_id
  length = int((1 + BEYOND) * longest)
  random = np.random.default_rng(0).integers(4, vocabulary.size, (rows, length)).tolist()
  source, target = tokens.pad(sources, rows, longest, filler), tokens.pad(random, rows, length, filler)
  decode = jax.jit(lambda params: model.decode(params, model.encode(params, source), target))
  level = decode(params).max(axis=-1).mean()
  # With the identity for its output projection, a model's logits are the decoder's last states.
  width = params['output_projection'].shape[1]
  states = np.asarray(decode(params | {'output_projection': jnp.eye(vocabulary.size, width)}))[..., :width]
  places = np.arange(length) - STRETCH * sizes[:, None]  # tokens after the one where EOS is to be likeliest
  near = np.arange(length) < (1 + BEYOND) * sizes[:, None]
  x, y = states[near].astype(np.float64), float(level) + SLOPE * places[near]
  return np.linalg.solve(x.T @ x + RIDGE * np.eye(width), x.T @ y).astype(np.float32)
