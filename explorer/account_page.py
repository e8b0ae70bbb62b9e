"""Makes the JSON of an account's page: what it owes, what is at risk, what it has."""

from typing import Any

from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.duty_documents import list_duties
from touchstone.explorer.names import make_person, show_wei
from touchstone.explorer.task_documents import name_task, to_hex
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.economics.account_money import AccountMoney, compute_account
from touchstone.protocol.economics.money_words import describe_money, estimate_unlock
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat, get_stake
from touchstone.protocol.spec.game.round_machine import get_state_at

DISPUTES_MAX = 50
"""Disputes of an account that its page lists."""


def make_account(view: ChainView, account: str) -> dict[str, Any] | None:
    """Returns what an account has and owes in each of its tasks; None if no task knows it."""
    rows = [
        row
        for task in sorted(view.posted, key=lambda one: view.posted[one], reverse=True)
        if task in view.state.games and (row := _make_task(view, task, account)) is not None
    ]
    disputes = _list_disputes(view, account)
    if not rows and not disputes:
        return None
    return {**make_person(account, view.names), "tasks": rows, "disputes": disputes[:DISPUTES_MAX]}


def _make_task(view: ChainView, task: bytes, account: str) -> dict[str, Any] | None:
    game, block = view.state.games[task], view.next_block
    now = get_state_at(game, block)
    money, seat = compute_account(now, game.money, account, block), find_seat(now, account)
    was_there = any(one.account == account for one in game.former.values())
    has_any = seat or was_there or money.locks or money.rounds or money.sums
    if not has_any and game.terms.submitter != account:
        return None
    duties = list_duties(now, view.state.inner.get(task), account, block, view.names)
    role = "submitter" if seat is None and game.terms.submitter == account else ""
    return {
        "task": to_hex(task),
        "name": name_task(task, int(view.state.task_terms[task].parameter_count)),
        "role": role if seat is None else seat.role.name.lower(),
        "status": "" if seat is None else seat.status.name.lower(),
        "stake": show_wei(0 if seat is None else get_stake(now, seat.number)),
        "line": describe_holdings(game, money, view.pace),
        "unlock_block": estimate_unlock(now, money, block),
        "duties": [one.to_json() for one in duties],
        "suspicious": [one for one in view.list_suspicious(task) if one["account"] == account],
    }


def describe_holdings(game: LoggedGame, money: AccountMoney, pace: Pace) -> str:
    """Returns what an account has in a task as a sentence."""
    block = pace.head_block + 1
    due = estimate_unlock(get_state_at(game, block), money, block)
    return describe_money(money, "" if due is None else pace.show_wait(due), "it has")


def _list_disputes(view: ChainView, account: str) -> list[dict[str, Any]]:
    """Returns the disputes that an account opened, or that are about its statements, the newest first."""
    rows = []
    for task, inner in view.state.inner.items():
        game = view.state.games.get(task)
        for dispute in () if game is None else inner.disputes.values():
            accused = view.names.find_account(game, dispute.seat) if game is not None else None
            if game is not None and account in (dispute.opener, accused):
                rows.append({
                    "task": to_hex(task),
                    "dispute": to_hex(dispute.name),
                    "about": view.names.of_statement(game, dispute.statement),
                    "opener": view.names.of(dispute.opener),
                    "opener_account": dispute.opener,
                    "is_against": accused == account,
                    "stage": dispute.stage.name,
                    "is_open": dispute.is_open,
                    "until_block": dispute.clock if dispute.is_open else None,
                })  # fmt: skip
    return sorted(rows, key=lambda row: not row["is_open"])
