"""Takes votes that auditors hand to a solver, to bring them to the chain.

Strangers cannot fill a node with votes, because only seats of the task may hand any in. For each place the
node keeps one vote that the drawn seat signed about a round of the chain, and at most one that contradicts
it.
"""

import asyncio

from touchstone.node.records.audit_records import VoteTaken
from touchstone.node.serving.audit_messages import VoteHanded, VotesHanded, VotesTaken, make_form
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.audit_deadlines import get_heard_until
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, find_drawn, get_place
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.statement_checks import do_roots_fit_word, does_opening_fit, is_vote_complete
from touchstone.protocol.spec.statements import Vote, VoteOpening

VOTES_FORM = make_form(VotesHanded)


MAX_STRIKES = 64
"""The most votes with a wrong signature that an account may hand in. Each one costs two milliseconds to
check."""


async def take_votes(room: AuditRoom, account: str, body: bytes) -> VotesTaken:
    """Takes the valid votes that a seat of the task hands in. Raises ProtocolFault if they are malformed,
    EnvironmentFault if the sender has no seat."""
    handed = VOTES_FORM.decode(body, account).votes
    if find_seat(room.get_game(), account) is None:
        raise EnvironmentFault(
            what="votes are taken from members only",
            expected="an account with a seat in the task",
            actual=account,
            remedy="Join the task, or hand them in on chain.",
        )
    return VotesTaken(tuple([await _try_take(room, account, one) for one in handed]))


async def _try_take(room: AuditRoom, account: str, handed: VoteHanded) -> bool:
    vote, opening = handed.read()
    drawn = find_drawn(room.get_game(), get_place(vote))
    if drawn is None or not _is_about(room, drawn, vote):
        return False
    opening = opening if _is_fitting(room, drawn, opening) else None
    known = room.book.taken_votes.get(drawn.place)
    is_known = known is not None and known.vote == vote
    if known is not None and is_known and (opening is None or known.opening is not None):
        return handed.opening is None or known.opening is not None
    if not is_known and drawn.place in room.book.second:
        return False
    if not await _is_signed(room, account, drawn, handed.signature, vote):
        return False
    room.book.write(VoteTaken(room.about.task, vote, handed.signature, opening))
    return opening is not None or handed.opening is None


async def _is_signed(room: AuditRoom, account: str, drawn: DrawnAudit, signature: bytes, vote: Vote) -> bool:
    """Returns whether the drawn seat signed a vote. Votes of a sender with too many wrong signatures are not
    checked any more."""
    if room.strikes[account] >= MAX_STRIKES:
        return False
    try:
        signer = await asyncio.to_thread(room.recover, vote, signature, drawn.seat.account)
    except ProtocolFault:
        signer = ""
    room.strikes[account] += signer != drawn.seat.account
    return signer == drawn.seat.account


def _is_about(room: AuditRoom, drawn: DrawnAudit, vote: Vote) -> bool:
    """Returns whether a vote of a drawn place is complete, about the drawn segment, and in time."""
    is_heard = room.block <= get_heard_until(room.get_game(), drawn.place)
    return is_heard and vote.segment == drawn.segment and is_vote_complete(vote)


def _is_fitting(room: AuditRoom, drawn: DrawnAudit, opening: VoteOpening | None) -> bool:
    if opening is None or not does_opening_fit(opening.vote, opening, drawn.solver, drawn.seat.account):
        return False
    return not room.get_game().terms.is_exact or do_roots_fit_word(opening)
