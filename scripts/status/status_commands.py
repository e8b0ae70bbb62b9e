"""The command that shows tasks, seats and credit."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.shared_options import TASK_HELP, with_home

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.overview_documents import StatusDocument


@click.command("status", cls=Command, example="touchstone status --home ~/alice")
@click.argument("task", metavar="[TASK]", required=False, help=f"{TASK_HELP}; left out: all tasks")
@with_home
def status(task: str | None, home: Path) -> "StatusDocument":
    """Show tasks and rounds, seats and credit, and what can be taken out when; or one task in detail."""
    from touchstone.scripts.status.status_report import report_status

    return report_status(home, task)
