"""Which statements lie beyond the limits of what this node itself found: claims, votes that stand by them,
and votes that reject what it stands by.

Nothing here convicts. Two honest machines may part by a million limits over a segment, so whatever is found
is looked at step by step before it is disputed (`opening.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from protocol.actions.dispute.casebook import Sentence, name_vote
from protocol.actions.dispute.knowing import get_now, list_own_boundaries
from protocol.actions.dispute.sources import KnownVote
from protocol.actions.dispute.standing import find_solver
from protocol.actions.runtime.party import Party
from protocol.spec.codec import compute_state_root
from protocol.spec.game.enums import SeatRole
from protocol.spec.game.pools import find_seat
from protocol.spec.game.state import StatementRef
from protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class Suspicion:
    """A statement that may be false. ends: roots of the segment's first and last state as the statement has
    them; the first is empty where nobody has shown it to this node."""

    sentence: Sentence
    ends: tuple[bytes, bytes]


def list_suspicions(party: Party, index: int) -> Iterator[Suspicion]:
    """What this node's own replays and claim of a round show to be false or drifted."""
    votes = list(party.task.audits.list_votes(index))
    for replay in party.task.audits.list_replays(index):
        if replay.claimed_end is None:
            continue
        start, end = (compute_state_root(one.header) for one in (replay.start, replay.claimed_end))
        here = [
            one for one in votes if (one.vote.slot, one.vote.segment) == (replay.ref.slot, replay.segment)
        ]
        if replay.beyond_leaf is not None:
            ref = StatementRef(index, replay.ref.slot)
            yield Suspicion(Sentence(ref, replay.segment), (start, end))
            yield from _list_followers(here, start, end)
        else:
            yield from _list_slanders(here, start, {end, compute_state_root(replay.own_end)})
    yield from _list_own_slanders(party, index, votes)
    yield from _list_supporters(party, index, votes)


def _list_supporters(party: Party, index: int, votes: list[KnownVote]) -> Iterator[Suspicion]:
    """Votes that stand by a claim which was convicted, for whistleblowers. An auditor may have accepted a
    right segment of a false claim: its own steps tell."""
    seat = find_seat(get_now(party), party.account)
    if seat is None or seat.role != SeatRole.WHISTLEBLOWER:
        return
    claims = get_now(party).rounds[index].claims
    for known in votes:
        claim = claims.get(known.vote.slot)
        is_fallen = claim is not None and claim.is_convicted and known.vote.word == VoteWord.ACCEPT
        if is_fallen and known.opening is not None:
            yield Suspicion(name_vote(known), (b"", known.opening.own_end_root))


def _list_followers(votes: list[KnownVote], start: bytes, end: bytes) -> Iterator[Suspicion]:
    """Votes whose own replay came to the very end that is suspected."""
    for known in votes:
        if known.opening is not None and known.opening.own_end_root == end:
            yield Suspicion(name_vote(known), (start, end))


def _list_slanders(votes: list[KnownVote], start: bytes, right: set[bytes]) -> Iterator[Suspicion]:
    """Rejections by a replay that came to another end than those that this node stands by."""
    for known in votes:
        is_open = known.vote.word == VoteWord.REJECT_STATE and known.opening is not None
        if is_open and known.opening is not None and known.opening.own_end_root not in right:
            yield Suspicion(name_vote(known), (start, known.opening.own_end_root))


def _list_own_slanders(party: Party, index: int, votes: list[KnownVote]) -> Iterator[Suspicion]:
    boundaries = list_own_boundaries(party, index)
    for known in votes:
        segment, solver = known.vote.segment, find_solver(get_now(party), index, known.vote.slot)
        if solver == party.account and segment + 1 < len(boundaries):
            start, end = (compute_state_root(boundaries[segment + at]) for at in (0, 1))
            yield from _list_slanders([known], start, {end})
