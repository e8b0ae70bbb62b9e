"""Applies events that move the money of seats and of the task: stakes, settlements, escrow, revenue."""

from touchstone.protocol.spec.game import events
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.log_values import Values
from touchstone.protocol.spec.game.logged_game import Ledger
from touchstone.protocol.spec.game.restitution import compute_restitution
from touchstone.protocol.spec.game.seat_payments import pay_stake
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.vault import (
    BURNED,
    ESCROW,
    HELD,
    RESTITUTION,
    REVENUE,
    credit_of,
    stake_of,
)


def apply_joined(ledger: Ledger, values: Values) -> None:
    """Applies SeatJoined: the stake leaves the account's credit."""
    seat = int(values["seat"])
    ledger.emit(events.SeatJoined(seat, SeatRole(seat >> 16), values["account"]))
    ledger.move(credit_of(values["account"]), stake_of(seat), values["stake_wei"])


def apply_topped_up(ledger: Ledger, values: Values) -> None:
    """Applies SeatToppedUp: the stake grows."""
    seat = int(values["seat"])
    ledger.move(credit_of(ledger.state.seats[seat].account), stake_of(seat), values["wei_"])


def apply_freed(ledger: Ledger, values: Values) -> None:
    """Applies SeatFreed: the stake is returned."""
    seat = int(values["seat"])
    pay_stake(ledger, ledger.state.seats[seat])
    ledger.emit(events.SeatFreed(seat))


def apply_settled(ledger: Ledger, values: Values) -> None:
    """Applies SeatSettled. The event has the sums of pay and fees; restitution is computed
    here."""
    seat, until = ledger.state.seats[int(values["seat"])], int(values["until_round"])
    credit = credit_of(seat.account)
    for index in range(seat.settled, until + 1):
        game_round = ledger.state.rounds[index]
        if is_in_pool(game_round, seat):
            wei = compute_restitution(ledger.state, seat, game_round, ledger.block)
            ledger.move(RESTITUTION, credit, wei)
    ledger.move(ESCROW, credit, values["paid_wei"])
    ledger.move(ESCROW, BURNED, values["burned_wei"])
    ledger.move(stake_of(seat.number), BURNED, values["fee_wei"])
    ledger.emit(events.SeatSettled(seat.number, until))


def apply_closed(ledger: Ledger, values: Values) -> None:
    """Applies TaskClosed: the rest of the escrow goes to the submitter."""
    for pot in (HELD, RESTITUTION):
        ledger.move(pot, BURNED, ledger.state.vault.get_wei(pot))
    ledger.move(ESCROW, credit_of(ledger.state.terms.submitter), values["refund_wei"])
    ledger.emit(events.TaskClosed())


def apply_revenue(ledger: Ledger, values: Values) -> None:
    """Applies RevenuePaid."""
    ledger.move(credit_of(values["payer"]), REVENUE, values["wei_"])


def apply_claimed_revenue(ledger: Ledger, values: Values) -> None:
    """Applies RevenueClaimed."""
    ledger.move(REVENUE, credit_of(values["holder"]), values["wei_"])
