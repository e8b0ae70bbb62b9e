"""The commands about datasets."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.scripts.command_line.command_run import Group
from touchstone.scripts.command_line.option_types import FILE_OR_FOLDER, NUMBER, PATH, Number

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.model_documents import DataPackDocument

KINDS = ("text", "jsonl", "parquet")


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
    help="files of texts (.txt, .md, .rst), .jsonl, .parquet, also as .gz, .bz2 or .xz; folders of them",
)
@click.option("--out", type=PATH, required=True, help="folder to make")
@click.option(
    "--as",
    "read_as",
    type=click.Choice(KINDS),
    help="what all inputs are, whatever their names; left out: each name says it",
)
@click.option("--field", default="text", help="field of a line of JSONL that is the text")
@click.option("--column", default="text", help="column of Parquet that is the text")
@click.option(
    "--tokenizer",
    type=FILE_OR_FOLDER,
    help="tokenizer.json of Hugging Face, or a folder with it; left out: bytes are tokens",
)
@click.option(
    "--begin-of-text",
    default="",
    show_default=False,
    help="token that is put before each document; left out: none",
)
@click.option(
    "--end-of-text",
    default="",
    show_default=False,
    help="token that is put behind each document; left out: none",
)
@click.option(
    "--heldout",
    type=Number(0, 1, float),
    help="share of the tokens that only measure; left out: 0.01, raised to 102,400 tokens, at most a tenth",
)
@click.option("--skip-bad", type=NUMBER, default=0, help="the most bad documents that are skipped")
@click.option("--lossy", "is_lossy", is_flag=True, help="pack though the tokenizer loses text")
def pack(
    inputs: tuple[Path, ...],
    out: Path,
    read_as: str | None,
    field: str,
    column: str,
    tokenizer: Path | None,
    begin_of_text: str,
    end_of_text: str,
    heldout: float | None,
    skip_bad: int,
    is_lossy: bool,
) -> "DataPackDocument":
    """Turn text files, JSONL or Parquet into a folder with the tokens of a task."""
    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.data.data_pack import PackPlan, pack_and_report
    from touchstone.scripts.data.documents import Fields
    from touchstone.scripts.data.file_kinds import Kind
    from touchstone.scripts.data.pack_report import make_document, notify_report

    kind = None if read_as is None else Kind(read_as)
    plan = PackPlan(
        inputs,
        out,
        Fields(field, column),
        tokenizer,
        end_of_text,
        heldout,
        read_as=kind,
        skip_bad=skip_bad,
        begin_of_text=begin_of_text,
        is_lossy=is_lossy,
    )
    console = Console()
    report = pack_and_report(plan, console.notify)
    notify_report(report, out, console)
    return make_document(report, out)
