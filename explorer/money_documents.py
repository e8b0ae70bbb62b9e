"""Makes the JSON of a task's money: who has what, and why. Amounts are texts with their unit."""

from collections.abc import Iterator, Mapping
from typing import Any

from touchstone.explorer.names import Names, make_person, show_wei
from touchstone.protocol.economics.account_money import AccountMoney, compute_money
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.money_reasons import KINDS, MoneyKind, Sums, add_sums
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import Seat
from touchstone.protocol.spec.game.vault import PotKind

COLUMNS = ("locked", "earned", "settled", "lost", "spent")
"""The columns of a table of money, by the state of the money."""
TOTALS = ("locked_wei", "earned_wei", "settled_wei", "lost_wei")
"""The figures of an account that are added up over tasks."""
Money = Mapping[str, AccountMoney]


def find_money(game: LoggedGame, block: int) -> Money:
    """Returns the money of all accounts of a task. `block` is the next one."""
    return compute_money(get_state_at(game, block), game.money, block)


def sum_money(money: AccountMoney) -> dict[str, int]:
    """Returns the wei of each column."""
    kinds = {kind: money.sum_settled(kind) for kind in (MoneyKind.SETTLED, MoneyKind.LOST, MoneyKind.SPENT)}
    return {"locked": money.locked, "earned": money.earned} | {kind.value: wei for kind, wei in kinds.items()}


def make_costs(game: LoggedGame, money: Money) -> dict[str, str]:
    """Returns what the submitter has paid so far, and what members have earned and settlements will pay."""
    submitter = money.get(game.terms.submitter, AccountMoney(game.terms.submitter))
    owed_wei = sum(one.earned for one in money.values())
    spent_wei = submitter.sum_settled(MoneyKind.SPENT)
    return {"spent": show_wei(spent_wei), "owed": show_wei(owed_wei)}


def make_money(game: LoggedGame, money: Money, names: Names) -> dict[str, Any]:
    """Returns who has what in a task, and why; and burned money by kind of pot."""
    burned = {kind: wei for kind, wei in game.money.burned.items() if wei}
    return {
        "columns": list(COLUMNS),
        "accounts": [_make_row(one, names) for one in money.values()],
        "why": [row for one in money.values() for row in _list_reasons(one, names)],
        "burned": {PotKind(kind).name.lower(): show_wei(wei) for kind, wei in burned.items()},
    }


def _make_row(money: AccountMoney, names: Names) -> dict[str, Any]:
    """Returns the money of an account by state. `in_all` leaves out what is only locked: it comes back.
    `change` is the task's change of the account's credit, to the wei."""
    sums = sum_money(money)
    shown = {name: show_wei(wei) for name, wei in sums.items()}
    in_all = sums["earned"] + sums["settled"] - sums["lost"] - sums["spent"]
    whole = {"in_all": show_wei(in_all), "change": show_wei(money.change)}
    return make_person(money.account, names) | shown | whole


def _list_reasons(money: AccountMoney, names: Names) -> Iterator[dict[str, Any]]:
    """Returns each reason with its amount: settled sums, and what unsettled rounds give and take."""
    person = make_person(money.account, names)
    for is_settled, sums in ((True, money.sums), (False, money.sum_unsettled())):
        yield from (person | row for row in _list_sums(sums, is_settled=is_settled))


def _list_sums(sums: Sums, *, is_settled: bool) -> Iterator[dict[str, Any]]:
    for reason, wei in add_sums(sums, {}).items():
        yield {
            "kind": KINDS[reason].value if is_settled else "not settled yet",
            "reason": reason.value.replace("_", " "),
            "amount": show_wei(wei),
        }


def make_seat(game: LoggedGame, seat: Seat, money: Money, names: Names) -> dict[str, Any]:
    """Returns a seat, and what its account has won in this task."""
    is_paid_out = seat.number not in game.seats
    sums = sum_money(money.get(seat.account, AccountMoney(seat.account)))
    return {
        "seat": seat.number,
        "role": seat.role.name.lower(),
        **make_person(seat.account, names),
        "status": "paid out" if is_paid_out else seat.status.name.lower(),
        "stake": show_wei(0 if is_paid_out else get_stake(game, seat.number)),
        **{name: show_wei(sums[name]) for name in ("earned", "settled", "lost")},
        "joined_before_round": seat.joined,
    }


def list_seats(game: LoggedGame, money: Money, names: Names) -> list[dict[str, Any]]:
    """Returns all seats in use, and paid-out ones whose number is free."""
    held = {**game.former, **game.seats}
    return [make_seat(game, held[number], money, names) for number in sorted(held)]
