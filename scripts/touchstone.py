"""The `touchstone` command.

A file of commands (`*_commands.py`) imports the modules of a command only when the command runs, because
`--help` must not wait for torch.
"""

import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click
from click.exceptions import NoArgsIsHelpError

from touchstone.demo.demo_commands import demo
from touchstone.scripts.calibration.calibration_commands import calibrate, policy
from touchstone.scripts.command_line.command_errors import ExitCode
from touchstone.scripts.command_line.command_run import STOPPED, RootGroup
from touchstone.scripts.command_line.completion_commands import completion
from touchstone.scripts.command_line.help_commands import show_help, version
from touchstone.scripts.command_line.usage_errors import print_usage_error
from touchstone.scripts.data.data_commands import data
from touchstone.scripts.doctor.doctor_commands import doctor
from touchstone.scripts.home.home_commands import init
from touchstone.scripts.home.key_commands import keys
from touchstone.scripts.models.model_commands import evaluate, export, replay, sample
from touchstone.scripts.money.money_commands import leave, stake, withdraw
from touchstone.scripts.money.shares_commands import shares
from touchstone.scripts.network.network_commands import devnet, explorer
from touchstone.scripts.seats.seat_commands import solve, verify, watch
from touchstone.scripts.status.status_commands import status, tasks, top
from touchstone.scripts.tasks.task_commands import task


@click.group(
    "touchstone",
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Example: touchstone devnet --port 8545",
)
@click.version_option(package_name="touchstone", message="touchstone %(version)s")
def cli() -> None:
    """Strangers train one model together; cheats are caught, convicted on chain and slashed."""


for command in (
    demo, devnet, init, stake, leave, withdraw, data, task, shares, calibrate, policy, solve, verify, watch,
    replay, status, top, explorer, doctor, completion, export, evaluate, sample,
    show_help, version, tasks, keys,
):  # fmt: skip
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status (`ExitCode`)."""
    _hear_signals()
    typed = None if arguments is None else list(arguments)
    try:
        return int(cli.main(typed, prog_name="touchstone", standalone_mode=False) or ExitCode.DONE)
    except NoArgsIsHelpError as error:
        is_root = error.ctx.parent is None
        print(error.format_message(), file=sys.stdout if is_root else sys.stderr)
        return ExitCode.DONE if is_root else ExitCode.REFUSED
    except click.UsageError as error:
        print_usage_error(error)
        return ExitCode.REFUSED
    except click.Abort:
        print(STOPPED.what, file=sys.stderr)
        return ExitCode.INTERRUPTED


def _hear_signals() -> None:
    """Makes SIGTERM end the process as Ctrl-C does: children are stopped and files closed. A script's shell
    lets a background command ignore SIGINT. It still does, but asyncio must know how to be interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Treats SIGTERM as SIGINT, even if SIGINT is blocked. asyncio handles it between two callbacks, so
    nothing is left half done and nothing is printed."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


if __name__ == "__main__":
    sys.exit(main())
