"""The commands about the shares of a task: who owns its model."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_run import Group
from touchstone.scripts.command_line.option_types import AMOUNT
from touchstone.scripts.command_line.shared_options import with_task, with_unlocked_home

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.posting_documents import HaltDocument
    from touchstone.scripts.documents.stake_documents import (
        SharesClaimDocument,
        SharesDocument,
        SharesPayDocument,
    )


@click.group("shares", cls=Group)
def shares() -> None:
    """Who owns a task's model, its revenue, and the vote to halt it."""


@shares.command("show", example="touchstone shares show 0x3fa9 --home ~/alice")
@with_task
@with_unlocked_home
def show(task: str, home: Path, password_file: Path | None) -> "SharesDocument":
    """Tell how many shares a task has, this account's, and how the vote to halt it stands."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.money.task_shares import show_shares

    return run_with_chain(home, password_file, lambda chain, console: show_shares(chain, task, console))


@shares.command("pay", example="touchstone shares pay 0x3fa9 250 --home ~/alice")
@with_task
@click.argument("amount_wei", type=AMOUNT, metavar="AMOUNT", help="whole tokens")
@with_unlocked_home
def pay(task: str, amount_wei: int, home: Path, password_file: Path | None) -> "SharesPayDocument":
    """Pay revenue for all who hold shares of a task now."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.money.task_shares import pay_revenue

    return run_with_chain(
        home, password_file, lambda chain, console: pay_revenue(chain, task, amount_wei, console)
    )


@shares.command("claim", example="touchstone shares claim 0x3fa9 --home ~/alice")
@with_task
@with_unlocked_home
def claim(task: str, home: Path, password_file: Path | None) -> "SharesClaimDocument":
    """Turn the revenue that this account's shares have earned into credit."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.money.task_shares import claim_revenue

    return run_with_chain(home, password_file, lambda chain, console: claim_revenue(chain, task, console))


@shares.command("vote", example="touchstone shares vote 0x3fa9 all --home ~/alice")
@with_task
@click.argument("amount", metavar="AMOUNT", help="shares that vote: all, none, or a number")
@with_unlocked_home
def vote(task: str, amount: str, home: Path, password_file: Path | None) -> "SharesDocument":
    """Vote for a task's halt; shares that vote cannot be transferred."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.money.task_shares import parse_votes, vote_halt

    votes = parse_votes(amount)
    return run_with_chain(home, password_file, lambda chain, console: vote_halt(chain, task, votes, console))


@shares.command("halt", example="touchstone shares halt 0x3fa9 --home ~/alice")
@with_task
@with_unlocked_home
def halt(task: str, home: Path, password_file: Path | None) -> "HaltDocument":
    """Halt a task for the majority of its shares: the round that runs is the last."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.money.task_shares import halt_by_vote

    return run_with_chain(home, password_file, lambda chain, console: halt_by_vote(chain, task, console))
