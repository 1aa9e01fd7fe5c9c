"""The encoder-decoders that the Transformer replaced: cells, their attention, and the model."""

from transformer.recurrent.model import build

__all__ = ['build']
