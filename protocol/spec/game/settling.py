"""Settles rounds of a seat, epoch after epoch, and pays it. Twin of `Settlement.sol`.

A seat settles a round once nothing that it said or did there can cost it anything any more.
"""

from touchstone.protocol.spec.game.calls import SettleSeat
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.events import SeatSettled
from touchstone.protocol.spec.game.open_questions import is_questioned, list_questions
from touchstone.protocol.spec.game.pools import get_stake, is_held
from touchstone.protocol.spec.game.restitution import compute_restitution
from touchstone.protocol.spec.game.round_pay import RoundMoney, compute_round_money
from touchstone.protocol.spec.game.rounds import get_round
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.seats import get_seat
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat
from touchstone.protocol.spec.game.timing import get_duty_until
from touchstone.protocol.spec.game.vault import BURNED, ESCROW, RESTITUTION, credit_of, stake_of


def is_in_pool(game_round: GameRound, seat: Seat) -> bool:
    """Returns whether a round's pool holds the seat."""
    return is_held(game_round.pool, seat)


def get_settle_flaw(state: GameState, seat: Seat, until_round: int, block: int) -> str | None:
    """Returns why a seat cannot settle up to a round at `block`; None if it can. A seat settles its part of
    an epoch at once, and waits for whatever is open there."""
    if until_round not in state.rounds:
        return "RoundUnknown"
    rounds = [state.rounds[index] for index in range(seat.settled, until_round + 1)]
    is_early = any(is_in_pool(one, seat) and not is_duty_over(state, one, block) for one in rounds)
    if is_early or is_questioned(state, seat.number, until_round) or has_later(state, seat, until_round):
        return "NotSettleable"
    return "ContestRuns" if is_contested(state, until_round) else None


def has_later(state: GameState, seat: Seat, until_round: int) -> bool:
    """Returns whether a later round of the same epoch was opened with the seat in its pool."""
    later = (one for index, one in state.rounds.items() if index > until_round)
    epoch = get_epoch(until_round)
    return any(get_epoch(one.index) == epoch and is_in_pool(one, seat) for one in later)


def is_contested(state: GameState, until_round: int) -> bool:
    """Returns whether a contest is open about a round in any epoch up to the epoch of `until_round`."""
    return any(get_epoch(one.round) <= get_epoch(until_round) for one in state.contests.values())


def get_settled_until(state: GameState, seat: Seat, block: int) -> int:
    """Returns the last round up to which a seat can settle at `block`; seat.settled - 1 if none."""
    last = state.next_round - 1
    for index in range(seat.settled, state.next_round):
        if is_in_pool(state.rounds[index], seat) and not is_duty_over(state, state.rounds[index], block):
            last = get_epoch_start(get_epoch(index)) - 1
            break
    questions = list_questions(state, seat.number)
    open_in = [one.statement.round for one in questions] + [one.round for one in state.contests.values()]
    waits = (get_epoch_start(get_epoch(index)) - 1 for index in open_in)
    return max(min([last, *waits]), seat.settled - 1)


def is_duty_over(state: GameState, game_round: GameRound, block: int) -> bool:
    """Returns whether nothing that a seat said or did in a round can cost the seat anything any more."""
    until = get_duty_until(state, game_round)
    return until is not None and block > until


def apply_settle(draft: Draft, call: SettleSeat, sender: str) -> None:
    """Settles rounds of a seat. Any account may send the call; the money goes to the seat's account."""
    get_round(draft.state, call.until_round)
    seat = get_seat(draft.state, call.seat)
    require(call.until_round >= seat.settled, "AlreadySettled", seat.settled, call.until_round)
    flaw = get_settle_flaw(draft.state, seat, call.until_round, draft.block)
    require(flaw is None, flaw or "", actual=call.until_round)
    _pay(draft, seat, range(seat.settled, call.until_round + 1))
    draft.emit(SeatSettled(call.seat, call.until_round))


def _pay(draft: Draft, seat: Seat, indices: range) -> None:
    """Pays a settlement. Fees of all rounds are taken together, as far as the stake reaches. If a slash pays
    for something, the escrow's part is burned; otherwise the submitter would keep it, and a slash between
    friends would burn nothing."""
    state, money = draft.state, RoundMoney()
    for game_round in (state.rounds[index] for index in indices):
        if is_in_pool(game_round, seat):
            money += compute_round_money(state, seat, game_round, draft.block)
            wei = compute_restitution(state, seat, game_round, draft.block)
            draft.move(RESTITUTION, credit_of(seat.account), wei)
            draft.move(ESCROW, BURNED, wei)
    draft.move(ESCROW, credit_of(seat.account), money.paid)
    draft.move(ESCROW, BURNED, money.burned)
    draft.move(stake_of(seat.number), BURNED, min(money.fees, get_stake(state, seat.number)))
