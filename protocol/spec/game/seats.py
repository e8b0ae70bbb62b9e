"""Members: who joins, leaves, is silent, and when a stake is paid out."""

from collections.abc import Iterator

from protocol.spec.game.calls import JoinSeat, LeaveSeat, MarkSilent, PayOut, TopUp, WithdrawCredit
from protocol.spec.game.draft import Draft
from protocol.spec.game.drawing import get_drawn_seat, list_draws
from protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from protocol.spec.game.events import SeatFreed, SeatJoined, SeatLeft
from protocol.spec.game.fates import get_decided_block, get_votes, is_draw_over
from protocol.spec.game.pools import find_seat, get_required_stake, get_stake
from protocol.spec.game.purse import OUTSIDE, credit_of, stake_of
from protocol.spec.game.refusals import require
from protocol.spec.game.state import GameRound, GameState, Seat
from protocol.spec.game.statement_refs import list_questions
from protocol.spec.game.terms import SILENCES_MAX
from protocol.spec.game.timing import get_live_round, get_votes_from, is_start_alive


def get_seat(state: GameState, number: int) -> Seat:
    """A seat by its number. Refuses SeatUnknown."""
    require(number in state.seats, "SeatUnknown", actual=number)
    return state.seats[number]


def apply_join(draft: Draft, call: JoinSeat, sender: str) -> None:
    """A seat for pools frozen later. Where all solver seats are taken, a larger stake displaces the
    smallest."""
    state = draft.state
    require(not state.is_halted, "TaskHalted")
    require(find_seat(state, sender) is None, "AlreadySeated", actual=sender)
    least, greatest = get_required_stake(state, call.role), state.limits.amount_max
    require(least <= call.wei <= greatest, "StakeWrong", f"{least} to {greatest} wei", call.wei)
    if call.role == SeatRole.SOLVER:
        _displace_smallest(draft, call.wei)
    number = next(n for n in range(len(state.seats) + 1) if n not in state.seats)
    draft.emit(SeatJoined(number, call.role, sender))
    draft.move(OUTSIDE, stake_of(number), call.wei)


def _displace_smallest(draft: Draft, wei: int) -> None:
    """Of equal stakes the highest number goes: whoever came later."""
    state = draft.state
    is_open = {n for n, s in state.seats.items() if (s.role, s.status) == (SeatRole.SOLVER, SeatStatus.OPEN)}
    if len(is_open) < state.terms.solver_seats:
        return
    smallest = min(is_open, key=lambda number: (get_stake(state, number), -number))
    held = get_stake(state, smallest)
    require(wei > held, "SeatsTaken", f"more than {held} wei", wei)
    draft.emit(SeatLeft(smallest))


def apply_top_up(draft: Draft, call: TopUp, sender: str) -> None:
    """More stake for an own seat that is open."""
    seat, greatest = get_seat(draft.state, call.seat), draft.state.limits.amount_max
    require(seat.account == sender, "NotOwner", seat.account, sender)
    require(seat.status == SeatStatus.OPEN, "SeatClosed", actual=call.seat)
    total = get_stake(draft.state, call.seat) + call.wei
    require(call.wei > 0 and total <= greatest, "StakeWrong", f"1 wei or more, {greatest} in all", call.wei)
    draft.move(OUTSIDE, stake_of(call.seat), call.wei)


def apply_leave(draft: Draft, call: LeaveSeat, sender: str) -> None:
    """The seat still serves in frozen pools."""
    seat = get_seat(draft.state, call.seat)
    require(seat.account == sender, "NotOwner", seat.account, sender)
    require(seat.status == SeatStatus.OPEN, "SeatClosed", actual=call.seat)
    draft.emit(SeatLeft(call.seat))


# --- Silence ------------------------------------------------------------------------------------------------
def is_missed(game_round: GameRound, seat: Seat) -> bool:
    """Whether a seat owed the round a commitment and did not bring it: the fee of DROPPED, unless the seat
    was convicted."""
    if seat.number not in game_round.pool.solvers or game_round.closed is None or game_round.is_excused:
        return False
    slot = game_round.pool.solvers.index(seat.number)
    return slot not in game_round.claims and game_round.phase != RoundPhase.UNDONE


def count_silences(state: GameState, seat: Seat, block: int) -> int:
    """How many rounds a solver has missed since its last commitment; how many primary draws of an auditor
    have ended without its vote since its last counted vote."""
    if seat.role == SeatRole.SOLVER:
        later = (r for index, r in state.rounds.items() if index > seat.last_commit)
        return sum(is_missed(game_round, seat) for game_round in later)
    return sum(end > seat.last_vote for end in _list_silent_ends(state, seat, block))


def _list_silent_ends(state: GameState, seat: Seat, block: int) -> Iterator[int]:
    for index, game_round in state.rounds.items():
        if index < seat.settled or game_round.phase == RoundPhase.UNDONE:
            continue
        for slot, draw in list_draws(state, game_round):
            votes = get_votes(game_round, slot, draw)
            is_primary = get_drawn_seat(state, game_round, slot, draw, 0) == seat.number
            if is_primary and 0 not in votes and is_draw_over(state, game_round, slot, draw, block):
                yield _get_end(state, game_round, slot, draw, block)


def _get_end(state: GameState, game_round: GameRound, slot: int, draw: int, block: int) -> int:
    """When a draw that is over was over."""
    start = (get_votes_from(state, game_round, draw) or 0) + 2 * state.terms.windows.audit_max
    votes = get_votes(game_round, slot, draw)
    return start if block > start else get_decided_block(votes)


def apply_mark_silent(draft: Draft, call: MarkSilent, sender: str) -> None:
    """The seat leaves, unharmed."""
    seat = get_seat(draft.state, call.seat)
    require(seat.status == SeatStatus.OPEN, "SeatClosed", actual=call.seat)
    silences = count_silences(draft.state, seat, draft.block)
    require(silences >= SILENCES_MAX, "NotSilent", SILENCES_MAX, silences)
    draft.emit(SeatLeft(call.seat))


# --- Paying out ---------------------------------------------------------------------------------------------
def has_rounds_left(state: GameState, seat: Seat, block: int) -> bool:
    """Whether a frozen pool that the seat has not settled holds it. Pools of rounds that were not opened
    count while they may be: a start that has lapsed holds nobody."""
    may_open = get_live_round(state) is not None or is_start_alive(state, block)
    until = state.terms.rounds if may_open else state.next_round
    pools = (pool for index, pool in state.pools.items() if seat.settled <= index < until)
    return any(seat.number in pool.get_seats(seat.role) for pool in pools)


def get_pay_out_flaw(state: GameState, seat: Seat, block: int) -> str | None:
    """Why a stake cannot be paid out yet, None where it can."""
    if seat.status == SeatStatus.OPEN and not state.is_closed:
        return "TaskRuns"
    is_busy = has_rounds_left(state, seat, block) or bool(list_questions(state, seat.number))
    return "SeatBusy" if is_busy else None


def apply_pay_out(draft: Draft, call: PayOut, sender: str) -> None:
    """Anybody may send it: the stake goes to the seat's account. A convicted seat's number becomes free."""
    seat = get_seat(draft.state, call.seat)
    flaw = get_pay_out_flaw(draft.state, seat, draft.block)
    require(flaw is None, flaw or "", actual=call.seat)
    draft.move(stake_of(call.seat), credit_of(seat.account), get_stake(draft.state, call.seat))
    draft.emit(SeatFreed(call.seat))


def apply_withdraw(draft: Draft, call: WithdrawCredit, sender: str) -> None:
    """All credit of the sender leaves the task."""
    wei = draft.state.purse.get_wei(credit_of(sender))
    require(wei > 0, "NothingOpen", "credit", 0)
    draft.move(credit_of(sender), OUTSIDE, wei)
