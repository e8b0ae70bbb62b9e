"""Votes on their way to the chain: taken from peers, offered to solvers, handed to the contract.

Votes that others handed to this node, and its own, leave as `judge` takes them: `HandedVote` has the layout
of `IVotes.HandedVote`.

Strangers cannot fill a node with votes: only seats of the task may hand any in. Of each place the node keeps
one vote that the drawn seat signed about a round of the chain, and at most one that contradicts it.

A node offers its own votes to every solver until that solver has taken them. A solver that does not answer
keeps no vote from the others. The vote's opening goes with it once it may be shown (`may_open`).
"""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from touchstone.node.records.audit_records import VoteMade, VoteTaken
from touchstone.node.serving.audit_messages import (
    VOTES,
    VOTES_MAX,
    VoteHanded,
    VotesHanded,
    VotesTaken,
    make_form,
    say_vote,
)
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.auditing import (
    DrawnAudit,
    find_drawn,
    get_heard_until,
    get_place,
    may_open,
)
from touchstone.protocol.spec.game.calls import HandedOpening, SignedVote
from touchstone.protocol.spec.game.events import VoteCounted
from touchstone.protocol.spec.game.fates import find_seat, get_votes
from touchstone.protocol.spec.game.folding import Draft
from touchstone.protocol.spec.game.rounds import get_opening_flaw, get_vote_flaw
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statements import (
    Vote,
    VoteOpening,
    do_roots_fit_word,
    does_opening_fit,
    is_vote_whole,
)
from touchstone.verifier.audit_room import AuditRoom

WITH_OPENING, WITHOUT_OPENING = 1, 0


class HandedVote(NamedTuple):
    """`IVotes.HandedVote`. Without an opening a is the claim's end leaf and b the seal; with one a is the
    claim's end root, b the salt of its leaf, c the own end root, d the salt of the seal."""

    place: int
    start_leaf: bytes
    a: bytes
    b: bytes
    c: bytes
    d: bytes
    r: bytes
    vs: bytes


def hand_vote(vote: Vote, signature: bytes, opening: VoteOpening | None) -> HandedVote:
    """A vote as `judge` takes it."""
    kind = WITHOUT_OPENING if opening is None else WITH_OPENING
    numbers = ((vote.slot, 64), (vote.draw, 56), (vote.rank, 48), (vote.word, 40), (kind, 32))
    place = sum(int(number) << bits for number, bits in numbers) + vote.named_leaf
    shown = (vote.end_leaf, vote.seal, ZERO_WORD, ZERO_WORD)
    if opening is not None:
        roots = (opening.claim_end_root, opening.boundary_salt, opening.own_end_root)
        shown = (*roots, opening.seal_salt)
    return HandedVote(place, vote.start_leaf, *shown, signature[:32], signature[32:])


def sign_off(vote: Vote, drawn: DrawnAudit) -> SignedVote:
    """A vote as the machine sees it. Its signature was checked when it was taken."""
    where = (vote.slot, vote.draw, vote.rank, vote.claim_root, vote.seed, vote.segment)
    return SignedVote(*where, vote.word, drawn.seat.account, is_whole=is_vote_whole(vote))


def list_handed(room: AuditRoom, index: int) -> tuple[HandedVote, ...]:
    """Votes of a round that would count in the next block, and openings that would be paid, as far as this
    node has them. A vote that counts makes room for others: reserves follow the primary."""
    draft = Draft(room.get_game(), room.block)
    return tuple(_list_counting(room, draft, index))


def _list_counting(room: AuditRoom, draft: Draft, index: int) -> Iterator[HandedVote]:
    for made in room.book.list_round(index):
        vote, drawn = made.vote, find_drawn(draft.state, get_place(made.vote))
        if drawn is None:
            continue
        flaw = get_vote_flaw(draft.state, draft.state.rounds[index], sign_off(vote, drawn), draft.block)
        if flaw is None:
            draft.emit(VoteCounted(index, vote.slot, vote.draw, vote.rank, vote.word))
        opening = find_opening(room, draft, made)
        if flaw is None or opening is not None:
            yield hand_vote(vote, made.signature, opening)


def find_opening(room: AuditRoom, draft: Draft, made: VoteMade | VoteTaken) -> VoteOpening | None:
    """What opens a counted vote, where that is paid now and may be shown."""
    vote, game_round = made.vote, draft.state.rounds[made.vote.round]
    counted = get_votes(game_round, vote.slot, vote.draw).get(vote.rank)
    handed = HandedOpening(vote.slot, vote.draw, vote.rank)
    if counted is None or counted.word != vote.word:
        return None
    if get_opening_flaw(draft.state, game_round, handed, draft.block) is not None:
        return None
    if isinstance(made, VoteTaken):
        return made.opening
    return room.book.open_vote(made) if may_open(room.get_game(), vote, room.block) else None


VOTES_FORM = make_form(VotesHanded)
MAX_STRIKES = 64
"""Votes of an account whose signature is not their auditor's: each costs two milliseconds to find out."""


async def take_votes(room: AuditRoom, account: str, body: bytes) -> VotesTaken:
    """Takes what counts of the votes that a seat of the task hands in. Raises ProtocolFault where they are
    malformed, EnvironmentFault where the sender has no seat."""
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
    """Whether the drawn seat signed a vote. Who brings too many that it did not is heard no more."""
    if room.strikes[account] >= MAX_STRIKES:
        return False
    try:
        signer = await asyncio.to_thread(room.recover, vote, signature, drawn.seat.account)
    except ProtocolFault:
        signer = ""
    room.strikes[account] += signer != drawn.seat.account
    return signer == drawn.seat.account


def _is_about(room: AuditRoom, drawn: DrawnAudit, vote: Vote) -> bool:
    """Whether a vote of a drawn place says all that it must, of the segment that was drawn, in time."""
    is_heard = room.block <= get_heard_until(room.get_game(), drawn.place)
    return is_heard and vote.segment == drawn.segment and is_vote_whole(vote)


def _is_fitting(room: AuditRoom, drawn: DrawnAudit, opening: VoteOpening | None) -> bool:
    if opening is None or not does_opening_fit(opening.vote, opening, drawn.solver, drawn.seat.account):
        return False
    return not room.get_game().terms.is_exact or do_roots_fit_word(opening)


TAKEN_FORM = make_form(VotesTaken)


def list_waiting(room: AuditRoom, index: int) -> list[str]:
    """Solvers of a round, but for this node, that have not taken all own votes and openings which the chain
    lacks."""
    votes = _list_lacking(room, index)
    return [one for one in list_solvers(room, index) if any(_is_missing(room, made, one) for made in votes)]


def list_solvers(room: AuditRoom, index: int) -> list[str]:
    """Accounts of the solvers of a round, but for this node."""
    game = room.get_game()
    seats = (game.seats.get(number) for number in game.rounds[index].pool.solvers)
    return [seat.account for seat in seats if seat is not None and seat.account != room.account]


async def offer(room: AuditRoom, index: int, account: str) -> None:
    """Hands a solver the own votes of a round that it has not taken. Raises EnvironmentFault where it did not
    take them all: to be tried again."""
    votes = [made for made in _list_lacking(room, index) if _is_missing(room, made, account)][:VOTES_MAX]
    said = tuple(_say(room, made) for made in votes)
    answer = await room.client.ask(room.find_peer(account), VOTES, VotesHanded(said), TAKEN_FORM)
    for made, one, is_taken in zip(votes, said, answer.are_taken, strict=False):
        if is_taken:
            room.offered.add((get_place(made.vote), one.opening is not None, account))
    if answer.are_taken != (True,) * len(votes):
        raise EnvironmentFault(
            what="a solver has not taken a vote",
            expected=f"{len(votes)} votes on round {index} taken by {account}",
            actual=f"{list(answer.are_taken).count(True)} of them",
            remedy="They are offered again, as long as the chain lacks them.",
        )


def _say(room: AuditRoom, made: VoteMade) -> VoteHanded:
    is_shown = may_open(room.get_game(), made.vote, room.block)
    return say_vote(made.vote, made.signature, room.book.open_vote(made) if is_shown else None)


def _list_lacking(room: AuditRoom, index: int) -> list[VoteMade]:
    """Own votes of a round that the chain lacks, or whose openings it lacks."""
    game, found = room.get_game(), []
    draft = Draft(game, room.block)
    for made in room.book.list_own(index):
        drawn = find_drawn(game, get_place(made.vote))
        if drawn is None:
            continue
        is_counting = get_vote_flaw(game, game.rounds[index], sign_off(made.vote, drawn), room.block) is None
        if is_counting or find_opening(room, draft, made) is not None:
            found.append(made)
    return found


def _is_missing(room: AuditRoom, made: VoteMade, account: str) -> bool:
    is_open = may_open(room.get_game(), made.vote, room.block)
    is_shown = is_open and room.book.open_vote(made) is not None
    return (get_place(made.vote), is_shown, account) not in room.offered
