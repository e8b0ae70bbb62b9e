"""The ground on which agents play: a task of four segments of two steps on real contracts, whose honest step
changes nothing, so that a false one is known at a glance and the referee computes it.

Under the program of `tests/e2e/twin_step.py` moments that start from zero stay zero and weights stay what
they were. A segment is spoiled by weights that jump in its last step: every root, opening and trace around it
is real, and one element of the sum `W + m` is false.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from protocol.spec.containers import TaskTerms
from protocol.spec.drawn import get_drawn
from protocol.spec.hashing import sha256_of
from protocol.spec.params import DEVNET, LATE_RATE_ONE
from protocol.spec.round import RoundState, get_audit_ref, get_claim
from protocol.spec.schedule import compute_schedule_levels
from protocol.spec.statuses import AuditRef, ClaimRef
from tests.e2e.twin_calls import CallMaker
from tests.e2e.twin_step import PROGRAM, DealtData, StepTrace
from tests.e2e.twin_world import (
    FAR_ULPS,
    INITIAL,
    LEARNING_RATE_SUM,
    TENSORS,
    Claims,
    State,
    make_tensor,
    make_twin_terms,
)
from tests.e2e.world import WINDOWS

SEGMENTS, SEGMENT_STEPS, DRAWS = 4, 2, 2
SOLVERS, VERIFIERS, WHISTLEBLOWERS = 2, 4, 2
LATE_RATE = LATE_RATE_ONE // 2
PRICED_STEPS = 10
"""Compute is priced as in the demo, whose segments have ten steps; two are enough for the contracts."""
LAST_STEP = SEGMENT_STEPS - 1
"""of a segment: there its weights jump."""
FALSE_NODE, FALSE_ELEMENT = 1, 0
"""W + m of the first weight."""
INVENTED_ULPS = FAR_ULPS // 2
"""What an auditor invents is nobody else's result."""


def make_market_terms(submitter: str, name: str) -> TaskTerms:
    """One round at the sampling of the demo and the amounts of the devnet."""
    terms = replace(
        make_twin_terms(submitter),
        salt=sha256_of(name.encode()),
        rounds=1,
        inner_steps=SEGMENTS * SEGMENT_STEPS,
        segment_steps=SEGMENT_STEPS,
        segment_draws=DRAWS,
        max_solvers=SOLVERS,
        max_verifiers=VERIFIERS,
        max_whistleblowers=WHISTLEBLOWERS,
        late_rate=LATE_RATE,
        windows=WINDOWS,
        amounts=DEVNET.amounts,
    )
    sums = [LEARNING_RATE_SUM] * (terms.rounds * terms.segment_count)
    return replace(terms, schedule_root=compute_schedule_levels(sums)[-1][0])


def move(state: State, ulps: int, steps: int) -> State:
    """The state so many steps later, its weights moved."""
    return state._replace(
        weight=state.weight + ulps, local_step=state.local_step + steps, global_step=state.global_step + steps
    )


@dataclass(frozen=True)
class MarketClaims(Claims):
    """The claims of a round. spoiled: by slot, the segments in whose last step the weights jump."""

    spoiled: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def state_at(self, slot: int, boundary: int) -> State:
        """The claimed state at a boundary."""
        before = sum(1 for one in self.spoiled.get(slot, ()) if one < boundary)
        return move(INITIAL, before * FAR_ULPS, boundary * SEGMENT_STEPS)

    def replay(self, slot: int, segment: int) -> State:
        """What honest work makes of the claimed start of a segment."""
        return move(self.state_at(slot, segment), 0, SEGMENT_STEPS)

    def is_false(self, slot: int, segment: int) -> bool:
        """Whether a segment is spoiled."""
        return segment in self.spoiled.get(slot, ())


@dataclass(frozen=True)
class MarketMaker(CallMaker):
    """Makes the transactions of one account. found: the end states that it hands in, by audit."""

    market: MarketClaims | None = None
    found: Mapping[tuple[int, int, int], State] = field(default_factory=dict)

    @property
    def claims(self) -> MarketClaims:
        """All claims of the round."""
        assert self.market is not None
        return replace(self.market, state=self.state)

    def found_by(self, ref: AuditRef) -> State:
        """The end state that an auditor hands in."""
        return self.found[ref.key]

    def result_of(self, ref: AuditRef) -> str:
        """Whether it lies beyond the limits."""
        end = self.claims.state_at(ref.slot, self.segment_of(ref.slot, ref.draw) + 1)
        return "equal" if self.found[ref.key] == end else "far"


@dataclass(frozen=True)
class Sentence:
    """What a claimant said of one segment: its states after each step, honest but for the last."""

    states: tuple[State, ...]
    own: tuple[State, ...]

    @property
    def is_false(self) -> bool:
        """Whether it is not what honest work gives."""
        return self.states != self.own


def read_sentence(claims: MarketClaims, claim: ClaimRef, found: State | None) -> Sentence:
    """The sentence that a dispute is about. found: an auditor's end state, None for a solver's claim."""
    slot, segment = claim.audit.slot, claim.segment
    start = claims.state_at(slot, segment)
    end = claims.state_at(slot, segment + 1) if found is None else found
    own = tuple(move(start, 0, step) for step in range(SEGMENT_STEPS + 1))
    return Sentence((*own[:-1], end), own)


def trace_step(state: RoundState, claim: ClaimRef, sentence: Sentence, step: int) -> StepTrace:
    """The trace of one step of a sentence."""
    start, end = sentence.states[step], sentence.states[step + 1]
    tensors = {number: make_tensor(start[number])[0] for number in range(TENSORS)}
    outputs = PROGRAM.outputs
    for number, buffer in enumerate((outputs.weights, outputs.first_moment, outputs.second_moment)):
        tensors[buffer] = make_tensor(end[number])[0]
    data = DealtData(state, claim.segment * SEGMENT_STEPS + step, claim.audit.slot)
    return StepTrace(data, start.header, end.header, tensors)


def name_audit(state: RoundState, key: tuple[int, int, int]) -> ClaimRef:
    """The sentence of an auditor."""
    drawn = get_drawn(state, key[0], key[1])
    assert drawn is not None
    return ClaimRef(get_audit_ref(state, *key), drawn.segment, by_solver=False)


def name_claim(state: RoundState, slot: int, segment: int) -> ClaimRef:
    """The sentence of a solver on one segment."""
    assert get_claim(state, slot).claim_root
    return ClaimRef(get_audit_ref(state, slot, 0, 0), segment, by_solver=True)
