"""Names states by their roots: of training, and of the global model. Twin of `Types.sol`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StateHeader:
    """A training state by its roots: three tensor trees and the two step counters (docs/spec.md, section
    2)."""

    weights_root: bytes
    first_moment_root: bytes
    second_moment_root: bytes
    local_step: int
    global_step: int


@dataclass(frozen=True)
class OuterHeader:
    """The global model and the outer momentum by their roots."""

    weights_root: bytes
    momentum_root: bytes
