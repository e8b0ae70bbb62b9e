"""The command that shows the whole product in one run."""

from typing import TYPE_CHECKING, Any

import click

from touchstone.demo.choices import COUNTS, FAULTS, FORMATS, Choices
from touchstone.scripts.command_line.command_results import FaultFound
from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import NUMBER, PATH, Number
from touchstone.scripts.toolchain import anvil_path

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.home_documents import DemoDocument

ABOUT = {
    "rounds": "rounds of the task",
    "solvers": "honest solvers",
    "verifiers": "verifiers",
    "whistleblowers": "whistleblowers, who audit late if there are three",
}
MOST = 1_000


def make_count(name: str) -> click.Option:
    """Returns the option of a count of `COUNTS`."""
    usual, quick, least = COUNTS[name]
    about = f"{ABOUT[name]}: {usual}, with --quick {quick}; {least} or more"
    return click.Option([f"--{name}"], type=Number(least, MOST), help=about)


@click.command(
    "demo", cls=Command, example="touchstone demo --quick", params=[make_count(name) for name in COUNTS]
)
@click.option("--quick", "is_quick", is_flag=True, help="two rounds of a tiny model, fewer parties")
@click.option(
    "--cheats",
    type=click.Choice(("one", "none")),
    default="one",
    help="one solver that errs on purpose, or honest parties only",
)
@click.option(
    "--fault",
    type=click.Choice(FAULTS),
    metavar="OPERATION",
    default=FAULTS[0],
    help=f"operation in which the cheat errs: {', '.join(FAULTS)}",
)
@click.option(
    "--format",
    "numeric_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    help="exact: the same bits on every processor",
)
@click.option(
    "--explorer",
    "has_explorer",
    is_flag=True,
    help="open a web page of the run in the browser; it stays until Ctrl-C",
)
@click.option("--seed", type=NUMBER, default=1, help="seed of the untrained model")
@click.option(
    "--out",
    type=PATH,
    help="folder for report, logs and model; left out: build/demo of a checkout, else in the working folder",
)
@click.option("--verbose", "is_verbose", is_flag=True, help="show every line; demo.log has them too")
def demo(cheats: str, **chosen: Any) -> "DemoDocument | FaultFound":
    """Train a small model over a local chain: a cheat is convicted to one number, all others are paid. Exit
    status 1 if anything is wrong; a slow machine is not."""
    import asyncio

    from touchstone.demo.screen import Screen
    from touchstone.scripts.documents.home_documents import DemoDocument

    # Without it nothing can run: say so before PyTorch is loaded.
    anvil_path()
    choices = Choices(has_cheat=cheats == "one", **chosen)
    screen = Screen(is_verbose=choices.is_verbose)
    screen.expect("PyTorch to load, and a training step to be recorded", 0.0)
    with screen.open():
        from touchstone.demo.run import demonstrate
        from touchstone.demo.settings import make_setting

        setting = make_setting(choices)
        is_good = asyncio.run(demonstrate(setting, screen))
    found = DemoDocument(is_good, str(setting.folders.report), str(setting.folders.page))
    return found if is_good else FaultFound(found)
