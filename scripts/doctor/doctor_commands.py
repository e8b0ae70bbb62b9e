"""The command that examines a home."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_results import FaultFound
from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.shared_options import TASK_HELP, with_unlocked_home

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.home_documents import DoctorDocument


@click.command("doctor", cls=Command, example="touchstone doctor 0x3fa9 --home ~/alice")
@click.argument("task", metavar="[TASK]", required=False, help=f"{TASK_HELP}; left out: what needs no task")
@with_unlocked_home
def doctor(task: str | None, home: Path, password_file: Path | None) -> "DoctorDocument | FaultFound":
    """Look for what is wrong with a home, its machine, its chain and its seats; status 1 if anything is."""
    from touchstone.scripts.doctor.examination import examine_home

    return examine_home(home, task, password_file)
