"""The commands about an account's money: raise a stake, leave a seat, withdraw credit."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import AMOUNT
from touchstone.scripts.command_line.shared_options import with_task, with_unlocked_home, with_yes

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.stake_documents import LeaveDocument, StakeDocument, WithdrawDocument


@click.command("stake", cls=Command, example="touchstone stake 0x3fa9 100 --home ~/alice")
@with_task
@click.argument("amount_wei", type=AMOUNT, metavar="AMOUNT", help="whole tokens, decimals allowed")
@with_yes
@with_unlocked_home
def stake(
    task: str, amount_wei: int, is_agreed: bool, home: Path, password_file: Path | None
) -> "StakeDocument":
    """Add to the stake of a seat that this account has in a task."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.money.staking import add_stake

    return run_with_chain(
        home,
        password_file,
        lambda chain, console: add_stake(chain, task, amount_wei, console, is_agreed=is_agreed),
    )


@click.command("leave", cls=Command, example="touchstone leave 0x3fa9 --home ~/alice")
@with_task
@with_yes
@with_unlocked_home
def leave(task: str, is_agreed: bool, home: Path, password_file: Path | None) -> "LeaveDocument":
    """Give up a seat; its stake becomes credit once nothing holds it."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.money import staking

    return run_with_chain(
        home,
        password_file,
        lambda chain, console: staking.leave(chain, task, home, console, is_agreed=is_agreed),
    )


@click.command("withdraw", cls=Command, example="touchstone withdraw --wait --home ~/alice")
@click.option(
    "--wait",
    "is_waiting",
    is_flag=True,
    help="wait for the stakes of seats that have left, or whose task is over",
)
@with_unlocked_home
def withdraw(is_waiting: bool, home: Path, password_file: Path | None) -> "WithdrawDocument":
    """Take out all credit (pay, stakes that were given back, bonds, escrow), paying out own seats first."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.home.home_config import read_config
    from touchstone.scripts.money import withdrawal

    payout = read_config(home).payout_address
    return run_with_chain(
        home,
        password_file,
        lambda chain, console: withdrawal.withdraw(
            chain, console, is_waiting=is_waiting, payout_address=payout
        ),
    )
