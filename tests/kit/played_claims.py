"""Claims that can be opened down to every leaf, and are true by the contracts' arithmetic: cheap to make.

A model is zeros in one leaf, or has several leaves of numbers that differ with tensor, solver and step. Each
honest claim can be opened and computed by the contracts. A fault changes one part.
"""

import struct
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch

from tests.kit.members import make_word
from touchstone.node.records.claim_records import WorkProof
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.spec.claim_tree import compute_carried_root, compute_claim_root, compute_work_leaf
from touchstone.protocol.spec.commitments import (
    compute_boundary_leaf,
    compute_schedule_leaf,
    compute_state_root,
)
from touchstone.protocol.spec.data_trees import count_tensor_leaves, split_leaves
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.merkle import Levels, compute_levels, compute_path, hash_leaf
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.params import DELTA_BLOCK_BYTES, DELTA_LEAF_BYTES, LEAF_BYTES, LEAF_ELEMENTS
from touchstone.protocol.spec.state_headers import StateHeader

PARAMETERS = 200
STEPS = 5
"""of a segment."""
ZEROS = bytes(LEAF_BYTES)
ZERO_ROOT = hash_leaf(ZEROS)
RATE_SUM = 1 << 60
"""Learning rates of a segment, summed, in 2^-64."""
FAULTS = {
    "start": "from another model",
    "steps": "from another step",
    "local": "from another local step",
    "moment": "from another second moment",
    "later": "all steps are one too many",
    "more local": "local steps are ahead of the start",
    "less local": "local steps are behind the start",
    "jump": "one local step too many in the middle of each segment",
    "infinite": "a leaf of the last weights is not finite",
    "far": "a leaf of the last weights is far off",
    "broken": "a leaf of the last weights is too long",
    "delta": "a leaf of the pseudo-gradient is another",
    "scale": "a leaf of the pseudo-gradient has a scale that no encoding has",
    "size": "a leaf of the pseudo-gradient is too long",
    "empty": "infinite, and that leaf of the pseudo-gradient is empty",
    "behind": "the pseudo-gradient goes on behind the last element",
    "moments anew": "the moments of the claim before are not carried on",
    "carried": "the last state does not have the moments that it hands on",
}
"""What is wrong with a claim."""
INFINITE = b"\0\0\x80\x7f" * LEAF_ELEMENTS
SPOILED = {
    "infinite": INFINITE, "empty": INFINITE, "far": b"\xff\xff\x7f\xff" * LEAF_ELEMENTS,
    "broken": b"\1" * (LEAF_BYTES + 32),
}  # fmt: skip
"""The second leaf of the weights of a claim with this fault."""
JUMP = 3
"""The step of a segment at which one jumps."""
FIRST_NUMBERS = (0x3F800000, 0x3A000000, 0x38000000)
"""Bits of the first element of weights and moments."""


@dataclass(frozen=True)
class Model:
    """What all tensors of a task look like. is_filled: they hold numbers, else zeros."""

    parameters: int = PARAMETERS
    is_filled: bool = False
    is_infinite: bool = False
    """The weights that all start from are no numbers."""

    @property
    def leaves(self) -> int:
        """Leaves of a tensor."""
        return count_tensor_leaves(self.parameters)

    @property
    def zero_root(self) -> bytes:
        """Root of a tensor of zeros."""
        return _compute_leaf_levels((ZEROS,) * self.leaves)[-1][0]

    @property
    def weights(self) -> tuple[bytes, ...]:
        """Leaves of the weights that all start from."""
        return (INFINITE,) * self.leaves if self.is_infinite else self.fill(0, "", 0)

    @property
    def weights_root(self) -> bytes:
        """Root of these."""
        return _compute_leaf_levels(self.weights)[-1][0]

    def fill(self, tensor: int, solver: str, step: int) -> tuple[bytes, ...]:
        """Returns the leaves of a tensor of a solver's state."""
        return _fill(self, tensor, solver, step)


@cache
def _fill(model: Model, tensor: int, solver: str, step: int) -> tuple[bytes, ...]:
    if not model.is_filled:
        return (ZEROS,) * model.leaves
    first = FIRST_NUMBERS[tensor] + 0x1000 * step + 16 * int(solver[-2:] or "0", 16) * (step > 0)
    numbers = [first + i for i in range(model.parameters)]
    return tuple(split_leaves(struct.pack(f"<{len(numbers)}I", *numbers)))


@cache
def _compute_leaf_levels(leaves: tuple[bytes, ...]) -> Levels:
    return compute_levels([hash_leaf(leaf) for leaf in leaves])


def open_leaf(leaves: tuple[bytes, ...], index: int) -> LeafProof:
    """Returns a leaf with its path."""
    return LeafProof(leaves[index], tuple(compute_path(_compute_leaf_levels(leaves), index)))


def spoil_leaf(leaf: LeafProof) -> LeafProof:
    """Returns a leaf of which a byte is another."""
    return replace(leaf, data=bytes([leaf.data[0] ^ 1]) + leaf.data[1:])


@dataclass(frozen=True)
class PlayedClaim:
    """A claim of one account. round_segments: of a whole claim; fault: one of FAULTS, or none; before: the
    claim whose moments it carries on."""

    domain: bytes
    round: int
    solver: str
    segments: int
    round_segments: int
    fault: str = ""
    model: Model = Model()
    before: "PlayedClaim | None" = None

    def __post_init__(self) -> None:
        """A play that misspells a fault would play an honest claim."""
        assert not self.fault or self.fault in FAULTS, f"no fault of a claim: {self.fault}"

    # States
    def list_leaves(self, tensor: int, step: int) -> tuple[bytes, ...]:
        """Returns the leaves of a tensor after so many steps."""
        if step == 0 and tensor:
            last = None if self.before is None else self.before.list_leaves(tensor, self.before.steps)
            return last or (ZEROS,) * self.model.leaves
        leaves = self.model.fill(tensor, self.solver, step) if step else self.model.weights
        if tensor == 0 and step and self.fault in SPOILED:
            return (leaves[0], SPOILED[self.fault], *leaves[2:])
        return leaves

    def open_leaf(self, tensor: int, step: int, index: int) -> LeafProof:
        """Returns a leaf of a state with its path."""
        return open_leaf(self.list_leaves(tensor, step), index)

    @property
    def steps(self) -> int:
        """All that it has done."""
        return self.segments * STEPS

    def make_state(self, step: int) -> StateHeader:
        """Returns the state after so many steps of the round."""
        w, m, v = (_compute_leaf_levels(self.list_leaves(tensor, step))[-1][0] for tensor in range(3))
        local = step + (
            0 if self.before is None else self.before.make_header(self.before.segments).local_step
        )
        header = StateHeader(w, m, v, local, self.round * self.round_segments * STEPS + step)
        fault, is_start = self.fault, step == 0
        if fault == "start" and is_start:
            return replace(header, weights_root=make_word("elsewhere"))
        if fault == "moment" and is_start:
            return replace(header, second_moment_root=make_word("another moment"))
        more = (
            fault == "local" and is_start or fault == "more local" and not is_start
            or fault == "jump" and step % STEPS == JUMP
        ) - (fault == "less local" and not is_start)  # fmt: skip
        later = fault == "later" or fault == "steps" and is_start
        return replace(header, local_step=local + more, global_step=header.global_step + later)

    def make_header(self, boundary: int) -> StateHeader:
        """Returns the state at a boundary."""
        return self.make_state(boundary * STEPS)

    def make_salt(self, boundary: int) -> bytes:
        """Returns what hides a boundary."""
        return make_word("salt", self.solver, self.round, boundary)

    def make_root(self, boundary: int) -> bytes:
        """Returns the root of the state at a boundary."""
        return compute_state_root(self.make_header(boundary))

    def list_roots(self, segment: int, last: bytes | None = None) -> list[bytes]:
        """Returns the states' roots along a segment. last: of a replay that came to another end."""
        steps = range(segment * STEPS, (segment + 1) * STEPS)
        return [
            *(compute_state_root(self.make_state(step)) for step in steps),
            last or self.make_root(segment + 1),
        ]

    # The work
    @cached_property
    def deltas(self) -> tuple[bytes, ...]:
        """Leaves of the pseudo-gradient."""
        return tuple(map(self._make_delta, range(self.model.leaves)))

    def _make_delta(self, index: int) -> bytes:
        final = self.list_leaves(0, self.steps)[index]
        delta = _encode(self.model.weights[index], final)
        if self.fault == "behind" and index == self.model.leaves - 1:
            return delta[:-DELTA_BLOCK_BYTES] + bytes([120]) + b"\5" * (DELTA_BLOCK_BYTES - 1)
        if index != min(1, self.model.leaves - 1):
            return delta
        if self.fault == "empty":
            return b""
        if self.fault == "delta":
            return delta[:7] + bytes([delta[7] ^ 1]) + delta[8:]
        if self.fault == "scale":
            return delta[:65] + bytes([221]) + delta[66:]
        return delta + b"\0" * (self.fault == "size")

    @property
    def carried(self) -> bytes:
        """What the claim says that it hands on."""
        is_wrong = self.fault == "carried"
        return make_word("none") if is_wrong else compute_carried_root(self.make_header(self.segments))

    @cached_property
    def levels(self) -> Levels:
        """The claim's tree, leaves first."""
        place = (self.domain, self.round, self.solver)
        leaves = [
            compute_boundary_leaf(*place, b, self.make_salt(b), self.make_root(b))
            for b in range(self.segments + 1)
        ]
        work = compute_work_leaf(*place, self.segments, self.delta_root, self.carried)
        return compute_levels([*leaves, work])

    @property
    def delta_root(self) -> bytes:
        """Root of the pseudo-gradient."""
        return _compute_leaf_levels(self.deltas)[-1][0]

    @property
    def root(self) -> bytes:
        """What is committed."""
        return compute_claim_root(self.levels[0])

    def open(self, boundary: int) -> BoundaryProof:
        """Returns a boundary with its path."""
        path = tuple(compute_path(self.levels, boundary))
        return BoundaryProof(self.make_header(boundary), self.make_salt(boundary), path)

    @property
    def work(self) -> WorkProof:
        """The last leaf with its path."""
        path = tuple(compute_path(self.levels, self.segments + 1))
        return WorkProof(self.delta_root, self.carried, path)


@cache
def _encode(weights: bytes, final: bytes) -> bytes:
    """As a solver does; zeros of what has no encoding."""
    if len(final) != LEAF_BYTES:
        return bytes(DELTA_LEAF_BYTES)
    try:
        pair = [torch.frombuffer(bytearray(leaf), dtype=torch.float32) for leaf in (weights, final)]
        return encode_delta(*pair)
    except ProtocolFault:
        return bytes(DELTA_LEAF_BYTES)


def make_schedule(segments: int) -> Levels:
    """Returns the tree of the learning rates of so many segments."""
    return compute_levels([compute_schedule_leaf(index, RATE_SUM) for index in range(segments)])
