"""The commands that show tasks: what an operator has in them, and what they offer."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import PATH
from touchstone.scripts.command_line.shared_options import (
    DEFAULT_HOME,
    TASK_HELP,
    with_deployment,
    with_home,
    with_rpc_url,
)

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.offer_documents import TasksDocument
    from touchstone.scripts.documents.overview_documents import StatusDocument, TopDocument


@click.command("status", cls=Command, example="touchstone status --home ~/alice")
@click.argument("task", metavar="[TASK]", required=False, help=f"{TASK_HELP}; left out: all tasks")
@with_home
def status(task: str | None, home: Path) -> "StatusDocument":
    """Show tasks and rounds, seats and credit, and what can be taken out when; or one task in detail."""
    from touchstone.scripts.status.status_report import report_status

    return report_status(home, task)


@click.command("top", cls=Command, example="touchstone top --home ~/alice")
@with_home
def top(home: Path) -> "TopDocument":
    """Watch a node: what it owes next, its money, its peers, how far it has read the chain."""
    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.status.node_view import watch_node

    return watch_node(home, Console())


@click.command("tasks", cls=Command, example="touchstone tasks --deployment deployments/31337.json")
@click.option(
    "--home",
    type=PATH,
    envvar="TOUCHSTONE_HOME",
    show_envvar=True,
    help=f"home whose chain is asked; left out: {DEFAULT_HOME}, unless --rpc-url or --deployment is given "
    "or there is none",
)
@with_rpc_url
@with_deployment
@click.pass_context
def tasks(context: click.Context, home: Path | None, rpc_url: str, deployment: Path) -> "TasksDocument":
    """List the tasks of a deployment: what a seat earns, locks and needs, and how many are free."""
    from touchstone.scripts.command_line.typed_input import read_path
    from touchstone.scripts.home.home_files import is_whole
    from touchstone.scripts.status.offer_tables import report_tasks

    def is_typed(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    is_place_typed = is_typed("rpc_url") or is_typed("deployment")
    if is_place_typed and is_typed("home"):
        raise click.UsageError("Give --home, or --rpc-url and --deployment: a home has both.", context)
    if home is None and is_whole(read_path(DEFAULT_HOME)):
        home = read_path(DEFAULT_HOME)
    return report_tasks(None if is_place_typed else home, rpc_url, deployment)
