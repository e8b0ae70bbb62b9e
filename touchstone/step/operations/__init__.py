"""Lowers each operation of PyTorch that programs support with one function. Importing the files registers
them."""

from touchstone.step.operations import (
    activations,
    arithmetic,
    convolution,
    embeddings,
    gelu,
    losses,
    moving,
    normalization,
    products,
    selections,
)
from touchstone.step.writer import HANDLERS, READS_PENDING

FILES = (
    activations, arithmetic, convolution, embeddings, gelu, losses, moving, normalization, products,
    selections,
)  # fmt: skip
__all__ = ["FILES", "HANDLERS", "READS_PENDING"]
