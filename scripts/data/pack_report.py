"""Tells what was packed: the files, the documents, the tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from touchstone.scripts.command_line.console import Console
from touchstone.scripts.data.bad_documents import BadDocuments
from touchstone.scripts.data.packed_dataset import DatasetNote
from touchstone.scripts.data.text_loss import Tally
from touchstone.scripts.documents.model_documents import (
    DataPackDocument,
    LeftOutDocument,
    PackedFileDocument,
)

SHOWN_FILES = 20
"""The most files that are shown; the document has all of them."""
SHOWN_BAD = 5
"""The most skipped documents that are shown."""


@dataclass(frozen=True)
class PackedFile:
    """A file that was read, with what the dataset has of it."""

    path: Path
    documents: int
    tokens: int


@dataclass(frozen=True)
class PackReport:
    """The note of a dataset, the files that were read, and those of folders that were left out, with the
    reason. `bad` has the documents that were skipped, `notices` what was told before the texts were read, and
    `loss` how much of a sample the tokenizer loses."""

    note: DatasetNote
    files: Sequence[PackedFile]
    left_out: Sequence[tuple[Path, str]]
    bad: BadDocuments
    notices: Sequence[str]
    loss: Tally


def notify_report(report: PackReport, out: Path, console: Console) -> None:
    """Prints what was packed to the folder `out`."""
    for line in _describe(report, out):
        console.notify(line)


def _describe(report: PackReport, out: Path) -> Iterator[str]:
    for file in report.files[:SHOWN_FILES]:
        yield f"read {file.path}: {_count(file.documents, 'document')}, {_count(file.tokens, 'token')}"
    if len(report.files) > SHOWN_FILES:
        yield f"read {_count(len(report.files) - SHOWN_FILES, 'more file')}; --json lists them"
    for path, reason in report.left_out[:SHOWN_FILES]:
        yield f"left out: {path} ({reason})"
    if len(report.left_out) > SHOWN_FILES:
        yield f"left out: {_count(len(report.left_out) - SHOWN_FILES, 'more file')}; --json lists them"
    if report.bad.count:
        first = "; ".join(f"{place} ({fault})" for place, fault in report.bad.first[:SHOWN_BAD])
        yield f"skipped {_count(report.bad.count, 'bad document')}: {first}" + "; ..." * (
            report.bad.count > SHOWN_BAD
        )
    loss = report.loss
    if loss.characters:
        yield (
            f"of {loss.characters:,} sampled characters {loss.lost_share:.2%} do not come back; "
            f"{loss.unknown_share:.2%} of their tokens are unknown"
        ).replace("%", " %")
    note = report.note
    yield (
        f"wrote {note.token_count:,} tokens to train on and {note.heldout_tokens:,} held out, of "
        f"{_count(note.documents, 'document')}, to {out}"
    )
    width = "one byte a token" if note.token_bytes == 1 else f"{note.token_bytes} bytes a token"
    yield f"vocabulary {note.vocabulary_size:,}, {width}, root {note.root}"
    yield f'Next: dataset = "{out}" in a task file; `touchstone task init` writes one'


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def make_document(report: PackReport, out: Path) -> DataPackDocument:
    """Returns the result as a document."""
    names = ("token_count", "heldout_tokens", "documents", "vocabulary_size", "token_bytes", "root")
    facts = {name: getattr(report.note, name) for name in names}
    files = [PackedFileDocument(str(one.path), one.documents, one.tokens) for one in report.files]
    left_out = [LeftOutDocument(str(path), reason) for path, reason in report.left_out]
    bad = [LeftOutDocument(place, fault) for place, fault in report.bad.first]
    return msgspec.convert(
        {
            "folder": str(out),
            **facts,
            "files": files,
            "left_out": left_out,
            "bad_documents": report.bad.count,
            "first_bad": bad,
            "notices": report.notices,
            "sampled_characters": report.loss.characters,
            "lost_share": report.loss.lost_share,
            "unknown_share": report.loss.unknown_share,
        },
        DataPackDocument,
    )
