"""One parser of what strangers send, and what it is fed."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Parser:
    """seeds: valid inputs; parse: reads one, as a node does; share: of all inputs, relative to the others.
    Dear ones, which recover a signature or build a tree, get less."""

    name: str
    seeds: tuple[bytes, ...]
    parse: Callable[[bytes], object]
    share: float = 1.0
