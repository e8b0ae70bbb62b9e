"""Records the randomness of a round: for its beacon, its audits, and the last late audits. Twin of
`RoundDraws.sol`."""

from touchstone.protocol.spec.game.calls import DrawAudits, DrawClosing, DrawRound
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.events import AuditsDrawn, ClosingDrawn, RoundAssigned
from touchstone.protocol.spec.game.rounds import get_round
from touchstone.protocol.spec.game.rule_refusals import require, require_window
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import compute_draw_window, get_closing_from


def get_draw_round_window(state: GameState, game_round: GameRound) -> tuple[int, int] | None:
    """Returns when the beacon of a round without one can be recorded; None if it has one or is over."""
    if game_round.beacon is not None or game_round.beacon_block is None:
        return None
    if game_round.phase != RoundPhase.RUNNING:
        return None
    return game_round.beacon_block + 1, game_round.beacon_block + state.bounds.header_blocks


def apply_draw_round(draft: Draft, call: DrawRound, sender: str) -> None:
    """Gives a round its beacon. Training begins, and train_min and train_max count from here."""
    window = get_draw_round_window(draft.state, get_round(draft.state, call.round))
    require(window is not None, "NoDrawDue", actual=call.round)
    assert window is not None
    require_window(*window, draft.block)
    draft.emit(RoundAssigned(call.round, call.randomness))


def get_draw_audits_window(state: GameState, game_round: GameRound) -> tuple[int, int] | None:
    """Returns when the drawing of a round can be recorded; None while it runs, and once it is recorded or
    undone."""
    if game_round.closed is None or game_round.seed is not None or game_round.phase == RoundPhase.UNDONE:
        return None
    return compute_draw_window(state, game_round.closed)


def apply_draw_audits(draft: Draft, call: DrawAudits, sender: str) -> None:
    """Draws the audits of this round, late audits of earlier rounds, and shards of later rounds from one
    seed."""
    window = get_draw_audits_window(draft.state, get_round(draft.state, call.round))
    require(window is not None, "NoDrawDue", actual=call.round)
    assert window is not None
    require_window(*window, draft.block)
    draft.emit(AuditsDrawn(call.round, call.randomness))


def apply_draw_closing(draft: Draft, call: DrawClosing, sender: str) -> None:
    """Draws the late audits that no later round draws."""
    from_block = get_closing_from(draft.state, draft.block)
    require(from_block is not None, "NoDrawDue")
    assert from_block is not None
    require_window(*compute_draw_window(draft.state, from_block), draft.block)
    draft.emit(ClosingDrawn(from_block, call.randomness))
