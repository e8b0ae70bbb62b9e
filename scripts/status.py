"""`touchstone status`: the tasks of the chain, and what an account has, can take out, and when."""

from collections.abc import Sequence

from rich.table import Table

from protocol.actions.runtime.chain_state import ChainState
from protocol.adapters.chain.game import GameChain
from protocol.adapters.chain.refusals import format_tokens
from protocol.spec.game.enums import SeatRole
from protocol.spec.game.ledger import LoggedGame
from protocol.spec.game.pools import find_seat, get_required_stake
from protocol.spec.game.purse import ESCROW
from scripts.console import Console
from scripts.holdings import Holding, find_holding, tell_release
from scripts.pace import Pace, read_pace
from scripts.tasks import (
    DIGITS,
    count_sitting,
    is_task_closable,
    list_open,
    read_state,
    show_seat,
    show_task,
    tell_missing,
    tell_phase,
)


async def tell_status(chain: GameChain, account: str, console: Console) -> None:
    """Tables of the deployment's tasks, and of the money, the seats and the own tasks of `account`."""
    account, pace = account.lower(), await read_pace(chain)
    state = await read_state(chain, account)
    show = console.rich.print
    show(_make_task_table(state))
    for line in _list_notes(state):
        show(line, markup=False)
    show(await _make_money_table(chain, account, state))
    seats = [
        (task, game, find_holding(game, seat, pace))
        for task, game in state.games.items()
        if (seat := find_seat(game, account)) is not None
    ]
    if seats:
        show(_make_seat_table(seats))
    own = {task: game for task, game in state.games.items() if game.terms.submitter == account}
    if any(not game.is_closed for game in own.values()):
        show(_make_escrow_table(own, pace))


def _make_task_table(state: ChainState) -> Table:
    table = Table(title=f"Tasks at block {state.head_block}", title_justify="left")
    # An id that is cut short names nothing.
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("rounds", "status", "solve", "verify", "watch", "escrow left"):
        table.add_column(name, overflow="fold")
    for task, game in state.games.items():
        table.add_row(*_describe_task(task, game, state.head_block + 1))
    for task in state.refused:
        table.add_row(show_task(task), "", "cannot be understood")
    return table


def _list_notes(state: ChainState) -> list[str]:
    """What is unusual about tasks, a line each: in the table they would leave no room on a terminal of 80
    columns."""
    notes = [(task, f"cannot be understood: {reason}") for task, reason in state.refused.items()]
    for task, game in state.games.items():
        questions = len(game.contests) + len(game.disputes) + len(game.asks)
        missing = "" if game.is_closed else tell_missing(game)
        if questions:
            notes.append((task, f"asks, disputes and contests that have not ended: {questions}"))
        if missing:
            notes.append((task, f"lacks {missing}"))
    return [f"{show_task(task)}: {note}" for task, note in notes]


def _describe_task(task: bytes, game: LoggedGame, block: int) -> list[str]:
    counts = [str(count_sitting(game, role)) for role in SeatRole]
    return [
        show_task(task),
        f"{game.next_round}/{game.terms.rounds}",
        tell_phase(game, block),
        *counts,
        format_tokens(game.purse.get_wei(ESCROW)),
    ]


async def _make_money_table(chain: GameChain, account: str, state: ChainState) -> Table:
    coin_wei, credit_wei = await chain.connection.balance_of(account), state.credits[account]
    table = Table("", "amount", "can be taken out", title=f"Account {account}", title_justify="left")
    table.add_row("coin for gas", f"{coin_wei / 1e18:.4f}")
    table.add_row("tokens in the wallet", format_tokens(await chain.token.balance_of(account)))
    table.add_row("credit", format_tokens(credit_wei), "now: touchstone withdraw" if credit_wei else "")
    return table


def _make_seat_table(seats: Sequence[tuple[bytes, LoggedGame, Holding]]) -> Table:
    """What is at stake, and until when."""
    table = Table(title="Your seats", title_justify="left")
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("seat", "state", "stake"):
        table.add_column(name, overflow="fold")
    table.add_column("can be taken out", overflow="fold")
    for task, game, holding in seats:
        seat = holding.seat
        words = (show_seat(seat), seat.status.name.lower(), _tell_stake(game, holding))
        table.add_row(show_task(task), *words, tell_release(holding))
    return table


def _tell_stake(game: LoggedGame, holding: Holding) -> str:
    least_wei = get_required_stake(game, holding.seat.role)
    short = "" if holding.stake_wei >= least_wei else f" (to sit it takes {format_tokens(least_wei)})"
    return format_tokens(holding.stake_wei) + short


def _make_escrow_table(own: dict[bytes, LoggedGame], pace: Pace) -> Table:
    table, block = Table(title="Escrow of your tasks", title_justify="left"), pace.head_block + 1
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("left", "comes back as credit", "still open"):
        table.add_column(name, overflow="fold")
    for task, game in own.items():
        if not game.is_closed:
            when = "now: touchstone task close" if is_task_closable(game, block) else "when all is settled"
            row = (format_tokens(game.purse.get_wei(ESCROW)), when)
            table.add_row(show_task(task), *row, "; ".join(list_open(game, block)) or "nothing")
    return table
