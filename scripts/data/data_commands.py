"""The commands about datasets."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_run import Group
from touchstone.scripts.command_line.option_types import FILE_OR_FOLDER, PATH, Number

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.model_documents import DataPackDocument


@click.group("data", cls=Group)
def data() -> None:
    """Pack texts for a task."""


@data.command(
    "pack",
    example="touchstone data pack texts.jsonl --tokenizer tokenizer.json --end-of-text '</s>' --out corpus",
)
@click.argument(
    "inputs",
    type=FILE_OR_FOLDER,
    nargs=-1,
    required=True,
    metavar="INPUTS...",
    help="text files, *.jsonl, *.parquet, and folders of them",
)
@click.option("--out", type=PATH, required=True, help="folder to make")
@click.option("--field", default="text", help="field of a line of JSONL that is the text")
@click.option("--column", default="text", help="column of Parquet that is the text")
@click.option(
    "--tokenizer",
    type=FILE_OR_FOLDER,
    help="tokenizer.json of Hugging Face, or a folder with it; left out: bytes are tokens",
)
@click.option(
    "--end-of-text",
    default="",
    show_default=False,
    help="token that is put behind each document; left out: none",
)
@click.option(
    "--heldout", type=Number(0, 1, float), default=0.01, help="share of the tokens that only measure"
)
def pack(
    inputs: tuple[Path, ...],
    out: Path,
    field: str,
    column: str,
    tokenizer: Path | None,
    end_of_text: str,
    heldout: float,
) -> "DataPackDocument":
    """Turn text files, JSONL or Parquet into a folder with the tokens of a task."""
    from touchstone.scripts.data.data_pack import PackPlan, pack_told
    from touchstone.scripts.data.documents import Fields

    return pack_told(PackPlan(inputs, out, Fields(field, column), tokenizer, end_of_text, heldout))
