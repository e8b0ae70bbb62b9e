"""Defines agents and their strategies, and the game in memory that they play.

Every method of a strategy is the honest one; an agent overrides what it does differently. In the game, calls
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
from touchstone.protocol.spec.game.terms import DeploymentBounds, GameTerms
from touchstone.protocol.spec.statements import VoteWord

if TYPE_CHECKING:
    from lab.benchmarks.economy.play import Play

# Agents and what their play comes to
Seats = tuple[int, int, int]
"""The numbers of solvers, verifiers and whistleblowers."""
Sends = Iterator[tuple[str, GameCall]]


class Shown(IntEnum):
    """How much of its claim a solver shows to an auditor. From START on the auditor can replay."""

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
"""The proof that shows each fault in one call."""


@dataclass(frozen=True)
class Claim:
    """The contents of a claim. `spoiled` are segments that were not computed. `drifted` are segments beyond
    the limits whose steps are each inside. `is_untraced`: its false steps have traces that pass wherever
    leaves are demanded, and that are served to nobody. `about` is anything else that makes its root
    differ."""

    spoiled: frozenset[int] = frozenset()
    drifted: frozenset[int] = frozenset()
    fault: Fault = Fault.NONE
    segments: int = SEGMENTS
    is_untraced: bool = False
    about: str = ""
    owner: str = ""

    @property
    def is_false(self) -> bool:
        """Returns whether the claim is worth V to its maker once it is merged."""
        return bool(self.spoiled or self.drifted) or self.fault is not Fault.NONE


@dataclass(frozen=True)
class Audit:
    """A drawn audit: its place, the segment, and the auditor."""

    ref: StatementRef
    segment: int
    auditor: str
    is_late: bool


@dataclass(frozen=True)
class Strategy:
    """The honest strategy."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Returns the claim that a solver commits to in a round; None for no claim."""
        return Claim()

    def get_commit_block(self, play: Play, game_round: GameRound, name: str) -> int:
        """Returns the block of the commitment."""
        return (game_round.trained_from or 0) + TRAIN_BLOCKS

    def show(self, play: Play, audit: Audit, claim: Claim) -> Shown:
        """Returns what a solver shows to an auditor of its claim."""
        return Shown.ALL

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns the verdict of an auditor; None for no vote."""
        return play.look(audit)

    def is_opening(self, play: Play, audit: Audit) -> bool:
        """Returns whether an opening that fits follows an auditor's vote."""
        return True

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Returns whether an auditor can show the states that its vote is about."""
        return True

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Returns whether the sealed end equals the claimed one bit for bit, so that nobody queries a leaf.
        Honest machines differ, which is the harder case for them."""
        return False

    def is_detouring(self, play: Play, audit: Audit) -> bool:
        """Returns whether votes go through a contract of the auditor's own, so that no transaction to Votes
        shows them."""
        return False

    def choose_merge(self, play: Play, game_round: GameRound, merged: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the slots in the merge that a solver signs; none if it signs nothing."""
        return merged

    def is_forging(self, play: Play, game_round: GameRound, name: str) -> bool:
        """Returns whether the root that it signs is wrong."""
        return False

    def is_answering(self, play: Play, name: str) -> bool:
        """Returns whether it answers queries, disputes and contests in which it is right."""
        return True

    def is_down(self, play: Play, name: str) -> bool:
        """Returns whether its node is down."""
        return False

    def is_stepping(self, play: Play, name: str) -> bool:
        """Returns whether a solver defends a false claim in a dispute by invented step roots."""
        return False

    def plan(self, play: Play) -> Sends:
        """Yields all other calls of its accounts. Each is sent once."""
        yield from ()


HONEST = Strategy()


@dataclass(frozen=True)
class Outcome:
    """A possible outcome of the draws on a single false claim. `drawn` is for the round's audit, `late` for
    the late one: None if the spoiled segment is not drawn, else for each of three auditors whether it is the
    agent's."""

    chance: Fraction
    drawn: tuple[bool, ...] | None
    late: tuple[bool, ...] | None


@dataclass(frozen=True)
class Agent:
    """An agent. `play` says what it does. `seats` counts its own solvers, verifiers and whistleblowers.
    `foes` is the strategy of others whom an honest agent must withstand. `gain` is V in wei. `known` names
    the entry of "Known and open" under which it may gain. `outcomes` weigh its one false claim exactly;
    without them seeds are averaged. `is_spotted`: its chance of a random query is weighed exactly. `changes`
    are other terms of its task."""

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


# Chances
LATE = Fraction(1, 2)
"""The chance of a late audit of a claim."""
Hand = tuple[tuple[bool, ...] | None, Fraction]


def list_hands(own: int, pool: int) -> list[tuple[tuple[bool, ...], Fraction]]:
    """Returns the chance of each way in which three auditors, drawn without replacement, belong to the agent
    or not."""
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
    """Returns all outcomes. `own` are the agent's verifiers and whistleblowers. `foresight` is the number of
    draws from which the agent chooses: first one that spares its segment, then one that its own auditors
    decide."""
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
    """Returns the chances after the best of several draws: somebody is drawn only if every draw draws
    somebody."""
    spared = 1 - (1 - hands[0][1]) ** draws
    rest = 1 - hands[0][1]
    return [(None, spared), *((hand, chance / rest * (1 - spared)) for hand, chance in hands[1:])]


# The table
SUBMITTER = "submitter"
Wish = Callable[[GameState], bool]
"""Returns whether a draw came out as wanted, by the state after its randomness is recorded."""


class AnyTable(Protocol):
    """The game that agents play: in memory alone, or with the contracts beside it."""

    @property
    def state(self) -> GameState:
        """The state in memory."""

    @property
    def block(self) -> int:
        """The block that the next call is in."""

    def get_address(self, name: str) -> str:
        """Returns the account of a party."""

    def make_claim_root(self, game_round: int, claim: Claim) -> bytes:
        """Returns the root of a claim."""

    def make_root(self, index: int, merged: tuple[int, ...], is_wrong: bool) -> bytes:
        """Returns the outer root of a merge."""

    def make_digest(self, name: str, ref: StatementRef, kind: ProofKind) -> bytes:
        """Returns the digest that a party commits to before it sends a proof."""

    def send(self, call: GameCall, name: str) -> str | None:
        """Sends a call. Returns the name of the refusal, None if the call passed."""

    def go_to(self, block: int) -> None:
        """Goes to a later block."""


class Table:
    """One task in memory. If `wish` is given, randomness is tried until a draw comes out as wanted."""

    def __init__(
        self, terms: GameTerms, limits: DeploymentBounds, seed: int, wish: Wish | None = None
    ) -> None:
        terms = replace(terms, submitter=SUBMITTER)
        self.state, self.block = create_game(terms, limits, 0), 1
        self.seed, self.wish = seed, wish

    def get_address(self, name: str) -> str:
        """Returns the account of a party."""
        return name

    def make_claim_root(self, game_round: int, claim: Claim) -> bytes:
        """Returns a hash in place of the claim's tree. Equal claims have one root."""
        return make_word("claim", game_round, claim)

    def make_root(self, index: int, merged: tuple[int, ...], is_wrong: bool) -> bytes:
        """Returns a hash in place of the outer root of a merge."""
        return make_word("merge", index, merged, is_wrong)

    def make_digest(self, name: str, ref: StatementRef, kind: ProofKind) -> bytes:
        """Returns the digest that a party commits to before it sends a proof."""
        return make_word("proof", name, ref, kind)

    def send(self, call: GameCall, name: str) -> str | None:
        """Sends a call. Returns the name of the refusal, None if the call passed."""
        for attempt in range(100_000):
            try:
                made = self._seal(call, attempt)
                state = fold_all(self.state, apply(self.state, made, name, self.block), self.block)
            except GameRefusal as refusal:
                return refusal.name
            is_draw = isinstance(call, calls.DrawAudits | calls.DrawClosing)
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
        """Goes to a later block."""
        self.block = block
