"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) as pure functions and small modules.

Read in this order: config, tokens, masks, products, attention (§3.2) and its kernels, positions, feed_forward, layers, model
(Figure 1), language_model, recurrent, architectures, loss, optimizer, training, classification, search, partitioning.
The library knows no flags, files or experiments. The choices of its options are listed in registries.

Dimensions, everywhere:

    B sentences (rows)     S source length       T target length      V vocabulary
    D d_model              F d_ff                N layers             W beams
    H query heads          G heads of keys and values, each for R = H / G of them
    K d_k                  U d_v                 L length of search output
    Q queries and M entries of the memory, inside attention
    A width of a recurrent encoder's output: d_model, or twice that if it is bidirectional
    Y labels, or answers   C sequences of an example    I, O inputs and outputs of a product

Shapes are types, `Float[Array, 'B S D']` (jaxtyping): checked while the tests run, free otherwise. `#B` is B or 1, `*B`
any number of axes; a longer name says what it counts.
"""

# Each of these registers its choices on import: the registries are complete once any part of the library is imported.
from transformer import (  # noqa: F401
    attention_kernels,
    attention_scores,
    dtypes,
    feed_forward,
    initializers,
    language_model,
    layers,
    loss,
    model,
    normalization,
    optimizer,
    partitioning,
    positions,
    recurrent,
    training,
)
