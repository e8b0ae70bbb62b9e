"""Options that many commands share, as decorators of a command."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from touchstone.scripts.command_line.log_lines import FORMATS, LEVELS
from touchstone.scripts.command_line.option_types import FILE, PATH, URL

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_HOME = "~/.touchstone"
HOME_HELP = "folder of key, certificate, journal and blobs"
TASK_HELP = "id of a task, or the first digits of it, as `touchstone status` shows it"
PRESETS = click.Choice(("12s", "2s", "local"))
"""The presets of limits, by the chain's block time."""

with_home = click.option(
    "--home",
    type=PATH,
    envvar="TOUCHSTONE_HOME",
    show_envvar=True,
    default=DEFAULT_HOME,
    help=HOME_HELP,
)
with_password = click.option("--password-file", type=FILE, help="file with the password of the keystore")
with_task = click.argument("task", metavar="TASK", help=TASK_HELP)
with_yes = click.option("--yes", "is_agreed", is_flag=True, help="do it without asking")
with_rpc_url = click.option(
    "--rpc-url", type=URL, default="http://127.0.0.1:8545", help="JSON-RPC endpoint of the chain"
)
with_deployment = click.option(
    "--deployment", type=FILE, default="deployments/31337.json", help="file with the contracts' addresses"
)


def with_unlocked_home(function: Function) -> Function:
    """Adds the home and the password of its key."""
    return with_home(with_password(function))


def with_logs(function: Function) -> Function:
    """Adds the log options of a command that runs for long. `Command` opens the log; the function does not
    get the options."""
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        help="least weight of a line to be shown and written; left out: info, and from libraries warning",
    )
    file = click.option("--log-file", type=PATH, help="file to which each line is written as well")
    form = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        help="how a line is shown and written: text, or json for one JSON object",
    )
    return level(file(form(function)))
