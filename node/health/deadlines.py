"""Lists what an account must send to the chain, and by which block."""

from collections.abc import Iterator

from touchstone.node.kit.view import View
from touchstone.node.records.round_seats import find_own_slot
from touchstone.protocol.spec.game.audit_deadlines import get_due_block, is_wanted
from touchstone.protocol.spec.game.dispute_moves import Move, is_answerable, list_moves
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, list_drawn
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.inner_contest import ENDED, InnerTurn
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.pools import find_seat, is_convicted
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    get_live_round,
    get_votes_from,
    is_late_draw,
)

COMMIT, VOTE, ASK, DISPUTE, CONTEST = "commit", "vote", "ask", "dispute", "contest"


DUTY_WORDS = {
    COMMIT: "commit to the claim of this round",
    VOTE: "vote on a drawn segment",
    ASK: "answer a query",
    DISPUTE: "move in a dispute",
    CONTEST: "move in a contest of a root",
}
"""What a duty is, for an operator."""


OPENER, ACCUSED, OPEN = "opener", "accused", "open"


def list_deadlines(view: View, block: int) -> Iterator[tuple[str, int]]:
    """Yields what this account still has to send to the chain, as the name of a duty and the last block for
    it. It looks at the state that a call in `block` would find."""
    game, account = get_state_at(view.game, block), view.account
    yield from ((CONTEST, last_block) for last_block in _list_contest_moves(view, game))
    for dispute in view.chain_state.inner[view.task].disputes.values():
        if _has_move(game, dispute, account, block):
            yield DISPUTE, dispute.clock
    seat = find_seat(game, account)
    if seat is None or seat.status == SeatStatus.CONVICTED:
        return
    for ask in view.chain_state.inner[view.task].queries.values():
        if ask.seat == seat.number and is_answerable(ask, block):
            yield ASK, ask.clock
    yield from ((COMMIT, last_block) for last_block in _list_commitments(game, account))
    for drawn in list_drawn(game, account, block):
        if is_wanted(game, drawn.place, block) and block >= get_due_block(game, drawn.place):
            yield VOTE, _get_last_block(game, drawn, block)


def _list_commitments(game: GameState, account: str) -> Iterator[int]:
    game_round = get_live_round(game)
    if game_round is None or game_round.phase != RoundPhase.RUNNING or game_round.trained_from is None:
        return
    slot = find_own_slot(game, game_round, account)
    if game_round.closed is None and slot is not None and slot not in game_round.claims:
        yield compute_closing_block(game, game_round)


def _get_last_block(game: GameState, drawn: DrawnAudit, block: int) -> int:
    """Returns the last block in which a vote still lets its claim be merged. After that block, returns the
    last one in which the vote counts."""
    place, audit_max = drawn.place, game.terms.windows.audit_max
    start = get_votes_from(game, game.rounds[place.round], place.draw) or block
    is_merging = not is_late_draw(game, place.draw) and block <= start + audit_max
    return start + (1 if is_merging else 2) * audit_max


def _has_move(game: GameState, dispute: InnerDispute, account: str, block: int) -> bool:
    """Returns whether the dispute waits for a move of this account. Ending a dispute is nobody's duty."""
    claimant = game.seats.get(dispute.seat)
    is_gone = claimant is None or is_convicted(game, dispute.seat)
    moves = list_moves(dispute, account, "" if claimant is None else claimant.account, block, is_gone)
    return any(move is not Move.END for move in moves)


def _list_contest_moves(view: View, game: GameState) -> Iterator[int]:
    """Yields moves in this node's own contests, and in contests of roots that it has signed."""
    for contest in view.chain_state.contests[view.task].contests.values():
        side = find_side(game, contest.contester, contest.round, view.account)
        is_contesters = contest.turn == InnerTurn.CONTESTER
        if contest.turn not in ENDED and side == (OPENER if is_contesters else ACCUSED):
            yield contest.clock


def find_side(game: GameState, contester: str, index: int, account: str) -> str:
    """Returns the side of an account in a contest; empty if it is in neither."""
    if contester == account:
        return OPENER
    seat, game_round = find_seat(game, account), game.rounds.get(index)
    is_signer = seat is not None and game_round is not None and seat.number in game_round.signers
    return ACCUSED if is_signer else ""
