"""Takes commitments of an opened round, until the clock closes it."""

from touchstone.protocol.spec.game.calls import CommitRound
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.events import ClaimTaken, RoundClosed
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.rule_refusals import require, require_window
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.terms import compute_least_segments
from touchstone.protocol.spec.game.timing import compute_closing_block, get_live_round


def sync(draft: Draft) -> None:
    """Brings the state up to date before every call: closes a round after its closing block. The pool of the
    round after next is frozen as of that block, so that no later block can change it."""
    game_round = get_live_round(draft.state)
    if game_round is None or game_round.closed is not None:
        return
    closing = compute_closing_block(draft.state, game_round)
    if closing < draft.block:
        draft.emit(RoundClosed(game_round.index, closing))


def get_round(state: GameState, index: int) -> GameRound:
    """Returns an opened round. Refuses RoundUnknown."""
    require(index in state.rounds, "RoundUnknown", actual=index)
    return state.rounds[index]


def apply_commit(draft: Draft, call: CommitRound, sender: str) -> None:
    """Records a claim, one for each seat and round, on the chain's root and beacon, until the closing
    block."""
    game_round, seat = get_round(draft.state, call.round), find_seat(draft.state, sender)
    require(game_round.phase == RoundPhase.RUNNING, "RoundNotRunning", actual=call.round)
    require(game_round.beacon is not None, "WrongBeacon", "a recorded beacon", "none yet")
    require_window(game_round.opened, compute_closing_block(draft.state, game_round), draft.block)
    is_in_pool = seat is not None and seat.number in game_round.pool.solvers
    require(is_in_pool, "NotCommitter", actual=sender)
    assert seat is not None
    require(seat.status != SeatStatus.CONVICTED, "SeatIsConvicted", actual=seat.number)
    slot = game_round.pool.solvers.index(seat.number)
    require(slot not in game_round.claims, "AlreadyCommitted", actual=slot)
    require(call.base_root == game_round.base_root, "WrongBase", game_round.base_root, call.base_root)
    require(call.beacon == game_round.beacon, "WrongBeacon", game_round.beacon, call.beacon)
    count, least = draft.state.terms.segment_count, compute_least_segments(draft.state.terms)
    require(least <= call.segments <= count, "WrongSegments", f"{least} to {count}", call.segments)
    draft.emit(ClaimTaken(call.round, slot, call.claim_root, call.segments))
