"""The commands that measure kernels, and make limits from the measurements."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import COUNT, FILE, NUMBER, PATH
from touchstone.scripts.command_line.shared_options import with_unlocked_home

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.model_documents import CalibrateDocument, PolicyDocument

DEFAULT_SEGMENTS = 48
"""More than the least of `protocol/spec/calibration_rules.py`."""


@click.command(
    "calibrate", cls=Command, example="touchstone calibrate task.toml --out profile.json --home ~/alice"
)
@click.argument("task", metavar="TASK", help="a task file (TOML), or the id of a posted task")
@click.option("--out", type=PATH, required=True, help="profile to write")
@click.option("--segments", type=COUNT, default=DEFAULT_SEGMENTS, help="start states to replay, at least")
@click.option("--rounds", type=NUMBER, default=0, help="rounds of the task to train; 0: all")
@with_unlocked_home
def calibrate(
    task: str, out: Path, segments: int, rounds: int, home: Path, password_file: Path | None
) -> "CalibrateDocument":
    """Measure how far this machine's kernels differ on a task, and sign the result."""
    from touchstone.scripts.calibration.task_calibration import calibrate_task

    return calibrate_task(task, out, (segments, rounds), home, password_file)


@click.command("policy", cls=Command, example="touchstone policy alice.json bob.json carol.json")
@click.argument(
    "profiles",
    type=FILE,
    nargs=-1,
    required=True,
    metavar="PROFILES...",
    help="files that `touchstone calibrate` wrote",
)
@click.option("--out", type=PATH, help="file to write the tables to as well")
def policy(profiles: tuple[Path, ...], out: Path | None) -> "PolicyDocument":
    """Merge signed profiles of several operators into the limits of a task."""
    from touchstone.scripts.calibration.limit_policy import write_policy

    return write_policy(profiles, out)
