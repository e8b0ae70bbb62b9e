"""What an agent does, what a play comes to, and the pure machine as a table to play at.

Every method of a conduct is the honest one; an agent overrides what it does otherwise. At the table calls
pass or are refused, and blocks go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Protocol

from lab.benchmarks.economy.parameters import (
    DRAWS,
    FIGURES,
    SEGMENTS,
    TRAIN_BLOCKS,
    VERIFIERS,
    WHISTLEBLOWERS,
    make_word,
)
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.round_machine import apply, fold_all
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import GameRound, GameState, StatementRef, create_game
from touchstone.protocol.spec.game.terms import DeploymentLimits, GameTerms
from touchstone.protocol.spec.statements import VoteWord

if TYPE_CHECKING:
    from lab.benchmarks.economy.play import Play

# --- Agents and what their play comes to --------------------------------------------------------------------
Seats = tuple[int, int, int]
"""Of solvers, verifiers, whistleblowers."""
Sends = Iterator[tuple[str, GameCall]]


class Shown(IntEnum):
    """How much of its claim a solver shows an auditor. From START on the auditor has replayed."""

    NOTHING = 0
    GARBAGE = 1
    START = 2
    ENDS = 3
    ALL = 4


class Fault(Enum):
    """What is wrong with a claim as a whole."""

    NONE = "nothing"
    SCALE = "a scale above 220"
    LENGTH = "a leaf of another length"
    START = "another base"
    CARRIED = "other moments handed on"


PROOFS = {
    Fault.SCALE: ProofKind.DELTA_LEAF,
    Fault.LENGTH: ProofKind.DELTA_LEAF,
    Fault.START: ProofKind.BOUNDARY_ZERO,
    Fault.CARRIED: ProofKind.CARRIED_ROOT,
}
"""What shows it in one call."""


@dataclass(frozen=True)
class Claim:
    """What a solver commits. spoiled: segments that it did not compute; drifted: segments that lie beyond the
    limits while every step of theirs lies inside; is_untraced: its false steps have traces that pass wherever
    they are demanded, and that nobody is served; about: what else its root hangs on."""

    spoiled: frozenset[int] = frozenset()
    drifted: frozenset[int] = frozenset()
    fault: Fault = Fault.NONE
    segments: int = SEGMENTS
    is_untraced: bool = False
    about: str = ""
    owner: str = ""

    @property
    def is_false(self) -> bool:
        """Whether it is worth V to its maker once it is merged."""
        return bool(self.spoiled or self.drifted) or self.fault is not Fault.NONE


@dataclass(frozen=True)
class Audit:
    """A drawn audit: its place, the segment, and who is asked."""

    ref: StatementRef
    segment: int
    auditor: str
    is_late: bool


@dataclass(frozen=True)
class Strategy:
    """Honest."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """What a solver commits in a round; None where it does not."""
        return Claim()

    def get_commit_block(self, play: Play, game_round: GameRound, name: str) -> int:
        """When it does."""
        return (game_round.trained_from or 0) + TRAIN_BLOCKS

    def show(self, play: Play, audit: Audit, claim: Claim) -> Shown:
        """What a solver shows an auditor of its claim."""
        return Shown.ALL

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """What an auditor votes; None where it is silent."""
        return play.look(audit)

    def is_opening(self, play: Play, audit: Audit) -> bool:
        """Whether an auditor's vote is followed by an opening that fits."""
        return True

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Whether an auditor can show the states that its vote stands on."""
        return True

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Whether the end that an auditor sealed is the claimed one, bit for bit: nobody asks for a leaf of
        it. Honest machines differ, which is the harder case for them."""
        return False

    def is_detouring(self, play: Play, audit: Audit) -> bool:
        """Whether its votes go by a contract of its own, so that no transaction to Votes has them."""
        return False

    def choose_merge(self, play: Play, game_round: GameRound, merged: tuple[int, ...]) -> tuple[int, ...]:
        """Which slots a solver signs a root of; none where it signs nothing."""
        return merged

    def is_forging(self, play: Play, game_round: GameRound, name: str) -> bool:
        """Whether the root that it signs is a wrong one."""
        return False

    def is_answering(self, play: Play, name: str) -> bool:
        """Whether it answers asks, disputes and contests while it has the truth on its side."""
        return True

    def is_down(self, play: Play, name: str) -> bool:
        """Whether its node is down."""
        return False

    def is_stepping(self, play: Play, name: str) -> bool:
        """Whether a solver's false claim is defended in a dispute by step roots of its own invention."""
        return False

    def plan(self, play: Play) -> Sends:
        """Whatever else its accounts send. Each call is sent once."""
        yield from ()


HONEST = Strategy()


@dataclass(frozen=True)
class Outcome:
    """One of the outcomes that chance gives a single false claim: who is drawn for the spoiled segment (None:
    nobody, else whether each of the three is the agent's own), in the round's audit and late."""

    chance: Fraction
    drawn: tuple[bool, ...] | None
    late: tuple[bool, ...] | None


@dataclass(frozen=True)
class Agent:
    """Who plays. play: who does what; seats: own solvers, verifiers, whistleblowers; foes: how some others
    play, against whom an honest one must hold; gain: V in wei; known: the entry of "Known and open" that
    names it, where it may gain; outcomes: where its one false claim is weighed exactly, else seeds are
    averaged; is_spotted: its chance to be asked at random is weighed exactly; changes: other terms of its
    task."""

    name: str
    play: str
    strategy: Strategy = HONEST
    seats: Seats = (0, 0, 0)
    is_submitter: bool = False
    is_honest: bool = False
    foes: Strategy = HONEST
    foe_seats: Seats = (0, 0, 0)
    gain: int = FIGURES.gain
    known: str = ""
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    is_spotted: bool = False
    changes: tuple[tuple[str, int], ...] = ()


# --- Chances ------------------------------------------------------------------------------------------------
LATE = Fraction(1, 2)
"""Chance of a late audit of a claim."""
Hand = tuple[tuple[bool, ...] | None, Fraction]


def list_hands(own: int, pool: int) -> list[tuple[tuple[bool, ...], Fraction]]:
    """Whether each of three auditors is the agent's, without replacement."""
    hands = []
    for hand in product((True, False), repeat=RANKS):
        chance = Fraction(1)
        for place, is_own in enumerate(hand):
            held = own - sum(hand[:place])
            left = pool - place
            chance *= Fraction(max(0, held) if is_own else left - max(0, held), left)
        if chance:
            hands.append((hand, chance))
    return hands


def list_outcomes(own: tuple[int, int], foresight: int = 1) -> tuple[Outcome, ...]:
    """All of them. own: verifiers and whistleblowers of the agent; foresight: among how many draws of the
    round it takes the best: one that spares its segment, then one that its own decide."""
    drawn = Fraction(DRAWS, SEGMENTS)
    first: list[Hand] = [(None, 1 - drawn)]
    first += [(hand, drawn * chance) for hand, chance in list_hands(own[0], VERIFIERS)]
    first = _choose(first, foresight)
    late = LATE * Fraction(1, SEGMENTS - DRAWS)
    second: list[Hand] = [(None, 1 - late)]
    second += [(hand, late * chance) for hand, chance in list_hands(own[1], WHISTLEBLOWERS)]
    found = [Outcome(chance, hand, None) for hand, chance in first if hand is not None]
    return (*found, *(Outcome(first[0][1] * chance, None, hand) for hand, chance in second))


def _choose(hands: list[Hand], draws: int) -> list[Hand]:
    """With the best of several draws: nobody is drawn unless every draw draws somebody."""
    spared = 1 - (1 - hands[0][1]) ** draws
    rest = 1 - hands[0][1]
    return [(None, spared), *((hand, chance / rest * (1 - spared)) for hand, chance in hands[1:])]


# --- The table ----------------------------------------------------------------------------------------------
SUBMITTER = "submitter"
Wish = Callable[[GameState], bool]
"""Whether a draw fell as it should, told from the state after its seal."""


class AnyTable(Protocol):
    """What agents play at: the machine alone, or the contracts beside it."""

    @property
    def state(self) -> GameState:
        """The machine's."""

    @property
    def block(self) -> int:
        """The block that the next call is in."""

    def get_address(self, name: str) -> str:
        """The account of a party."""

    def make_claim_root(self, game_round: int, claim: Claim) -> bytes:
        """The root of a claim."""

    def make_root(self, index: int, merged: tuple[int, ...], is_wrong: bool) -> bytes:
        """The outer root of a merge."""

    def make_digest(self, name: str, ref: StatementRef, kind: ProofKind) -> bytes:
        """What a party seals before it brings a proof."""

    def send(self, call: GameCall, name: str) -> str | None:
        """The name of the refusal, None where the call passed."""

    def go_to(self, block: int) -> None:
        """Blocks go by."""


class Table:
    """One task in memory. wish: which draws are wanted; where it is given, randomness is tried until they
    fall so."""

    def __init__(
        self, terms: GameTerms, limits: DeploymentLimits, seed: int, wish: Wish | None = None
    ) -> None:
        terms = replace(terms, submitter=SUBMITTER)
        self.state, self.block = create_game(terms, limits, 0), 1
        self.seed, self.wish = seed, wish

    def get_address(self, name: str) -> str:
        """The account of a party."""
        return name

    def make_claim_root(self, game_round: int, claim: Claim) -> bytes:
        """What stands for the tree of a claim. Two claims that say the same have one root."""
        return make_word("claim", game_round, claim)

    def make_root(self, index: int, merged: tuple[int, ...], is_wrong: bool) -> bytes:
        """What stands for the outer root of a merge."""
        return make_word("merge", index, merged, is_wrong)

    def make_digest(self, name: str, ref: StatementRef, kind: ProofKind) -> bytes:
        """What a party seals before it brings a proof."""
        return make_word("proof", name, ref, kind)

    def send(self, call: GameCall, name: str) -> str | None:
        """The name of the refusal, None where the call passed."""
        for attempt in range(100_000):
            try:
                made = self._seal(call, attempt)
                state = fold_all(self.state, apply(self.state, made, name, self.block), self.block)
            except GameRefusal as refusal:
                return refusal.name
            is_draw = isinstance(call, calls.SealAudits | calls.SealClosing)
            if self.wish is None or not is_draw or self.wish(state):
                self.state = state
                return None
        raise AssertionError("no draw is as wished")

    def _seal(self, call: GameCall, attempt: int) -> GameCall:
        if not hasattr(call, "randomness"):
            return call
        word = make_word("header", self.seed, type(call).__name__, self.block, attempt)
        return replace(call, randomness=word)  # type: ignore[call-arg]

    def go_to(self, block: int) -> None:
        """Blocks go by."""
        self.block = block
