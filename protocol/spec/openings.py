"""Defines what an account shows of a state, a program or a trace: data with its paths. Twin of
`Types.sol`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LeafProof:
    """One leaf of a tensor tree and its path (siblings of 32 bytes, the leaf's own first)."""

    data: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True)
class StateLeaves:
    """The same leaf of all three tensors of a state."""

    weights: LeafProof
    first_moment: LeafProof
    second_moment: LeafProof


@dataclass(frozen=True)
class NodeProof:
    """A node of a program: its number, its canonical bytes and their path under the program's root."""

    number: int
    data: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True)
class BufferOpening:
    """Answers a demand, or shows an input: whole leaves of one buffer of a step, with their siblings
    (`merkle_ranges.compute_range_path`). `root` is the root of the buffer's tree, `root_path` its path in the
    trace. For constants and for W, m, v, whose roots are known from elsewhere, `root` is a zero word and
    `root_path` empty."""

    root: bytes
    root_path: tuple[bytes, ...]
    leaves: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True)
class TraceProof:
    """Proves that a trace ends in a state: the program's head with its path, and the paths of the new W, m
    and v in the trace."""

    head: bytes
    head_path: tuple[bytes, ...]
    weights_path: tuple[bytes, ...]
    first_moment_path: tuple[bytes, ...]
    second_moment_path: tuple[bytes, ...]
