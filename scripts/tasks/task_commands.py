"""The commands about tasks: to write, check, record, post, halt and close one."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from touchstone.protocol.spec.params import FORMAT_ALIASES, OFFERED_FORMATS
from touchstone.protocol.spec.program import CHUNK_TERMS
from touchstone.scripts.command_line.command_results import JsonOutput
from touchstone.scripts.command_line.command_run import Group
from touchstone.scripts.command_line.option_types import COUNT, FILE, FILE_OR_FOLDER, FOLDER, NUMBER, PATH
from touchstone.scripts.command_line.shared_options import (
    PRESETS,
    with_logs,
    with_task,
    with_unlocked_home,
    with_yes,
)

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.posting_documents import (
        HaltDocument,
        TaskCheckDocument,
        TaskCloseDocument,
        TaskExampleDocument,
        TaskInitDocument,
        TaskRecordDocument,
    )


@click.group("task", cls=Group)
def task() -> None:
    """Write, check, post, serve, halt and close a task."""


@task.command(
    "init", example="touchstone task init --dataset corpus --size small --rounds 4 --pay 10 --preset local"
)
@click.option("--dataset", help="folder of `touchstone data pack`, or a raw file of one byte a token")
@click.option("--size", help="tiny, small, medium or large; small if not said")
@click.option(
    "--step",
    type=FOLDER,
    metavar="FOLDER",
    help="folder of a recorded step (touchstone task record), instead of --size",
)
@click.option("--rounds", help="number of rounds; 4 if not said")
@click.option("--pay", help="pay of a solver's round, in whole tokens; 10 if not said")
@click.option("--preset", help="block time of the chain: 12s, 2s or local; local if not said")
@click.option("--out", type=PATH, default="task.toml", help="file to write")
def init_task(out: Path, step: Path | None, **given: str | None) -> "TaskInitDocument":
    """Write a commented task file from a few answers; each question has an option."""
    from touchstone.scripts.tasks.task_init import ask_task

    return ask_task(out, given, step)


@task.command("check", example="touchstone task check --config task.toml")
@click.option("--config", type=FILE, required=True, help="task file (TOML)")
@click.option(
    "--preset",
    type=PRESETS,
    help="preset of the chain that the task is for; left out: the one in the file",
)
@click.option("--no-trial", is_flag=True, help="train no steps to try the learning rate")
def check(config: Path, preset: str | None, no_trial: bool) -> "TaskCheckDocument":
    """Say whether a task file can be posted, why its amounts are what they are, and whether its learning rate
    diverges."""
    from touchstone.scripts.tasks.task_check import check_task

    return check_task(config, preset, is_tried=not no_trial)


@task.command("create", example="touchstone task create --config task.toml --home ~/submitter")
@click.option(
    "--config",
    type=FILE,
    required=True,
    help="task file (TOML): dataset, model, schedule, windows, amounts",
)
@with_yes
@with_logs
@with_unlocked_home
@click.pass_obj
def create(output: JsonOutput, config: Path, is_agreed: bool, home: Path, password_file: Path | None) -> None:
    """Post a task with its escrow and serve its dataset until it is closed."""
    import asyncio

    from touchstone.scripts.home.home_lock import require_free_home

    require_free_home(home)  # Check before PyTorch is loaded.
    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.home.home_config import read_config
    from touchstone.scripts.home.node_config import choose_boards, open_config
    from touchstone.scripts.tasks.task_creation import create_task
    from touchstone.scripts.tasks.task_file import read_task_file

    file, console = read_task_file(config), Console()
    boards = choose_boards(read_config(home))
    opened = replace(open_config(home, password_file, console), **boards)
    asyncio.run(create_task(opened, file, console, is_agreed=is_agreed, put=output.put))


@task.command("serve", example="touchstone task serve 0x3fa9 --home ~/submitter")
@with_task
@with_logs
@with_unlocked_home
@click.pass_obj
def serve(output: JsonOutput, task: str, home: Path, password_file: Path | None) -> None:
    """Serve an own task again, after its node was stopped."""
    import asyncio

    from touchstone.scripts.home.home_lock import require_free_home

    require_free_home(home)  # Check before PyTorch is loaded.
    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.home.home_config import read_config
    from touchstone.scripts.home.node_config import choose_boards, open_config
    from touchstone.scripts.tasks.task_serving import serve_task

    console, boards = Console(), choose_boards(read_config(home))
    opened = replace(open_config(home, password_file, console), **boards)
    asyncio.run(serve_task(opened, task, console, put=output.put))


@task.command("example", example="touchstone task example --out example")
@click.option("--out", type=PATH, default="example", help="folder for task.toml and corpus.bin")
def example(out: Path) -> "TaskExampleDocument":
    """Write a task file to begin with, and a small corpus for it."""
    from touchstone.scripts.tasks.task_example import write_example

    return write_example(out)


@task.command(
    "record",
    example="touchstone task record folder --out build/step --weights --sequences 8 --tokens 512 "
    "--format exact",
)
@click.argument("model", type=FILE_OR_FOLDER, metavar="MODEL", help="folder of a model, or its config.json")
@click.option("--out", type=PATH, required=True, help="folder to write")
@click.option("--weights", is_flag=True, help="begin with the weights of the folder")
@click.option("--seed", type=NUMBER, default=0, help="seed of new weights")
@click.option("--sequences", type=COUNT, default=8, help="rows in a step")
@click.option("--tokens", type=COUNT, default=128, help="tokens in a row")
@click.option(
    "--format",
    "numeric_format",
    type=click.Choice((*OFFERED_FORMATS, *FORMAT_ALIASES)),
    default="exact",
    help="numeric format",
)
@click.option(
    "--chunk-terms",
    type=click.Choice([str(one) for one in CHUNK_TERMS]),
    default="512",
    help="longest sum in one operation, in terms",
)
@click.option(
    "--optimizer",
    type=click.Choice(("adamw", "sgd", "lion", "muon")),
    default="adamw",
    help="optimizer of the inner steps",
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="NAME",
    help="name, or pattern of names, of parameters that stay as they are (may be repeated)",
)
@click.option("--lora", type=COUNT, metavar="RANK", help="train adapters of this rank alone (LoRA)")
@click.option("--lora-alpha", type=COUNT, help="alpha of the adapters (default: twice the rank)")
@click.option(
    "--lora-targets",
    default="",
    show_default=False,
    metavar="NAMES",
    help="layers with adapters, as q_proj,v_proj; left out: all linear layers but the last",
)
def record(**options: Any) -> "TaskRecordDocument":
    """Record a training step of a model of Hugging Face, for a task file to name."""
    from touchstone.scripts.tasks.recording import RecordedChoice, record_model

    return record_model(RecordedChoice(**options))


@task.command("close", example="touchstone task close 0x3fa9 --home ~/submitter")
@with_task
@with_unlocked_home
def close(task: str, home: Path, password_file: Path | None) -> "TaskCloseDocument":
    """Pay out all seats of a task that is over, and close it; the rest of its escrow becomes credit."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.tasks.task_ending import close_task

    return run_with_chain(home, password_file, lambda chain, console: close_task(chain, task, console))


@task.command("halt", example="touchstone task halt 0x3fa9 --home ~/submitter")
@with_task
@with_yes
@with_unlocked_home
def halt(task: str, is_agreed: bool, home: Path, password_file: Path | None) -> "HaltDocument":
    """End an own task: the round that runs is finished, none follows."""
    from touchstone.scripts.account.sending import run_with_chain
    from touchstone.scripts.tasks.task_ending import halt_task

    return run_with_chain(
        home,
        password_file,
        lambda chain, console: halt_task(chain, task, console, is_agreed=is_agreed),
    )
