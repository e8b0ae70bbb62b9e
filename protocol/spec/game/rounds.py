"""START, OPEN, COMMIT, the close and the seals: from standing still to a drawn round."""

from collections.abc import Callable

from protocol.spec.drawing import compute_grid_block
from protocol.spec.game.calls import (
    CommitRound,
    HaltTask,
    SealAudits,
    SealClosing,
    SealRound,
    SealStart,
    StartRounds,
)
from protocol.spec.game.events import (
    AuditsDrawn,
    ClaimTaken,
    ClosingDrawn,
    RoundClosed,
    RoundDealt,
    RoundOpened,
    StartAsked,
    StartSealed,
    TaskHalted,
    TaskStood,
)
from protocol.spec.game.folding import Draft
from protocol.spec.game.pools import find_seat, freeze_pool, has_place, is_enough
from protocol.spec.game.refusals import require, require_window
from protocol.spec.game.state import GameRound, GameState, RoundPhase, SeatStatus
from protocol.spec.game.terms import compute_least_segments
from protocol.spec.game.timing import (
    compute_closing_block,
    compute_draw_window,
    get_closing_from,
    get_live_round,
    is_start_alive,
)


def sync(draft: Draft) -> None:
    """Before every call: a round whose closing block is past is closed, and the pool after next is frozen as
    it was then. So nothing that a later block changes can get into that pool."""
    game_round = get_live_round(draft.state)
    if game_round is None or game_round.closed is not None:
        return
    closing = compute_closing_block(draft.state, game_round)
    if closing < draft.block:
        draft.emit(RoundClosed(game_round.index, closing))


def get_round(state: GameState, index: int) -> GameRound:
    """An opened round. Refuses RoundUnknown."""
    require(index in state.rounds, "RoundUnknown", actual=index)
    return state.rounds[index]


# --- Starting -----------------------------------------------------------------------------------------------
def get_start_flaw(state: GameState, block: int) -> str | None:
    """Why rounds cannot be started at `block`, None where they can."""
    flaws: dict[str, Callable[[], bool]] = {
        "TaskHalted": lambda: state.is_halted,
        "TaskOver": lambda: state.next_round >= state.terms.rounds,
        "NotStanding": lambda: get_live_round(state) is not None,
        "StartPending": lambda: is_start_alive(state, block),
        "RingFull": lambda: not has_place(state, state.next_round),
        "PoolTooSmall": lambda: not is_enough(state, freeze_pool(state)),
    }
    return next((name for name, is_there in flaws.items() if is_there()), None)


def apply_start(draft: Draft, call: StartRounds, sender: str) -> None:
    """Freezes the pools of the next two rounds, or of one where no second follows, and asks for a beacon."""
    flaw = get_start_flaw(draft.state, draft.block)
    require(flaw is None, flaw or "")
    windows = draft.state.terms.windows
    beacon_block = compute_grid_block(draft.block + windows.delay, windows.draw_grid)
    draft.emit(StartAsked(draft.state.next_round, beacon_block))


def apply_seal_start(draft: Draft, call: SealStart, sender: str) -> None:
    """Deals the frozen rounds and opens the first."""
    start = draft.state.start
    require(start is not None, "NothingToSeal")
    assert start is not None
    require(not draft.state.is_halted, "TaskHalted")
    require_window(start.beacon_block + 1, start.beacon_block + draft.state.limits.seal_blocks, draft.block)
    require(is_enough(draft.state, draft.state.pools[start.first_round]), "PoolTooSmall")
    draft.emit(StartSealed(call.randomness))
    draft.emit(RoundOpened(start.first_round, draft.state.root))


def open_next(draft: Draft) -> None:
    """After a round got its root: the next one opens, or the task stands still until it is started."""
    state = draft.state
    pool = state.pools.get(state.next_round)
    if pool is not None and not state.is_halted and is_enough(state, pool):
        draft.emit(RoundOpened(state.next_round, state.root))
    else:
        draft.emit(TaskStood())


def apply_halt(draft: Draft, call: HaltTask, sender: str) -> None:
    """The submitter wants no later round."""
    require(sender == draft.state.terms.submitter, "NotSubmitter", draft.state.terms.submitter, sender)
    require(not draft.state.is_halted, "TaskHalted")
    draft.emit(TaskHalted())


# --- Committing ---------------------------------------------------------------------------------------------
def apply_commit(draft: Draft, call: CommitRound, sender: str) -> None:
    """One claim a seat and round, on the chain's root and beacon, up to and with the closing block."""
    game_round, seat = get_round(draft.state, call.round), find_seat(draft.state, sender)
    require(game_round.phase == RoundPhase.RUNNING, "RoundUndone", actual=call.round)
    require(game_round.beacon is not None, "WrongBeacon", "a sealed beacon", "none yet")
    require_window(game_round.opened, compute_closing_block(draft.state, game_round), draft.block)
    is_in_pool = seat is not None and seat.number in game_round.pool.solvers
    require(is_in_pool, "NotCommitter", actual=sender)
    assert seat is not None
    require(seat.status != SeatStatus.CLOSED, "SeatClosed", actual=seat.number)
    slot = game_round.pool.solvers.index(seat.number)
    require(slot not in game_round.claims, "AlreadyCommitted", actual=slot)
    require(call.base_root == game_round.base_root, "WrongBase", game_round.base_root, call.base_root)
    require(call.beacon == game_round.beacon, "WrongBeacon", game_round.beacon, call.beacon)
    count, least = draft.state.terms.segment_count, compute_least_segments(draft.state.terms)
    require(least <= call.segments <= count, "WrongSegments", f"{least} to {count}", call.segments)
    draft.emit(ClaimTaken(call.round, slot, call.claim_root, call.segments))


# --- Sealing ------------------------------------------------------------------------------------------------
def get_seal_round_window(state: GameState, game_round: GameRound) -> tuple[int, int] | None:
    """When the beacon of a round that was not dealt can be sealed; None where it has one or is over."""
    if game_round.beacon is not None or game_round.beacon_block is None:
        return None
    if game_round.phase != RoundPhase.RUNNING:
        return None
    return game_round.beacon_block + 1, game_round.beacon_block + state.limits.seal_blocks


def apply_seal_round(draft: Draft, call: SealRound, sender: str) -> None:
    """Training begins: train_min and train_max count from here."""
    window = get_seal_round_window(draft.state, get_round(draft.state, call.round))
    require(window is not None, "NothingToSeal", actual=call.round)
    assert window is not None
    require_window(*window, draft.block)
    draft.emit(RoundDealt(call.round, call.randomness))


def get_seal_audits_window(state: GameState, game_round: GameRound) -> tuple[int, int] | None:
    """When the draw of a round can be sealed; None while it runs, once it is sealed or undone."""
    if game_round.closed is None or game_round.seed is not None or game_round.phase == RoundPhase.UNDONE:
        return None
    return compute_draw_window(state, game_round.closed)


def apply_seal_audits(draft: Draft, call: SealAudits, sender: str) -> None:
    """One seed: the audits of this round, late audits of rounds before it, shards of rounds to come."""
    window = get_seal_audits_window(draft.state, get_round(draft.state, call.round))
    require(window is not None, "NothingToSeal", actual=call.round)
    assert window is not None
    require_window(*window, draft.block)
    draft.emit(AuditsDrawn(call.round, call.randomness))


def apply_seal_closing(draft: Draft, call: SealClosing, sender: str) -> None:
    """The late audits that no later round draws."""
    from_block = get_closing_from(draft.state, draft.block)
    require(from_block is not None, "NothingToSeal")
    assert from_block is not None
    require_window(*compute_draw_window(draft.state, from_block), draft.block)
    draft.emit(ClosingDrawn(from_block, call.randomness))
