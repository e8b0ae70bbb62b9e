"""Lets members take seats, add to their stakes, and leave. Twin of `SeatMembership.sol`."""

from touchstone.protocol.spec.game.calls import JoinSeat, LeaveSeat, TopUp
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import SeatJoined, SeatLeft
from touchstone.protocol.spec.game.pools import choose_largest, find_seat, get_required_stake, get_stake
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState, Seat, compute_seat_id
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX, SOLVER_SEATS_MAX
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.game.vault import stake_of


def get_seat(state: GameState, number: int) -> Seat:
    """Returns a seat by its number. Refuses SeatUnknown."""
    require(number in state.seats, "SeatUnknown", actual=number)
    return state.seats[number]


def apply_join(draft: Draft, call: JoinSeat, sender: str) -> None:
    """Takes a seat in pools that are frozen later. If all solver places are taken, the seat needs a larger
    stake than the smallest, which then waits from the next freeze on."""
    state = draft.state
    require(not state.is_halted, "TaskHalted")
    has_rounds = state.next_round < state.terms.rounds and not is_over(state, draft.block)
    require(has_rounds, "TaskOver", f"one of {state.terms.rounds} rounds to come", state.next_round)
    require(find_seat(state, sender) is None, "AlreadySeated", actual=sender)
    least, greatest = get_required_stake(state, call.role), state.bounds.amount_max
    require(least <= call.wei <= greatest, "StakeWrong", f"{least} to {greatest} wei", call.wei)
    if call.role == SeatRole.SOLVER:
        _require_place(state, call.wei)
    number = _find_free_seat(state, call.role)
    require(number is not None, "SeatsTaken", "a free number", call.role.name)
    assert number is not None
    draft.emit(SeatJoined(number, call.role, sender))
    draft.take(sender, stake_of(number), call.wei)


def _find_free_seat(state: GameState, role: SeatRole) -> int | None:
    """Returns the lowest number of the role that no seat holds. A seat keeps its number until it is paid
    out."""
    count = SOLVER_SEATS_MAX if role == SeatRole.SOLVER else AUDITOR_SEATS_MAX
    numbers = (compute_seat_id(role, i) for i in range(count))
    return next((number for number in numbers if number not in state.seats), None)


def _require_place(state: GameState, wei: int) -> None:
    """Refuses SeatsTaken unless a place is free or `wei` is more than the smallest stake that has one. No
    seat is displaced here. Otherwise an account could displace one for free, by leaving before the freeze."""
    largest = choose_largest(state, list_open_solvers(state))
    if len(largest) == state.terms.solver_seats:
        held = get_stake(state, largest[-1])
        require(wei > held, "SeatsTaken", f"more than {held} wei", wei)


def list_open_solvers(state: GameState) -> tuple[int, ...]:
    """Returns the open solver seats, in the pool or waiting."""
    kind = (SeatRole.SOLVER, SeatStatus.ACTIVE)
    return tuple(number for number, seat in state.seats.items() if (seat.role, seat.status) == kind)


def is_outbid(state: GameState, seat: Seat) -> bool:
    """Returns whether an open seat waits if no number is left for a larger stake."""
    if seat.role != SeatRole.SOLVER or _find_free_seat(state, SeatRole.SOLVER) is not None:
        return False
    return seat.number not in choose_largest(state, list_open_solvers(state))


def apply_top_up(draft: Draft, call: TopUp, sender: str) -> None:
    """Adds to the stake of the sender's open seat."""
    seat, greatest = get_seat(draft.state, call.seat), draft.state.bounds.amount_max
    require(seat.account == sender, "NotHolder", seat.account, sender)
    require(seat.status == SeatStatus.ACTIVE, "SeatNotActive", actual=call.seat)
    total = get_stake(draft.state, call.seat) + call.wei
    require(call.wei > 0 and total <= greatest, "StakeWrong", f"1 wei or more, {greatest} in all", call.wei)
    draft.take(sender, stake_of(call.seat), call.wei)


def apply_leave(draft: Draft, call: LeaveSeat, sender: str) -> None:
    """Makes a seat leave. It still serves in frozen pools."""
    seat = get_seat(draft.state, call.seat)
    require(seat.account == sender, "NotHolder", seat.account, sender)
    require(seat.status == SeatStatus.ACTIVE, "SeatNotActive", actual=call.seat)
    draft.emit(SeatLeft(call.seat))
