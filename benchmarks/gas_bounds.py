"""What do answers and proofs cost at the bounds that terms allow?

Tensors of 2^31 parameters, claims of 65,535 segments of 20 steps, programs of 65,536 nodes over as many
buffers of 2^40 elements, sums of 4,096 terms, trace leaves of 4,096 bytes. Of each tree only what is opened
is real. Bytes are hardly ever zero: others cost more.
"""

from dataclasses import asdict, astuple
from typing import Any

from benchmarks.gas_play import (
    AMOUNTS,
    DRAWS,
    SOLVER,
    VERIFIER,
    WINDOWS,
    Case,
    Play,
)
from benchmarks.gas_trees import grow, make_noise
from protocol.spec.codec import compute_boundary_leaf, compute_schedule_leaf, compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.float32 import pack_bits
from protocol.spec.game.terms import GameWindows
from protocol.spec.merkle import hash_leaf
from protocol.spec.params import LEAF_ELEMENTS, MAX_PARAMETERS, MAX_SEGMENT_STEPS
from protocol.spec.statements import Vote, VoteWord, compute_seal
from tests.rounds.chain import RoundChain, Sent
from tests.rounds.members import Member, hand_vote, make_member, make_word

SEGMENTS, STEPS = (1 << 16) - 1, MAX_SEGMENT_STEPS
DEPTH = (MAX_PARAMETERS // LEAF_ELEMENTS - 1).bit_length()
"""of a tensor's tree: 23."""
LEAF = 0x2AAAAB
"""The leaf that everything is about: siblings on both sides."""
SEGMENT = SEGMENTS - 1
SCHEDULE_DEPTH = (SEGMENTS - 1).bit_length()
WIDEST = (1 << 64) - 1, (1 << 160) - 1, (1 << 64) - 1, (1 << 160) - 1, (1 << 64) - 1, (1 << 64) - 1
"""Limits within which any two numbers of one size lie: all of a leaf is compared."""
RATE = 1 << 63
BOUND_WINDOWS = GameWindows(**{**asdict(WINDOWS), "respond": 20})


class BoundPlay(Play):
    """A task of one round at the bounds. step_root: of its steps."""

    segments = SEGMENTS
    step_root = make_word("step")

    def make_terms(self) -> tuple[Any, ...]:
        """One round of as many segments as there may be."""
        schedule = grow(compute_schedule_leaf(SEGMENT, RATE), SEGMENT, SCHEDULE_DEPTH, "schedule")
        return (
            self.submitter.address, make_word("salt", self.case, type(self).__name__), *self.roots,
            schedule[0], self.step_root, 0, 0, MAX_PARAMETERS, 1, SEGMENTS * STEPS, STEPS, self.case.solvers,
            DRAWS, 0, 1, 3 * DRAWS, self.case.auditors, 0, 0x3F000000, 0x3F000000,
            tuple(asdict(BOUND_WINDOWS).values()), tuple(asdict(AMOUNTS).values()), WIDEST,
        )  # fmt: skip

    def make_challenger(self) -> Member:
        """Somebody with a credit."""
        challenger = make_member("challenger")
        self.fund(challenger, 100 * AMOUNTS.ask_bond)
        return challenger


# --- Asks ---------------------------------------------------------------------------------------------------
def measure_answer(chain: RoundChain) -> dict[str, int]:
    """The answer to an ask about an honest vote: all numbers of both leaves differ, within the limits."""
    play = BoundPlay(chain, Case(1, 6))
    play.start()
    play.play(0)
    asker, signed_answer = play.make_challenger(), make_question(play)
    signed, answer = signed_answer
    asked = play.do(asker, "Asks", "ask", play.task, signed, LEAF, AMOUNTS.ask_bond)
    question = (signed[0], LEAF, VERIFIER << 16, asker.address)
    answered = play.do(asker, "Asks", "answer", play.task, question, answer)
    require_event(answered, "AskEnded", ending=1)
    return {"ask": asked.gas, "answer": answered.gas}


def make_question(play: Play) -> tuple[Any, Any]:
    """A signed vote between two states that differ in all numbers of a leaf, and the answer to an ask."""
    known, auditor = play.rounds[0], play.seats[VERIFIER][0]
    solver, salts = play.seats[SOLVER][0].address, (make_word("boundary"), make_word("seal"))
    (claimed, claimed_leaves), (own, own_leaves) = _make_end("claimed"), _make_end("own")
    start = make_word("start")
    seal = compute_seal(play.domain, 0, 0, 0, 0, auditor.address, start, compute_state_root(own), salts[1])
    end = compute_boundary_leaf(play.domain, 0, solver, SEGMENT + 1, salts[0], compute_state_root(claimed))
    vote = Vote(
        play.domain, 0, known.base, known.seed, 0, known.claims[0], 0, 0, SEGMENT, start, seal, end,
        VoteWord.ACCEPT, 0,
    )  # fmt: skip
    _, path = grow(compute_schedule_leaf(SEGMENT, RATE), SEGMENT, SCHEDULE_DEPTH, "schedule")
    answer = (astuple(claimed), astuple(own), solver, *salts, claimed_leaves, own_leaves, RATE, path)
    return (astuple(vote), *hand_vote(vote, None, auditor, play.signing)[-2:]), answer


def _make_end(name: str) -> tuple[StateHeader, Any]:
    """A state, and a leaf of its three tensors with its paths."""
    leaves = [_make_numbers(name, tensor) for tensor in range(3)]
    grown = [grow(hash_leaf(leaf), LEAF, DEPTH, name, i) for i, leaf in enumerate(leaves)]
    steps = (SEGMENT + 1) * STEPS
    weights, first, second = (root for root, _ in grown)
    header = StateHeader(weights, first, second, steps, steps)
    return header, tuple((leaf, path) for leaf, (_, path) in zip(leaves, grown, strict=True))


def _make_numbers(*name: object) -> bytes:
    """Numbers from 1/2 to 1, a leaf of them."""
    noise = make_noise(4 * LEAF_ELEMENTS, *name)
    numbers = (int.from_bytes(noise[i : i + 4], "little") for i in range(0, len(noise), 4))
    return pack_bits([0x3F000000 | number & 0x7FFFFF for number in numbers])


def require_event(sent: Sent, event: str, **expected: Any) -> dict[str, Any]:
    """The event's values. Raises RuntimeError where the transaction has none such."""
    for _, name, values in sent.events:
        if name == event and all(values[key] == value for key, value in expected.items()):
            return values
    raise RuntimeError(f"expected {event} {expected}, found {sent.events}")


# --- Votes --------------------------------------------------------------------------------------------------
def measure_vote(chain: RoundChain, case: Case) -> int:
    """A vote alone, with its opening: the first of its round, whose storage is new."""
    play = Play(chain, case)
    play.start()
    for slot in range(case.solvers):
        play.commit(0, slot)
    play.seal(0)
    return play.do(play.submitter, "Votes", "judge", play.task, 0, play.cast(0, False)[-1:]).gas
