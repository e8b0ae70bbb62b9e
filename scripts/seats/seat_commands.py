"""The commands that take a seat in a task and run its node."""

from typing import TYPE_CHECKING, Any

import click

from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import AMOUNT, FOLDER, Number
from touchstone.scripts.command_line.shared_options import (
    Function,
    with_logs,
    with_task,
    with_unlocked_home,
    with_yes,
)

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.document_fields import Document

with_stake = click.option(
    "--stake", "stake_wei", type=AMOUNT, help="whole tokens to stake; left out: what the task asks for"
)
with_weights = click.option(
    "--weights", type=FOLDER, help="a folder with the task's starting weights, so that none are fetched"
)
with_when_idle = click.option(
    "--when-idle",
    is_flag=True,
    help="join once nobody else uses this machine, pause while somebody does, leave if that lasts",
)
with_nice = click.option(
    "--nice", type=Number(0, 19), help="nice level, 0 to 19; left out: as config.toml says"
)
with_executor = click.option(
    "--executor",
    type=click.Choice(("process", "ray")),
    help="what runs replays: process, or ray (an extra); left out: as config.toml says",
)

with_why = click.option(
    "--why", "is_explained", is_flag=True, help="show the rule behind each amount of the task"
)


def with_seat(function: Function) -> Function:
    """Adds the options of a seat of any role."""
    for option in reversed(
        (with_task, with_stake, with_weights, with_when_idle, with_nice, with_why, with_yes)
    ):
        function = option(function)
    return function


@click.command("solve", cls=Command, example="touchstone solve 0x3fa9 --home ~/alice")
@with_seat
@with_logs
@with_unlocked_home
def solve(**options: Any) -> "Document":
    """Train in every round of a task, claim the results, answer disputes."""
    return _run(SeatRole.SOLVER, options)


@click.command("verify", cls=Command, example="touchstone verify 0x3fa9 --home ~/bob")
@with_seat
@with_executor
@with_logs
@with_unlocked_home
def verify(**options: Any) -> "Document":
    """Replay drawn segments of a task blind and vote."""
    return _run(SeatRole.VERIFIER, options)


@click.command("watch", cls=Command, example="touchstone watch 0x3fa9 --home ~/carol")
@with_seat
@with_executor
@with_logs
@with_unlocked_home
def watch(**options: Any) -> "Document":
    """Audit a task late, check its roots, dispute what is wrong."""
    return _run(SeatRole.WHISTLEBLOWER, options)


def _run(role: SeatRole, options: dict[str, Any]) -> "Document":
    from touchstone.scripts.home.home_lock import require_free_home

    require_free_home(options["home"])  # Check before PyTorch is loaded.
    from touchstone.scripts.seats.seat_session import SeatChoice, run_role

    return run_role(role, SeatChoice(**options))
