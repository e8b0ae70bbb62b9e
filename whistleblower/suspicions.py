"""Suspected faults: statements that contradict this node's own replay, and those who stand by them."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.known_statements import find_solver, get_now, is_counted, is_withheld
from touchstone.node.kit.view import View
from touchstone.node.models.own_openings import list_own_boundaries
from touchstone.node.records.dispute_records import StatementKey, name_vote
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class SuspectedFault:
    """A statement that may be false. ends: the roots of the segment's first and last state as the statement
    has them; empty if this node does not know them. Then the vote's hashes bind what is shown. denied: the
    claimed end, if the statement says that its own end is another; else empty."""

    statement_key: StatementKey
    ends: tuple[bytes, bytes]
    denied: bytes = b""


def list_suspected_faults(view: View, index: int) -> Iterator[SuspectedFault]:
    """Yields statements that this node's own replays and claim of a round show to be false or drifted."""
    votes = list(view.audits.list_votes(index))
    for replay in view.audits.list_replays(index):
        if replay.claimed_end is None:
            continue
        start, end = (compute_state_root(one.header) for one in (replay.start, replay.claimed_end))
        here = [
            one for one in votes if (one.vote.slot, one.vote.segment) == (replay.ref.slot, replay.segment)
        ]
        if replay.excess_leaf is not None:
            ref = StatementRef(index, replay.ref.slot)
            yield SuspectedFault(StatementKey(ref, replay.segment), (start, end))
            yield from _list_concurring_votes(view, here, start, end)
        else:
            yield from _list_false_rejections(view, here, start, end, compute_state_root(replay.own_end))
    yield from _list_own_false_rejections(view, index, votes)
    yield from _list_supporters(view, index, votes)


def _list_supporters(view: View, index: int, votes: list[KnownVote]) -> Iterator[SuspectedFault]:
    """Yields votes that stand by a claim which was convicted, for whistleblowers. An auditor may have
    accepted a right segment of a false claim: its own steps tell."""
    seat = find_seat(get_now(view), view.account)
    if seat is None or seat.role != SeatRole.WHISTLEBLOWER:
        return
    claims = get_now(view).rounds[index].claims
    for known in votes:
        claim = claims.get(known.vote.slot)
        is_fallen = claim is not None and claim.is_convicted and known.vote.word == VoteWord.ACCEPT
        if is_fallen and (known.opening is not None or is_counted(get_now(view), known)):
            yield SuspectedFault(name_vote(known), (b"", _get_own_end(known)))


def _list_concurring_votes(
    view: View, votes: list[KnownVote], start: bytes, end: bytes
) -> Iterator[SuspectedFault]:
    """Yields votes whose own replay came to the very end that is suspected. In an exact task each ACCEPT says
    so, also one that is never opened: its signer may have the right end, and no ask shows that."""
    for known in votes:
        is_accept = view.game.terms.is_exact and known.vote.word == VoteWord.ACCEPT
        is_hidden = is_accept and known.opening is None and is_counted(get_now(view), known)
        if is_hidden or _get_own_end(known) == end:
            yield SuspectedFault(name_vote(known), (start, end))


def _list_false_rejections(
    view: View, votes: list[KnownVote], start: bytes, end: bytes, own: bytes
) -> Iterator[SuspectedFault]:
    """Rejections by a replay that came to another end than those that this node stands by (of the claim, its
    own), or whose end is withheld: an ask shows one leaf of it, and a liar seals an end that is false there
    alone. In an exact task there are no asks, and the withheld end may be the claim's."""
    for known in votes:
        is_told = known.opening is not None or is_withheld(view, known)
        if known.vote.word == VoteWord.REJECT_STATE and is_told and _get_own_end(known) not in (end, own):
            denied = end if view.game.terms.is_exact else b""
            yield SuspectedFault(name_vote(known), (start, _get_own_end(known)), denied)


def _get_own_end(known: KnownVote) -> bytes:
    """Empty if the vote is not opened."""
    return b"" if known.opening is None else known.opening.own_end_root


def _list_own_false_rejections(view: View, index: int, votes: list[KnownVote]) -> Iterator[SuspectedFault]:
    boundaries = list_own_boundaries(view, index)
    for known in votes:
        segment, solver = known.vote.segment, find_solver(get_now(view), index, known.vote.slot)
        if solver == view.account and segment + 1 < len(boundaries):
            start, end = (compute_state_root(boundaries[segment + at]) for at in (0, 1))
            yield from _list_false_rejections(view, [known], start, end, end)


def format_place(statement_key: StatementKey) -> str:
    """Describes which segment of which account it is."""
    ref = statement_key.ref
    who = "the claim" if ref.draw is None else f"the vote of rank {ref.rank} on draw {ref.draw}"
    return f"round {ref.round} slot {ref.slot} segment {statement_key.segment}, {who}"
