"""Finds wrong starts, pseudo-gradients and votes about them, which one transaction proves false."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.known_statements import find_accused, find_solver, get_now, is_provable
from touchstone.node.kit.view import View
from touchstone.node.models.own_openings import list_own_boundaries
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.statements import COMPARED, VoteWord

WORK_WORDS = frozenset({VoteWord.REJECT_START, VoteWord.REJECT_DELTA})


@dataclass(frozen=True)
class FalseClaim:
    """A claim whose start or work leaf is wrong, as this node's own vote says."""

    vote: KnownVote

    @property
    def name(self) -> tuple[object, ...]:
        """The kind of proof, and the vote that found the fault."""
        return "claim", self.vote.signature


@dataclass(frozen=True)
class FalseStart:
    """A claim whose start has step counters that no claim of the round can start from."""

    claim: StatementRef

    @property
    def name(self) -> tuple[object, ...]:
        """The kind of proof, and the claim."""
        return "start", self.claim


@dataclass(frozen=True)
class FalseWorkVote:
    """A vote that rejects a start or a work leaf although this node finds it right."""

    vote: KnownVote

    @property
    def name(self) -> tuple[object, ...]:
        """The kind of proof, and the accused vote."""
        return "work", self.vote.signature


WorkFault = FalseClaim | FalseStart | FalseWorkVote


def list_work_faults(view: View, game_round: GameRound, block: int) -> Iterator[WorkFault]:
    """Lists the faults in starts and pseudo-gradients of a round that can be proven in `block`."""
    votes = list(view.audits.list_votes(game_round.index))
    own = {one.vote.slot: one for one in votes if one.auditor == view.account and one.vote.word in COMPARED}
    for slot, found in own.items():
        ref = StatementRef(game_round.index, slot)
        accused = find_accused(get_now(view), ref, None)
        if found.vote.word in WORK_WORDS and is_provable(get_now(view), ref, accused, view.account, block):
            yield FalseClaim(found)
    for slot, _ in view.audits.list_wrong_starts(game_round.index):
        ref = StatementRef(game_round.index, slot)
        accused = find_accused(get_now(view), ref, None)
        if slot not in own and is_provable(get_now(view), ref, accused, view.account, block):
            yield FalseStart(ref)
    for known in votes:
        accused = find_accused(get_now(view), known.ref, known)
        if (
            known.vote.word in WORK_WORDS
            and is_provable(get_now(view), known.ref, accused, view.account, block)
            and _is_right(view, known, own.get(known.vote.slot))
        ):
            yield FalseWorkVote(known)


def _is_right(view: View, known: KnownVote, own: KnownVote | None) -> bool:
    """Returns whether this node itself finds the claim's start and work leaf right, against a vote."""
    if find_solver(get_now(view), known.vote.round, known.vote.slot) == view.account:
        return bool(list_own_boundaries(view, known.vote.round))
    return own is not None and own.vote.word not in WORK_WORDS
