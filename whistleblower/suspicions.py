"""Lists suspected faults: statements that contradict this node's own replays, and votes that support them."""

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
    """A statement that may be false. `ends` are the roots of the segment's first and last state in that
    statement; empty if only hashes of them are known. `denied` is the claimed end if the statement says that
    its own end is another, else empty."""

    statement_key: StatementKey
    ends: tuple[bytes, bytes]
    denied: bytes = b""


def list_suspected_faults(view: View, index: int) -> Iterator[SuspectedFault]:
    """Yields statements about a round that contradict this node's own replays or its own claim."""
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
    """Yields votes that accepted a claim which was later convicted; for whistleblowers only. Such an auditor
    may have accepted a right segment of a false claim, so its own steps are judged."""
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
    """Yields votes whose own replay came to the suspected end. In an exact task every ACCEPT says so, even
    one that is never opened: its signer may hide a right end, and no query shows that."""
    for known in votes:
        is_accept = view.game.terms.is_exact and known.vote.word == VoteWord.ACCEPT
        is_hidden = is_accept and known.opening is None and is_counted(get_now(view), known)
        if is_hidden or _get_own_end(known) == end:
            yield SuspectedFault(name_vote(known), (start, end))


def _list_false_rejections(
    view: View, votes: list[KnownVote], start: bytes, end: bytes, own: bytes
) -> Iterator[SuspectedFault]:
    """Yields REJECT_STATE votes whose own end is neither the claim's nor this node's, or is withheld. A query
    shows only one leaf of an end, and a liar can seal an end that is false elsewhere. An exact task has no
    queries; there a withheld end may equal the claim's."""
    for known in votes:
        is_told = known.opening is not None or is_withheld(view, known)
        if known.vote.word == VoteWord.REJECT_STATE and is_told and _get_own_end(known) not in (end, own):
            denied = end if view.game.terms.is_exact else b""
            yield SuspectedFault(name_vote(known), (start, _get_own_end(known)), denied)


def _get_own_end(known: KnownVote) -> bytes:
    """Returns the root of the auditor's own end; empty if the vote is not opened."""
    return b"" if known.opening is None else known.opening.own_end_root


def _list_own_false_rejections(view: View, index: int, votes: list[KnownVote]) -> Iterator[SuspectedFault]:
    boundaries = list_own_boundaries(view, index)
    for known in votes:
        segment, solver = known.vote.segment, find_solver(get_now(view), index, known.vote.slot)
        if solver == view.account and segment + 1 < len(boundaries):
            start, end = (compute_state_root(boundaries[segment + at]) for at in (0, 1))
            yield from _list_false_rejections(view, [known], start, end, end)


def format_place(statement_key: StatementKey) -> str:
    """Describes a suspected statement: round, slot, segment, claim or vote."""
    ref = statement_key.ref
    who = "the claim" if ref.draw is None else f"the vote of rank {ref.rank} on draw {ref.draw}"
    return f"round {ref.round} slot {ref.slot} segment {statement_key.segment}, {who}"
