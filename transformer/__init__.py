"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) as pure functions and small modules.

Read in this order: config, tokens, masks, attention (§3.2), positions, feed_forward, layers, model (Figure 1),
language_model, architectures, loss, optimizer, training, search (a folder), partitioning. The library knows no flags,
files or experiments.

Dimensions, everywhere:

    B sentences (rows)     S source length       T target length      V vocabulary
    D d_model              F d_ff                N layers             W beams
    H heads                K d_k                 L length of search output
    Q queries and M entries looked at, inside attention
"""
