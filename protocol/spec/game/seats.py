"""Members: who joins, leaves, falls silent, and when a stake is paid out.

All money comes and goes through credits.

Silence: a seat that is not heard of any more leaves, unharmed. Who says so names what it has missed.
"""

from collections.abc import Iterator

from touchstone.protocol.spec.game.assignments import get_drawn_seat, list_draws
from touchstone.protocol.spec.game.calls import (
    Deposit,
    JoinSeat,
    LeaveSeat,
    MarkSilent,
    PayOut,
    TopUp,
    WithdrawCredit,
)
from touchstone.protocol.spec.game.claim_status import get_votes, is_draw_over
from touchstone.protocol.spec.game.disputes import list_questions
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import SeatFreed, SeatJoined, SeatLeft
from touchstone.protocol.spec.game.pools import (
    choose_largest,
    find_seat,
    get_required_stake,
    get_stake,
    is_held,
)
from touchstone.protocol.spec.game.purse import OUTSIDE, credit_of, stake_of
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameRound, GameState, MissedPlace, Seat, compute_seat_id
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX, SILENCES_MAX, SOLVER_SEATS_MAX
from touchstone.protocol.spec.game.timing import get_live_round, is_over, is_start_alive


def get_seat(state: GameState, number: int) -> Seat:
    """A seat by its number. Refuses SeatUnknown."""
    require(number in state.seats, "SeatUnknown", actual=number)
    return state.seats[number]


def apply_join(draft: Draft, call: JoinSeat, sender: str) -> None:
    """A seat for pools frozen later. Where all places of solvers are taken it needs a larger stake than the
    smallest, which waits from the next freeze on."""
    state = draft.state
    require(not state.is_halted, "TaskHalted")
    has_rounds = state.next_round < state.terms.rounds and not is_over(state, draft.block)
    require(has_rounds, "TaskOver", f"one of {state.terms.rounds} rounds to come", state.next_round)
    require(find_seat(state, sender) is None, "AlreadySeated", actual=sender)
    least, greatest = get_required_stake(state, call.role), state.limits.amount_max
    require(least <= call.wei <= greatest, "StakeWrong", f"{least} to {greatest} wei", call.wei)
    if call.role == SeatRole.SOLVER:
        _require_place(state, call.wei)
    number = _find_free_seat(state, call.role)
    require(number is not None, "SeatsTaken", "a free number", call.role.name)
    assert number is not None
    draft.emit(SeatJoined(number, call.role, sender))
    draft.take(sender, stake_of(number), call.wei)


def _find_free_seat(state: GameState, role: SeatRole) -> int | None:
    """The lowest number of the role that no seat holds. A seat holds its number until it is paid out."""
    count = SOLVER_SEATS_MAX if role == SeatRole.SOLVER else AUDITOR_SEATS_MAX
    numbers = (compute_seat_id(role, i) for i in range(count))
    return next((number for number in numbers if number not in state.seats), None)


def _require_place(state: GameState, wei: int) -> None:
    """Refuses SeatsTaken unless a place is free or `wei` is more than the smallest stake that holds one. No
    seat is displaced here. Otherwise an account could displace one for free, by leaving before the freeze."""
    largest = choose_largest(state, list_open_solvers(state))
    if len(largest) == state.terms.solver_seats:
        held = get_stake(state, largest[-1])
        require(wei > held, "SeatsTaken", f"more than {held} wei", wei)


def list_open_solvers(state: GameState) -> tuple[int, ...]:
    """Solver seats that are open, whether they sit or wait."""
    kind = (SeatRole.SOLVER, SeatStatus.OPEN)
    return tuple(number for number, seat in state.seats.items() if (seat.role, seat.status) == kind)


def is_crowded_out(state: GameState, seat: Seat) -> bool:
    """Whether an open seat waits where no number is left for a larger stake."""
    if seat.role != SeatRole.SOLVER or _find_free_seat(state, SeatRole.SOLVER) is not None:
        return False
    return seat.number not in choose_largest(state, list_open_solvers(state))


def apply_top_up(draft: Draft, call: TopUp, sender: str) -> None:
    """More stake for an own seat that is open."""
    seat, greatest = get_seat(draft.state, call.seat), draft.state.limits.amount_max
    require(seat.account == sender, "NotHolder", seat.account, sender)
    require(seat.status == SeatStatus.OPEN, "SeatClosed", actual=call.seat)
    total = get_stake(draft.state, call.seat) + call.wei
    require(call.wei > 0 and total <= greatest, "StakeWrong", f"1 wei or more, {greatest} in all", call.wei)
    draft.take(sender, stake_of(call.seat), call.wei)


def apply_leave(draft: Draft, call: LeaveSeat, sender: str) -> None:
    """The seat still serves in frozen pools."""
    seat = get_seat(draft.state, call.seat)
    require(seat.account == sender, "NotHolder", seat.account, sender)
    require(seat.status == SeatStatus.OPEN, "SeatClosed", actual=call.seat)
    draft.emit(SeatLeft(call.seat))


# --- Paying out ---------------------------------------------------------------------------------------------
def has_rounds_left(state: GameState, seat: Seat, block: int) -> bool:
    """Whether a frozen pool that the seat has not settled holds it. Pools of rounds that were not opened
    count as long as they may still open: a start that has lapsed holds no seat."""
    may_open = get_live_round(state) is not None or is_start_alive(state, block)
    until = state.terms.rounds if may_open else state.next_round
    pools = (pool for index, pool in state.pools.items() if seat.settled <= index < until)
    return any(is_held(pool, seat) for pool in pools)


def get_pay_out_flaw(state: GameState, seat: Seat, block: int) -> str | None:
    """Why a stake cannot be paid out yet, None where it can."""
    if seat.status == SeatStatus.OPEN and not is_over(state, block) and not is_crowded_out(state, seat):
        return "TaskRuns"
    is_busy = has_rounds_left(state, seat, block) or bool(list_questions(state, seat.number))
    return "SeatBusy" if is_busy else None


def apply_pay_out(draft: Draft, call: PayOut, sender: str) -> None:
    """Any account may send it: the stake goes to the seat's account. A convicted seat has no stake left. The
    number becomes free."""
    seat = get_seat(draft.state, call.seat)
    flaw = get_pay_out_flaw(draft.state, seat, draft.block)
    require(flaw is None, flaw or "", actual=call.seat)
    if seat.status == SeatStatus.OPEN:
        draft.emit(SeatLeft(call.seat))
    draft.move(stake_of(call.seat), credit_of(seat.account), get_stake(draft.state, call.seat))
    draft.emit(SeatFreed(call.seat))


def apply_deposit(draft: Draft, call: Deposit, sender: str) -> None:
    """The sender's money comes into the task."""
    require(call.wei > 0, "NothingMoved", "1 wei or more", call.wei)
    draft.move(OUTSIDE, credit_of(sender), call.wei)


def apply_withdraw(draft: Draft, call: WithdrawCredit, sender: str) -> None:
    """All credit of the sender leaves the task."""
    wei = draft.state.purse.get_wei(credit_of(sender))
    require(wei > 0, "NothingMoved", "credit", 0)
    draft.move(credit_of(sender), OUTSIDE, wei)


def is_missed(game_round: GameRound, seat: Seat) -> bool:
    """Whether a seat owed the round a commitment and brought none. Then it pays the fee of DROPPED, unless it
    was convicted. Without a beacon no seat could commit."""
    is_due = game_round.closed is not None and game_round.beacon is not None
    if not is_due or seat.number not in game_round.pool.solvers:
        return False
    slot = game_round.pool.solvers.index(seat.number)
    return slot not in game_round.claims and game_round.phase != RoundPhase.UNDONE


def _list_missed_rounds(state: GameState, seat: Seat, block: int) -> Iterator[MissedPlace]:
    places = (MissedPlace(index) for index in state.rounds)
    yield from (place for place in places if is_silence(state, seat, place, block))


def find_silent_seats(state: GameState, block: int) -> dict[int, tuple[MissedPlace, ...]]:
    """All open seats that have missed something since they were last heard of, and what, ascending: rounds
    of a solver, draws of an auditor; in one walk over the draws."""
    seats = [seat for seat in state.seats.values() if seat.status == SeatStatus.OPEN]
    found = {s.number: list(_list_missed_rounds(state, s, block)) for s in seats if s.role == SeatRole.SOLVER}
    since = min((s.last_voted for s in seats if s.role != SeatRole.SOLVER), default=state.next_round)
    for index, game_round in state.rounds.items():
        for slot, draw in list_draws(state, game_round) if index > since else ():
            if 0 in get_votes(game_round, slot, draw):
                continue
            seat = state.seats.get(get_drawn_seat(state, game_round, slot, draw, 0) or 0)
            place = MissedPlace(index, slot, draw)
            if seat and seat.status == SeatStatus.OPEN and is_silence(state, seat, place, block):
                found.setdefault(seat.number, []).append(place)
    return {number: tuple(sorted(places)) for number, places in found.items() if places}


def is_silence(state: GameState, seat: Seat, place: MissedPlace, block: int) -> bool:
    """Whether a seat has missed a place, did not settle its round, and was not heard of since. While a
    contest runs, and `respond` after one was lost, no solver is silent: an honest one does not train on a
    wrong root."""
    game_round = state.rounds.get(place.round)
    if game_round is None or place.round < seat.settled:
        return False
    if seat.role == SeatRole.SOLVER:
        is_round = (place.slot, place.draw) == (0, 0)
        is_due = is_round and not state.contests and block > state.contested_until
        return is_due and place.round > seat.last_commit and is_missed(game_round, seat)
    return place.round > seat.last_voted and _is_draw_missed(state, game_round, seat, place, block)


def _is_draw_missed(
    state: GameState, game_round: GameRound, seat: Seat, place: MissedPlace, block: int
) -> bool:
    """Whether a draw whose primary is the seat is over without its vote."""
    slot, draw = place.slot, place.draw
    if game_round.phase == RoundPhase.UNDONE or not is_draw_over(state, game_round, slot, draw, block):
        return False
    is_primary = get_drawn_seat(state, game_round, slot, draw, 0) == seat.number
    return is_primary and 0 not in get_votes(game_round, slot, draw)


def apply_mark_silent(draft: Draft, call: MarkSilent, sender: str) -> None:
    """The seat leaves, unharmed."""
    seat, missed = get_seat(draft.state, call.seat), call.missed
    require(seat.status == SeatStatus.OPEN, "SeatClosed", actual=call.seat)
    require(len(missed) >= SILENCES_MAX, "NotSilent", SILENCES_MAX, len(missed))
    require(all(a < b for a, b in zip(missed, missed[1:], strict=False)), "NotSilent", "ascending", missed)
    silent = all(is_silence(draft.state, seat, place, draft.block) for place in missed)
    require(silent, "NotSilent", "what the seat has missed", missed)
    draft.emit(SeatLeft(call.seat))
