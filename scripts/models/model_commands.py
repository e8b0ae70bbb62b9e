"""The commands about models: to export, measure and sample one, and to replay a part of its training."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_results import FaultFound
from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import (
    COUNT,
    FILE,
    FILE_OR_FOLDER,
    FOLDER,
    NUMBER,
    PATH,
    Number,
)
from touchstone.scripts.command_line.shared_options import with_task, with_unlocked_home

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.model_documents import (
        EvalDocument,
        ExportDocument,
        ReplayDocument,
        SampleDocument,
    )


@click.command("eval", cls=Command, example="touchstone eval build/model --dataset corpus")
@click.argument(
    "model",
    metavar="MODEL",
    help="folder of an exported model or of one of Hugging Face; or the id of a task, for its newest",
)
@click.option("--dataset", type=FILE_OR_FOLDER, help="packed folder whose held-out tokens measure")
@click.option("--text", type=FILE, help="text file that measures instead")
@click.option("--tokens", type=COUNT, default=100_000, help="tokens to measure on, at most")
@click.option(
    "--step", type=FOLDER, help="folder of the recorded step, for the export of a module of one's own"
)
@with_unlocked_home
def evaluate(
    model: str,
    dataset: Path | None,
    text: Path | None,
    tokens: int,
    step: Path | None,
    home: Path,
    password_file: Path | None,
) -> "EvalDocument":
    """Measure a model: loss and perplexity on held-out tokens or on a text."""
    from touchstone.scripts.models.model_measuring import MeasureChoice, measure_model

    return measure_model(MeasureChoice(model, tokens, dataset, text, step), home, password_file)


@click.command(
    "sample",
    cls=Command,
    example="touchstone sample build/model --prompt Once --tokens 100 --temperature 0.8 --top-k 40",
)
@click.argument(
    "model", type=FOLDER, metavar="FOLDER", help="folder of an exported model, or of one of Hugging Face"
)
@click.option("--prompt", required=True, help="text that the model continues")
@click.option("--tokens", type=COUNT, default=100, help="tokens to write")
@click.option(
    "--temperature", type=Number(0, 1000, float), default=1.0, help="0 always takes the likeliest token"
)
@click.option("--top-k", type=NUMBER, default=0, help="draw among this many likeliest tokens; 0: among all")
@click.option("--seed", type=NUMBER, default=0, help="the same seed writes the same text")
def sample(
    model: Path, prompt: str, tokens: int, temperature: float, top_k: int, seed: int
) -> "SampleDocument":
    """Let a model continue a text."""
    from touchstone.node.exports.model_use import Taste
    from touchstone.scripts.models.sampling import sample_text

    return sample_text(model, prompt, tokens, Taste(temperature, top_k, seed))


@click.command("replay", cls=Command, example="touchstone replay 0x3fa9 3 0 2 --home ~/alice")
@with_task
@click.argument("round", type=NUMBER, metavar="ROUND", help="number of the round")
@click.argument("solver", metavar="SOLVER", help="slot of the claim, or its solver's account")
@click.argument("segment", type=NUMBER, metavar="SEGMENT", help="number of the segment, from 0")
@with_unlocked_home
def replay(
    task: str, round: int, solver: str, segment: int, home: Path, password_file: Path | None
) -> "ReplayDocument | FaultFound":
    """Audit one segment of a claim without a seat; status 1 if its end lies beyond the limits."""
    import asyncio

    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.home.node_config import open_config
    from touchstone.scripts.models.segment_replay import is_accepted, replay_segment

    console = Console()
    config = open_config(home, password_file, console)
    found = asyncio.run(replay_segment(config, task, round, solver, segment, console))
    return found if is_accepted(found) else FaultFound(found)


@click.command("export", cls=Command, example="touchstone export 0x3fa9 --out build/model --home ~/alice")
@with_task
@click.option("--out", type=PATH, required=True, help="folder to write")
@click.option("--tokenizer", type=FILE_OR_FOLDER, help="the task's tokenizer.json, or a folder with it")
@with_unlocked_home
def export(
    task: str, out: Path, tokenizer: Path | None, home: Path, password_file: Path | None
) -> "ExportDocument":
    """Write the trained model as a folder that transformers loads."""
    import asyncio

    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.home.node_config import open_config
    from touchstone.scripts.models.model_export import export_model

    return asyncio.run(export_model(open_config(home, password_file, Console()), task, out, tokenizer))
