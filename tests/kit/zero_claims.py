"""Claims whose tensors are zeros: true by the contracts' arithmetic, with a real tree, and cheap to make.

The model has one leaf. A training state, a pseudo-gradient and the merged model are all zeros, so every
honest claim and every honest root can be opened and computed by the contracts. A fault changes one part.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from tests.kit.members import make_word
from touchstone.node.records.claim_records import WorkProof
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.spec.claim_tree import compute_carried_root, compute_claim_root, compute_work_leaf
from touchstone.protocol.spec.commitments import (
    compute_boundary_leaf,
    compute_schedule_leaf,
    compute_state_root,
)
from touchstone.protocol.spec.merkle import Levels, compute_levels, compute_path, hash_leaf
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, LEAF_BYTES
from touchstone.protocol.spec.state_headers import StateHeader

PARAMETERS = 200
STEPS = 5
"""of a segment."""
ZEROS = bytes(LEAF_BYTES)
ZERO_ROOT = hash_leaf(ZEROS)
RATE_SUM = 1 << 60
"""Learning rates of a segment, summed, in 2^-64."""
FAULTS = ("start", "steps", "delta", "scale", "carried")
"""start: from another model; steps: from another step; delta: another pseudo-gradient; scale: one that no
encoding has; carried: moments that its last state does not have."""
_DELTAS = {"delta": b"\1" + bytes(DELTA_LEAF_BYTES - 1), "scale": bytes([221]) + bytes(DELTA_LEAF_BYTES - 1)}


@dataclass(frozen=True)
class ZeroClaim:
    """A claim of one account. round_segments: of a whole claim; fault: one of FAULTS, or none."""

    domain: bytes
    round: int
    solver: str
    segments: int
    round_segments: int
    fault: str = ""

    def make_header(self, boundary: int) -> StateHeader:
        """Returns the state at a boundary."""
        local = boundary * STEPS
        header = StateHeader(*(ZERO_ROOT,) * 3, local, self.round * self.round_segments * STEPS + local)
        if boundary == 0 and self.fault == "start":
            return replace(header, weights_root=make_word("elsewhere"))
        return replace(header, global_step=header.global_step + (boundary == 0 and self.fault == "steps"))

    def make_salt(self, boundary: int) -> bytes:
        """Returns what hides a boundary."""
        return make_word("salt", self.solver, self.round, boundary)

    def make_root(self, boundary: int) -> bytes:
        """Returns the root of the state at a boundary."""
        return compute_state_root(self.make_header(boundary))

    @property
    def delta(self) -> bytes:
        """The one leaf of the pseudo-gradient."""
        return _DELTAS.get(self.fault, bytes(DELTA_LEAF_BYTES))

    @cached_property
    def levels(self) -> Levels:
        """The claim's tree, leaves first."""
        place = (self.domain, self.round, self.solver)
        leaves = [
            compute_boundary_leaf(*place, b, self.make_salt(b), self.make_root(b))
            for b in range(self.segments + 1)
        ]
        work = compute_work_leaf(*place, self.segments, hash_leaf(self.delta), self.carried)
        return compute_levels([*leaves, work])

    @property
    def carried(self) -> bytes:
        """What the claim says that it hands on."""
        is_wrong = self.fault == "carried"
        return make_word("none") if is_wrong else compute_carried_root(self.make_header(self.segments))

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
        return WorkProof(hash_leaf(self.delta), self.carried, path)

    def list_roots(self, segment: int, last: bytes | None = None) -> list[bytes]:
        """Returns the states' roots along a segment. last: of a replay that came to another end."""
        inner = [make_word("state", self.round, segment, step) for step in range(1, STEPS)]
        return [self.make_root(segment), *inner, last or self.make_root(segment + 1)]


def make_schedule(segments: int) -> Levels:
    """Returns the tree of the learning rates of so many segments."""
    return compute_levels([compute_schedule_leaf(index, RATE_SUM) for index in range(segments)])
