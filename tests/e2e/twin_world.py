"""The tiny world of the shared sequences with real trees: two segments of two steps, tensors of two leaves.

No step is computed here: states are made up, but every root, path, salt and commitment is what
`protocol/spec` makes of them, so that the contracts find nothing wrong.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from protocol.adapters.chain.types import BoundaryProof
from protocol.spec.codec import (
    compute_audit_commitment,
    compute_boundary_leaf,
    compute_state_root,
    compute_step_root,
)
from protocol.spec.containers import LeafProof, StateHeader, StateLeaves, TaskTerms
from protocol.spec.float32 import float_to_bits, pack_bits
from protocol.spec.hashing import sha256_of
from protocol.spec.merkle import (
    Levels,
    compute_data_levels,
    compute_levels,
    compute_path,
    compute_zero_tensor_root,
    hash_leaf,
    split_leaves,
)
from protocol.spec.outer import compute_delta_leaf
from protocol.spec.params import LEAF_ELEMENTS
from protocol.spec.round import RoundState
from protocol.spec.schedule import compute_schedule_levels
from protocol.spec.statuses import AuditRef
from tests.e2e.twin_step import PARAMETERS, make_facts
from tests.protocol.spec.simulator import make_terms

LEARNING_RATE_SUM = (1 << 64) // 100
"""0.01 for every segment, in units of 2^-64."""
INITIAL_WEIGHT = float_to_bits(2.0**-10)
NEAR_ULPS = 1
"""2^-33 at a weight of 2^-10: inside tau_w * L = 2^-20 * 0.01."""
FAR_ULPS = 1 << 20
"""An eighth of the weight: 10,000 times the limit, in every element."""
TENSORS = 3
"""W, m, v."""


class State(NamedTuple):
    """A made-up state: each tensor holds one value (float32 bits) in its first leaf, the next float32 in its
    second."""

    weight: int
    first_moment: int
    second_moment: int
    local_step: int
    global_step: int

    @property
    def header(self) -> StateHeader:
        """Its roots and step numbers."""
        weights, first, second = (make_tensor(bits)[1][-1][0] for bits in self[:TENSORS])
        return StateHeader(weights, first, second, self.local_step, self.global_step)

    @property
    def root(self) -> bytes:
        """Its state root."""
        return compute_state_root(self.header)

    def prove_leaf(self, tensor: int, index: int) -> LeafProof:
        """Leaf `index` of tensor 0 W, 1 m, 2 v."""
        pieces, levels = make_tensor(self[tensor])
        return LeafProof(pieces[index], tuple(compute_path(levels, index)))

    def prove_leaves(self, indices: tuple[int, ...]) -> tuple[StateLeaves, ...]:
        """The same leaves of all three tensors."""
        return tuple(StateLeaves(*(self.prove_leaf(t, i) for t in range(TENSORS))) for i in indices)


@cache
def make_tensor(bits: int) -> tuple[list[bytes], Levels]:
    """Leaves and tree of a tensor; zero stays zero in both leaves."""
    second = bits + 1 if bits else 0
    data = pack_bits([bits] * LEAF_ELEMENTS) + pack_bits([second] * LEAF_ELEMENTS)
    return split_leaves(data), compute_data_levels(data)


INITIAL = State(INITIAL_WEIGHT, 0, 0, 0, 0)


def make_twin_terms(submitter: str, rounds: int = 2) -> TaskTerms:
    """The terms of the vectors' world with roots that belong to real trees."""
    terms = make_terms(rounds=rounds)
    sums = [LEARNING_RATE_SUM] * (terms.rounds * terms.segment_count)
    return replace(
        terms,
        submitter=submitter,
        initial_weights_root=INITIAL.header.weights_root,
        zero_root=compute_zero_tensor_root(PARAMETERS),
        schedule_root=compute_schedule_levels(sums)[-1][0],
        step_root=compute_step_root(make_facts()),
    )


def prove_schedule(terms: TaskTerms, segment: int) -> tuple[bytes, ...]:
    """Path of the schedule leaf of a segment of round 0."""
    sums = [LEARNING_RATE_SUM] * (terms.rounds * terms.segment_count)
    return tuple(compute_path(compute_schedule_levels(sums), segment))


def state_after(slot: int, steps: int) -> State:
    """What a slot's claim says the state is after `steps` steps of round 0."""
    if steps == 0:
        return INITIAL
    weight = INITIAL_WEIGHT + 64 * (8 * slot + steps)
    first, second = float_to_bits(2.0**-12) + weight % 1024, float_to_bits(2.0**-20) + weight % 1024
    return State(weight, first, second, steps, steps)


def move_state(state: State, result: str) -> State:
    """What an auditor finds in its place: the same, near or far."""
    ulps = {"equal": 0, "near": NEAR_ULPS, "far": FAR_ULPS}[result]
    return state._replace(weight=state.weight + ulps)


@dataclass(frozen=True)
class Claims:
    """All claims of round 0: trees of salted boundary leaves, and whatever is proven from them."""

    state: RoundState

    def salt(self, slot: int, boundary: int) -> bytes:
        """The solver's secret of a boundary."""
        return sha256_of(f"salt {slot} {boundary}".encode())

    def state_at(self, slot: int, boundary: int) -> State:
        """The claimed state at a boundary."""
        return state_after(slot, boundary * self.state.terms.segment_steps)

    def levels(self, slot: int) -> Levels:
        """The claim tree of a slot; of nobody where there is no such solver."""
        solvers = self.state.solvers
        solver = solvers[slot] if slot < len(solvers) else "0x" + 40 * "0"
        leaves = [
            compute_boundary_leaf(
                self.state.domain,
                self.state.index,
                solver,
                i,
                self.salt(slot, i),
                self.state_at(slot, i).root,
            )
            for i in range(self.state.terms.segment_count + 1)
        ]
        return compute_levels(leaves)

    def root(self, slot: int) -> bytes:
        """The claim root of a slot."""
        return self.levels(slot)[-1][0]

    def prove_boundary(self, slot: int, boundary: int) -> BoundaryProof:
        """The opening of a boundary."""
        path = tuple(compute_path(self.levels(slot), boundary))
        return BoundaryProof(self.state_at(slot, boundary).header, self.salt(slot, boundary), path)

    def delta_root(self, slot: int) -> bytes:
        """Root over the pseudo-gradient of a slot."""
        return make_delta_root(self.state_at(slot, self.state.terms.segment_count).weight)

    def audit_salt(self, ref: AuditRef) -> bytes:
        """An auditor's secret."""
        return sha256_of(f"audit {ref.key}".encode())

    def commit_audit(self, ref: AuditRef, auditor: str, found: State) -> bytes:
        """The blind commitment to a result."""
        place = (self.state.domain, ref.round, ref.slot, ref.draw, ref.rank)
        return compute_audit_commitment(*place, auditor, found.root, self.audit_salt(ref))


@cache
def make_delta_root(final_weight: int) -> bytes:
    """Root over the delta leaves from the initial weights to `final_weight`."""
    pairs = zip(make_tensor(INITIAL_WEIGHT)[0], make_tensor(final_weight)[0], strict=True)
    return compute_levels([hash_leaf(compute_delta_leaf(a, b)) for a, b in pairs])[-1][0]
