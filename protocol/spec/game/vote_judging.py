"""Decides which votes count, and which openings are paid. Twin of `VoteJudging.sol` and `VoteCounting.sol`.

A vote that does not count is skipped, never refused. Otherwise an account could make a whole batch fail by
handing in one of its votes first.
"""

from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment
from touchstone.protocol.spec.game.calls import HandedOpening, JudgeVotes, SignedVote
from touchstone.protocol.spec.game.claim_status import get_votes, is_draw_over, is_taking_unserved
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import OPENED_WORDS, RoundPhase, SeatStatus
from touchstone.protocol.spec.game.events import VoteCounted, VoteOpened
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import compute_reserve_block, get_votes_from, is_late_draw
from touchstone.protocol.spec.statements import VoteWord


def get_vote_flaw(state: GameState, game_round: GameRound, vote: SignedVote, block: int) -> str | None:
    """Returns why a vote does not count at `block`; None if it counts."""
    seat_number = get_drawn_seat(state, game_round, vote.slot, vote.draw, vote.rank)
    start = get_votes_from(state, game_round, vote.draw)
    if seat_number is None or start is None:
        return "NotDrawn"
    seat, votes = state.seats.get(seat_number), get_votes(game_round, vote.slot, vote.draw)
    flaws = {
        "RoundUndone": game_round.phase == RoundPhase.UNDONE,
        "WrongSigner": seat is None or vote.signer != seat.account,
        "SeatIsConvicted": seat is not None and seat.status == SeatStatus.CONVICTED,
        "NotComplete": not vote.is_complete,
        "OtherStatement": not is_about(state, game_round, vote),
        "AlreadyCounted": vote.rank in votes,
        "DrawOver": is_too_late(state, game_round, vote, block),
        "TooEarly": vote.rank > 0 and 0 not in votes and block < compute_reserve_block(state, start),
    }
    return next((name for name, is_there in flaws.items() if is_there), None)


def is_too_late(state: GameState, game_round: GameRound, vote: SignedVote, block: int) -> bool:
    """Returns whether the draw takes no vote with this verdict any more."""
    if not is_draw_over(state, game_round, vote.slot, vote.draw, block):
        return False
    is_unserved = vote.word == VoteWord.UNSERVED
    return not is_unserved or not is_taking_unserved(state, game_round, vote.slot, vote.draw, block)


def is_about(state: GameState, game_round: GameRound, vote: SignedVote) -> bool:
    """Returns whether a vote names the claim, the seed and the segment of its draw."""
    seed = game_round.late_seed if is_late_draw(state, vote.draw) else game_round.seed
    segment = get_drawn_segment(state, game_round, vote.slot, vote.draw)
    claim_root = game_round.claims[vote.slot].claim_root
    return (vote.claim_root, vote.seed, vote.segment) == (claim_root, seed, segment)


def get_opening_flaw(
    state: GameState, game_round: GameRound, opening: HandedOpening, block: int
) -> str | None:
    """Returns why an opening does not count at `block`; None if it does. It must come with or after the
    decision, because reserves could copy an earlier one (findings, M2)."""
    slot, draw = opening.slot, opening.draw
    vote, start = get_votes(game_round, slot, draw).get(opening.rank), get_votes_from(state, game_round, draw)
    if vote is None or start is None:
        return "NotCounted"
    seat = state.seats.get(get_drawn_seat(state, game_round, slot, draw, opening.rank) or 0)
    flaws = {
        "RoundUndone": game_round.phase == RoundPhase.UNDONE,
        "SeatIsConvicted": seat is None or seat.status == SeatStatus.CONVICTED,
        "NothingToOpen": vote.word not in OPENED_WORDS,
        "AlreadyOpened": vote.is_opened,
        "DrawUndecided": not is_draw_over(state, game_round, slot, draw, block),
        "TooLate": block > start + 3 * state.terms.windows.audit_max,
        "NotFitting": not opening.is_fitting,
    }
    return next((name for name, is_there in flaws.items() if is_there), None)


def apply_judge(draft: Draft, call: JudgeVotes, sender: str) -> None:
    """Counts votes in order, then openings."""
    require(call.round in draft.state.rounds, "RoundUnknown", actual=call.round)
    for vote in call.votes:
        if get_vote_flaw(draft.state, draft.state.rounds[call.round], vote, draft.block) is None:
            draft.emit(VoteCounted(call.round, vote.slot, vote.draw, vote.rank, vote.word))
    for opening in call.openings:
        if get_opening_flaw(draft.state, draft.state.rounds[call.round], opening, draft.block) is None:
            draft.emit(VoteOpened(call.round, opening.slot, opening.draw, opening.rank))
