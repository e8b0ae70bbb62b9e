"""The pure machine as a table to play at: calls pass or are refused, blocks go by."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from lab.benchmarks.economy.conduct import Claim
from lab.benchmarks.economy.ground import make_word
from protocol.spec.errors import GameRefusal
from protocol.spec.game import calls
from protocol.spec.game.calls import GameCall
from protocol.spec.game.ledger import apply, fold_all
from protocol.spec.game.state import GameState, ProofKind, StatementRef, create_game
from protocol.spec.game.terms import DeploymentLimits, GameTerms

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
