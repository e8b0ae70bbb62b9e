"""Makes the tables of `touchstone status`: of tasks, of one task, and of an account."""

from collections.abc import Mapping, Sequence

from touchstone.explorer.task_documents import count_active, describe_phase
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.economics.account_money import AccountMoney, compute_money
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.game.vault import ESCROW
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.task_names import DIGITS, show_seat, show_task
from touchstone.scripts.account.task_words import describe_missing, list_open
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.fitting_table import FittingTable
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.status.money_json import sum_account
from touchstone.scripts.status.money_tables import find_money, has_money, make_money_table, make_rounds_table
from touchstone.scripts.status.sight import Sight, look

ROLE_NAMES = ("solvers", "verifiers", "whistleblowers")
SHORT_NAMES = ("solve", "verify", "watch")
"""Short headings by the roles' commands, for a narrow terminal."""
WIDE_COLUMNS, WIDE_FOR_ACCOUNTS = 100, 120
SHORT_ACCOUNT = 10


async def notify_status(chain: GameChain, account: str, console: Console) -> None:
    """Shows tables of the deployment's tasks, and of the money, the seats and the tasks of `account`."""
    show_status(await look(chain, account), console)


def show_status(sight: Sight, console: Console) -> None:
    """Shows these tables, from a look that was already taken."""
    show, state = console.rich.print, sight.state
    show(_make_task_table(state, ROLE_NAMES if console.rich.width >= WIDE_COLUMNS else SHORT_NAMES))
    for line in _list_notes(state):
        show(line, markup=False)
    show(_make_wallet_table(sight))
    for task, game in state.games.items():
        money = find_money(game, sight.account, sight.pace)
        if has_money(money):
            show(make_money_table(task, game, money, sight.pace))


def _make_task_table(state: ChainState, roles: Sequence[str]) -> FittingTable:
    """Makes the table of tasks. `roles` are the headings of columns that count seats."""
    headings = ("task", "rounds opened", "status", *roles, "escrow left")
    table = FittingTable(f"Tasks at block {state.head_block}", headings)
    for task, game in state.games.items():
        table.add_row(*_describe_task(task, game, state.head_block + 1))
    for task in state.refused:
        table.add_row(show_task(task), "", "cannot be understood")
    return table


def _list_notes(state: ChainState) -> list[str]:
    """Yields a line on each unusual task, because a table of 80 columns has no room for it."""
    notes = [(task, f"cannot be understood: {reason}") for task, reason in state.refused.items()]
    for task, game in state.games.items():
        questions = len(game.contests) + len(game.disputes) + len(game.queries)
        missing = describe_lack(game, state.head_block + 1)
        if questions:
            notes.append((task, f"queries, disputes and contests that have not ended: {questions}"))
        if missing:
            notes.append((task, f"lacks {missing}"))
    return [f"{show_task(task)}: {note}" for task, note in notes]


def _describe_task(task: bytes, game: LoggedGame, block: int) -> list[str]:
    counts = [str(count_active(game, role)) for role in SeatRole]
    return [
        show_task(task),
        f"{game.next_round}/{game.terms.rounds}",
        describe_phase(game, block),
        *counts,
        format_tokens(game.vault.get_wei(ESCROW)),
    ]


def _make_wallet_table(sight: Sight) -> FittingTable:
    credit_wei = sight.state.credits[sight.account]
    table = FittingTable(f"Account {sight.account}", ("", "amount", "can be taken out"))
    table.add_row("coin for gas", f"{sight.coin_wei / 1e18:.4f}")
    table.add_row("tokens in the wallet", format_tokens(sight.token_wei))
    table.add_row("credit", format_tokens(credit_wei), "now: touchstone withdraw" if credit_wei else "")
    return table


def show_task_status(sight: Sight, task: bytes, game: LoggedGame, console: Console) -> None:
    """Shows tables of a task's rounds and seats, and what of the task is not over."""
    show, block = console.rich.print, sight.state.head_block + 1
    now = get_state_at(game, block)
    # A terminal wraps ids itself, so that they can be copied.
    show(f"task {format_id(task)}", markup=False, soft_wrap=True)
    show(f"posted by {game.terms.submitter}", markup=False, soft_wrap=True)
    show(f"at block {block - 1}: {describe_phase(game, block)}; escrow {format_tokens(get_escrow(game))}")
    for line in [
        *list_open(game, block),
        *([f"lacks {missing}"] if (missing := describe_lack(game, block)) else []),
    ]:
        show(f"- {line}", markup=False)
    headings = ("round", "state", "opened", "closed", "claims", "audits", "merged", "root")
    rounds = FittingTable("Rounds", headings)
    for index, one in sorted(now.rounds.items()):
        rounds.add_row(str(index), *_describe_round_shortly(one))
    show(rounds)
    is_wide = console.rich.width >= WIDE_FOR_ACCOUNTS
    show(_make_seat_table(now, compute_money(now, game.money, block), is_wide=is_wide))
    money = find_money(game, sight.account, sight.pace)
    if has_money(money):
        show(make_money_table(task, game, money, sight.pace))
    if money.rounds:
        show(make_rounds_table(money, sight.pace))


def _make_seat_table(now: GameState, money: Mapping[str, AccountMoney], *, is_wide: bool) -> FittingTable:
    """Returns all seats, with what their accounts have in the task. A narrow terminal gets the first digits
    of accounts."""
    table = FittingTable("Seats", ("seat", "account", "state", "stake", "earned", "settled", "lost"))
    for seat in now.seats.values():
        amounts = (get_stake(now, seat.number), *sum_account(money[seat.account]))
        shown = (format_tokens(wei).split()[0] for wei in amounts)
        account = seat.account if is_wide else seat.account[:SHORT_ACCOUNT]
        table.add_row(show_seat(seat), account, seat.status.name.lower(), *shown)
    return table


def _describe_round_shortly(one: GameRound) -> list[str]:
    closed, votes = "" if one.closed is None else str(one.closed), sum(map(len, one.votes.values()))
    claims = f"{len(one.claims)}/{len(one.pool.solvers)}"
    root = "" if one.root is None else one.root.hex()[:DIGITS]
    return [describe_round(one), str(one.opened), closed, claims, str(votes), str(len(one.merged)), root]


def describe_round(one: GameRound) -> str:
    """Describes a round in a word: `training`, `audits`, `posted`, `standing`, `fallen` or `undone`."""
    if one.phase == RoundPhase.RUNNING:
        return "training" if one.closed is None else "audits"
    return one.phase.name.lower()


def get_escrow(game: GameState) -> int:
    """Returns what is left of a task's escrow, in wei."""
    return game.vault.get_wei(ESCROW)


def describe_lack(game: GameState, block: int) -> str:
    """Describes the seats that a task waits for; empty if no round is to come."""
    return "" if game.is_closed or is_over(get_state_at(game, block), block) else describe_missing(game)
