"""Encodes votes as the contract takes them: `HandedVote` has the layout of `IVotes.HandedVote`."""

from collections.abc import Iterator
from typing import NamedTuple

from touchstone.node.records.audit_records import AuditBook, VoteMade, VoteTaken
from touchstone.protocol.spec.game.audit_deadlines import may_open
from touchstone.protocol.spec.game.calls import HandedOpening, SignedVote
from touchstone.protocol.spec.game.claim_status import get_votes
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, find_drawn, get_place
from touchstone.protocol.spec.game.events import VoteCounted
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.vote_judging import get_opening_flaw, get_vote_flaw
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statement_checks import is_vote_complete
from touchstone.protocol.spec.statements import Vote, VoteOpening

NO_OPENING = (ZERO_WORD, ZERO_WORD, ZERO_WORD, ZERO_WORD)


class HandedVote(NamedTuple):
    """`IVotes.HandedVote`. End leaf and seal are zero in a vote that comes with its opening: they follow from
    the opening, which is zero in a vote that comes without."""

    slot: int
    draw: int
    rank: int
    word: int
    is_opened: bool
    named_leaf: int
    start_leaf: bytes
    end_leaf: bytes
    seal: bytes
    opening: tuple[bytes, bytes, bytes, bytes]
    r: bytes
    vs: bytes


def hand_vote(vote: Vote, signature: bytes, opening: VoteOpening | None) -> HandedVote:
    """Returns a vote in the form that `judge` takes."""
    end_leaf, seal, shown = vote.end_leaf, vote.seal, NO_OPENING
    if opening is not None:
        end_leaf, seal = ZERO_WORD, ZERO_WORD
        shown = (opening.claim_end_root, opening.boundary_salt, opening.own_end_root, opening.seal_salt)
    where = (vote.slot, vote.draw, vote.rank, int(vote.word), opening is not None, vote.named_leaf)
    leaves = (vote.start_leaf, end_leaf, seal)
    return HandedVote(*where, *leaves, shown, signature[:32], signature[32:])


def sign_off(vote: Vote, drawn: DrawnAudit) -> SignedVote:
    """Returns a vote in the form that the reducer (`spec/game`) takes. Its signature was checked when this
    node took it."""
    where = (vote.slot, vote.draw, vote.rank, vote.claim_root, vote.seed, vote.segment)
    return SignedVote(*where, vote.word, drawn.seat.account, is_complete=is_vote_complete(vote))


def list_handed(book: AuditBook, game: GameState, block: int, index: int) -> tuple[HandedVote, ...]:
    """Lists the known votes of a round that would count in `block`, and the openings that would be paid. If a
    vote counts, further ones can: reserves come after the primary."""
    return tuple(_list_counting(book, game, Draft(game, block), index))


def _list_counting(book: AuditBook, game: GameState, draft: Draft, index: int) -> Iterator[HandedVote]:
    for made in book.list_round(index):
        vote, drawn = made.vote, find_drawn(draft.state, get_place(made.vote))
        if drawn is None:
            continue
        flaw = get_vote_flaw(draft.state, draft.state.rounds[index], sign_off(vote, drawn), draft.block)
        if flaw is None:
            draft.emit(VoteCounted(index, vote.slot, vote.draw, vote.rank, vote.word))
        opening = find_opening(book, game, draft, made)
        if flaw is None or opening is not None:
            yield hand_vote(vote, made.signature, opening)


def find_opening(
    book: AuditBook, game: GameState, draft: Draft, made: VoteMade | VoteTaken
) -> VoteOpening | None:
    """Returns the opening of a counted vote, if it would be paid now and may be shown."""
    vote, game_round = made.vote, draft.state.rounds[made.vote.round]
    counted = get_votes(game_round, vote.slot, vote.draw).get(vote.rank)
    handed = HandedOpening(vote.slot, vote.draw, vote.rank)
    if counted is None or counted.word != vote.word:
        return None
    if get_opening_flaw(draft.state, game_round, handed, draft.block) is not None:
        return None
    if not may_open(game, vote, draft.block):
        return None
    return made.opening if isinstance(made, VoteTaken) else book.open_vote(made)
