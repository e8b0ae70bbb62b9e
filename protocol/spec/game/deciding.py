"""JUDGE and POST: which votes count, which root stands, and what stands without one.

A vote that does not count is skipped, never refused: who hands in one vote of a batch first must not make the
batch fail.

A root needs those who merged it: more than half of the round's solver seats that are not convicted
(findings, C1).
"""

from protocol.spec.game.calls import HandedOpening, JudgeVotes, LetStand, PostRoot, SignedVote
from protocol.spec.game.events import RootPosted, RootStood, VoteCounted, VoteOpened
from protocol.spec.game.fates import (
    get_drawn_seat,
    get_drawn_segment,
    get_votes,
    has_undecided,
    is_draw_over,
    is_taking_unserved,
    list_mergeable,
)
from protocol.spec.game.folding import Draft
from protocol.spec.game.pools import list_unclosed
from protocol.spec.game.refusals import require, require_window
from protocol.spec.game.rounds import open_next
from protocol.spec.game.state import OPENED_WORDS, GameRound, GameState, RoundPhase, SeatStatus
from protocol.spec.game.timing import compute_reserve_block, get_live_round, get_votes_from, is_late_draw
from protocol.spec.statements import VoteWord


def get_vote_flaw(state: GameState, game_round: GameRound, vote: SignedVote, block: int) -> str | None:
    """Why a vote does not count at `block`, None where it counts."""
    seat_number = get_drawn_seat(state, game_round, vote.slot, vote.draw, vote.rank)
    start = get_votes_from(state, game_round, vote.draw)
    if seat_number is None or start is None:
        return "NotDrawn"
    seat, votes = state.seats.get(seat_number), get_votes(game_round, vote.slot, vote.draw)
    flaws = {
        "RoundUndone": game_round.phase == RoundPhase.UNDONE,
        "WrongSigner": seat is None or vote.signer != seat.account,
        "SeatClosed": seat is not None and seat.status == SeatStatus.CLOSED,
        "NotWhole": not vote.is_whole,
        "OtherStatement": not is_about(state, game_round, vote),
        "AlreadyCounted": vote.rank in votes,
        "DrawOver": is_too_late(state, game_round, vote, block),
        "TooEarly": vote.rank > 0 and 0 not in votes and block < compute_reserve_block(state, start),
    }
    return next((name for name, is_there in flaws.items() if is_there), None)


def is_too_late(state: GameState, game_round: GameRound, vote: SignedVote, block: int) -> bool:
    """Whether the draw of a vote takes no word like it any more."""
    if not is_draw_over(state, game_round, vote.slot, vote.draw, block):
        return False
    is_unserved = vote.word == VoteWord.UNSERVED
    return not is_unserved or not is_taking_unserved(state, game_round, vote.slot, vote.draw, block)


def is_about(state: GameState, game_round: GameRound, vote: SignedVote) -> bool:
    """Whether a vote names the claim, the seed and the segment of its draw."""
    seed = game_round.late_seed if is_late_draw(state, vote.draw) else game_round.seed
    segment = get_drawn_segment(state, game_round, vote.slot, vote.draw)
    claim_root = game_round.claims[vote.slot].claim_root
    return (vote.claim_root, vote.seed, vote.segment) == (claim_root, seed, segment)


def get_opening_flaw(
    state: GameState, game_round: GameRound, opening: HandedOpening, block: int
) -> str | None:
    """Why an opening does not count at `block`, None where it does. It comes with or after the decision:
    earlier it would give reserves something to copy (findings, M2)."""
    slot, draw = opening.slot, opening.draw
    vote, start = get_votes(game_round, slot, draw).get(opening.rank), get_votes_from(state, game_round, draw)
    if vote is None or start is None:
        return "NotCounted"
    seat = state.seats.get(get_drawn_seat(state, game_round, slot, draw, opening.rank) or 0)
    flaws = {
        "RoundUndone": game_round.phase == RoundPhase.UNDONE,
        "SeatClosed": seat is None or seat.status == SeatStatus.CLOSED,
        "NothingToOpen": vote.word not in OPENED_WORDS,
        "AlreadyOpened": vote.is_opened,
        "DrawUndecided": not is_draw_over(state, game_round, slot, draw, block),
        "TooLate": block > start + 3 * state.terms.windows.audit_max,
        "NotFitting": not opening.is_fitting,
    }
    return next((name for name, is_there in flaws.items() if is_there), None)


def apply_judge(draft: Draft, call: JudgeVotes, sender: str) -> None:
    """Counts votes in their order, then openings."""
    require(call.round in draft.state.rounds, "RoundUnknown", actual=call.round)
    for vote in call.votes:
        if get_vote_flaw(draft.state, draft.state.rounds[call.round], vote, draft.block) is None:
            draft.emit(VoteCounted(call.round, vote.slot, vote.draw, vote.rank, vote.word))
    for opening in call.openings:
        if get_opening_flaw(draft.state, draft.state.rounds[call.round], opening, draft.block) is None:
            draft.emit(VoteOpened(call.round, opening.slot, opening.draw, opening.rank))


def get_waiting_round(state: GameState) -> GameRound | None:
    """The closed round that has no root yet, None where there is none."""
    game_round = get_live_round(state)
    return None if game_round is None or game_round.closed is None else game_round


def get_post_window(state: GameState, game_round: GameRound, block: int) -> tuple[int, int]:
    """First and last block in which a closed round can be posted; the first is now once no claim is
    undecided. A round whose root fell has `post` from then."""
    windows, closed = state.terms.windows, game_round.closed or 0
    if game_round.fallen is not None:
        return game_round.fallen, game_round.fallen + windows.post - 1
    late = closed + windows.audit_max
    first = late if has_undecided(state, game_round, block) else closed
    return first, late + windows.post - 1


def apply_post(draft: Draft, call: PostRoot, sender: str) -> None:
    """The first majority on chain decides, and opens the next round."""
    state, game_round = draft.state, get_waiting_round(draft.state)
    require(game_round is not None and game_round.index == call.round, "NotNewest", actual=call.round)
    assert game_round is not None
    require_window(*get_post_window(state, game_round, draft.block), draft.block)
    mergeable, merged = list_mergeable(state, game_round, draft.block), tuple(sorted(set(call.merged)))
    is_right = bool(merged) and merged == call.merged and set(merged) <= set(mergeable)
    require(is_right, "NotMergeable", mergeable, call.merged)
    unclosed = set(list_unclosed(state, game_round.pool.solvers))
    signers = tuple(sorted(set(call.signers) & unclosed))
    require(2 * len(signers) > len(unclosed), "NoMajority", f"more than half of {len(unclosed)}", signers)
    draft.emit(RootPosted(call.round, call.root, merged, signers))
    open_next(draft)


def is_stand_due(state: GameState, game_round: GameRound, block: int) -> bool:
    """Whether a closed round's base root stands: no claim can be merged, or no merge was posted in time."""
    if block > get_post_window(state, game_round, block)[1]:
        return True
    if has_undecided(state, game_round, block):
        return False
    return not list_mergeable(state, game_round, block)


def apply_stand(draft: Draft, call: LetStand, sender: str) -> None:
    """The round gave nothing to the model; its accepted work is paid all the same."""
    game_round = get_waiting_round(draft.state)
    require(game_round is not None and game_round.index == call.round, "NotNewest", actual=call.round)
    assert game_round is not None
    last = get_post_window(draft.state, game_round, draft.block)[1]
    is_due = is_stand_due(draft.state, game_round, draft.block)
    require(is_due, "NotLate", f"a block from {last + 1}", draft.block)
    draft.emit(RootStood(call.round))
    open_next(draft)
