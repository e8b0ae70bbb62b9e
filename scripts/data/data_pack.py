"""`touchstone data pack`: packs texts into a folder with the tokens of a task (`packed_dataset.py`).

Documents stream: memory holds one batch of them. A hash of each batch's number decides if it is held out or
trained on, so both parts are of the same kind. The folder appears whole, by one rename, or not at all.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from touchstone.node.exports.model_note import TOKENIZER_NAME
from touchstone.protocol.adapters.files.durable_files import sync
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import GrowingRoot, hash_leaf
from touchstone.protocol.spec.params import LEAF_BYTES
from touchstone.protocol.spec.task_spec import count_token_bytes
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.data.documents import Fields, Piece, read_pieces
from touchstone.scripts.data.file_kinds import Kind
from touchstone.scripts.data.input_files import list_inputs
from touchstone.scripts.data.packed_dataset import FORMAT, NOTE_NAME, TOKENS_NAME, DatasetNote
from touchstone.scripts.data.tokenizing import ByteTokens, FileTokens, Tokens, read_tokenizer
from touchstone.scripts.documents.model_documents import DataPackDocument

BATCH_PIECES = 512
BATCH_CHARACTERS = 1 << 20
"""A batch ends with the piece that brings it to this many characters; it never has more pieces than this."""
COPY_BYTES = 1 << 20
HELDOUT_TAG = b"touchstone.heldout"
MOST_HELDOUT = 0.5
HELDOUT_NAME = "heldout.bin"
SHOWN, SHOWN_CHARACTERS = 5, 40
"""The most names that an error shows, and the most characters of each."""


@dataclass(frozen=True)
class PackPlan:
    """What to pack and how. `tokenizer` is a tokenizer.json, None if bytes are tokens. `end_of_text` is the
    name of the token after each document, empty for none. `heldout` is the share of the tokens that is held
    out. `read_as` is the kind of all inputs; if it is None, each file's name says it."""

    inputs: Sequence[Path]
    out: Path
    fields: Fields = field(default_factory=Fields)
    tokenizer: Path | None = None
    end_of_text: str = ""
    heldout: float = 0.01
    read_as: Kind | None = None


def pack_told(plan: PackPlan) -> DataPackDocument:
    """Packs a dataset, and tells the operator the result."""
    note, console = pack(plan), Console()
    console.notify(
        f"wrote {note.token_count:,} tokens to train on and {note.heldout_tokens:,} held out, of "
        f"{note.documents:,} documents, to {plan.out}"
    )
    console.notify(
        f"vocabulary {note.vocabulary_size:,}, {_format_width(note.token_bytes)}, root {note.root}"
    )
    console.notify(f'Next: dataset = "{plan.out}" in a task file; `touchstone task init` writes one')
    names = ("token_count", "heldout_tokens", "documents", "vocabulary_size", "token_bytes", "root")
    facts = {name: getattr(note, name) for name in names}
    return msgspec.convert({"folder": str(plan.out), **facts}, DataPackDocument)


def _format_width(token_bytes: int) -> str:
    return "one byte a token" if token_bytes == 1 else f"{token_bytes} bytes a token"


def pack(plan: PackPlan) -> DatasetNote:
    """Writes the folder; returns its dataset.json. Raises InvalidInput for an unsuitable input, tokenizer or
    option, and if `out` exists already; then nothing is left behind."""
    if plan.out.exists():
        remedy = "Choose another --out, or delete what is there."
        raise _refuse_input(
            "the dataset would replace something", "a new folder", str(plan.out), "--out", remedy
        )
    if not 0 < plan.heldout <= MOST_HELDOUT:
        expected = f"above 0 and at most {MOST_HELDOUT}"
        raise _refuse_input("not a share to hold out", expected, str(plan.heldout), "--heldout")
    files, tokenizer, copy = list_inputs(plan.inputs, plan.read_as), None, b""
    if plan.tokenizer is not None:
        tokenizer, copy = read_tokenizer(plan.tokenizer)
    tail = _find_end(tokenizer, plan.end_of_text)
    with _make_aside(plan.out) as folder:
        packer = _Packer(folder, tokenizer or ByteTokens(), tail, plan.heldout)
        for file in files:
            packer.take(read_pieces(file, plan.fields))
        packer.finish()
        note = DatasetNote(
            format=FORMAT,
            vocabulary_size=packer.tokens.vocabulary_size,
            token_bytes=packer.token_bytes,
            token_count=packer.trained,
            heldout_tokens=packer.held,
            root=compute_file_root(folder / TOKENS_NAME).hex(),
            tokenizer_sha256="" if tokenizer is None else tokenizer.sha256,
            end_of_text=plan.end_of_text,
            documents=packer.documents,
            sources=[(file.path.name, file.path.stat().st_size) for file in files],
            field=plan.fields.field,
            column=plan.fields.column,
            heldout=plan.heldout,
            made_with=f"touchstone {version('touchstone')}",
        )
        if copy:
            (folder / TOKENIZER_NAME).write_bytes(copy)
        (folder / NOTE_NAME).write_bytes(msgspec.json.format(msgspec.json.encode(note)) + b"\n")
    return note


def _find_end(tokenizer: FileTokens | None, name: str) -> tuple[int, ...]:
    """Returns the token after each document, if there is one."""
    if not name:
        return ()
    found = None if tokenizer is None else tokenizer.find(name)
    if found is None:
        raise _refuse_input(
            "no token to end a document with",
            _name_special(tokenizer) if tokenizer else "no such option, because tokens are bytes here",
            f"{name!r}: no such token",
            "--end-of-text",
        )
    return (found,)


def _name_special(tokenizer: FileTokens) -> str:
    """Returns the tokenizer's first special tokens, for an error."""
    names = [repr(name[:SHOWN_CHARACTERS]) for name in tokenizer.list_special()]
    shown = ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
    return f"the name of a token; special ones are {shown or 'none'}"


@contextmanager
def _make_aside(out: Path) -> Iterator[Path]:
    """Makes a folder beside `out` that gets this name at the end of the `with` block, with all files on disk.
    It is removed if the block raises."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        yield folder
        for path in folder.iterdir():
            sync(path)
        folder.chmod(0o755)
        folder.rename(out)
        sync(out.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def compute_file_root(path: Path) -> bytes:
    """Returns the root of the tree over a file of at least one byte, read leaf by leaf."""
    growing = GrowingRoot()
    with path.open("rb") as file:
        while leaf := file.read(LEAF_BYTES):
            growing.add(hash_leaf(leaf.ljust(LEAF_BYTES, b"\0")))
    return growing.finish()


class _Packer:
    """Writes tokens to two files and joins them at the end."""

    def __init__(self, folder: Path, tokens: Tokens, tail: Sequence[int], heldout: float) -> None:
        self.tokens, self.token_bytes = tokens, count_token_bytes(tokens.vocabulary_size)
        self.trained = self.held = self.documents = 0
        self._folder, self._tail, self._share = folder, np.array(tail, self._type), heldout
        self._batches = 0
        self._files: tuple[BinaryIO, BinaryIO] = (
            (folder / TOKENS_NAME).open("wb"),
            (folder / HELDOUT_NAME).open("wb"),
        )

    @property
    def _type(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self.token_bytes}")

    def take(self, pieces: Iterable[Piece]) -> None:
        """Takes all documents of a file."""
        batch: list[Piece] = []
        size = 0
        for piece in pieces:
            batch.append(piece)
            size += len(piece.text)
            if len(batch) >= BATCH_PIECES or size >= BATCH_CHARACTERS:
                self._write(batch)
                batch, size = [], 0
        if batch:
            self._write(batch)

    def _write(self, batch: Sequence[Piece]) -> None:
        for piece, tokens in zip(batch, self.tokens.encode([one.text for one in batch]), strict=True):
            is_held = self._is_held(self._batches)
            found = (
                np.frombuffer(tokens, self._type)
                if isinstance(tokens, bytes)
                else np.array(tokens, self._type)
            )
            parts = [found, self._tail] if piece.is_last else [found]
            self._files[is_held].write(b"".join(part.tobytes() for part in parts))
            count = sum(len(part) for part in parts)
            self.held, self.trained = self.held + count * is_held, self.trained + count * (not is_held)
            self.documents += piece.is_last
            self._batches += 1

    def _is_held(self, number: int) -> bool:
        draw = sha256(HELDOUT_TAG + number.to_bytes(8, "big")).digest()
        return int.from_bytes(draw[:8], "big") < self._share * 2**64

    def finish(self) -> None:
        """Puts the held-out tokens after the others. If no batch was held out, or all were, holds out the
        last tokens."""
        train, held = self._files
        held.close()
        with (self._folder / HELDOUT_NAME).open("rb") as source:
            shutil.copyfileobj(source, train, COPY_BYTES)
        train.close()
        (self._folder / HELDOUT_NAME).unlink()
        total = self.trained + self.held
        if total < 2:
            raise _refuse_input("the inputs hold no tokens", "two or more", str(total), "the inputs")
        if not self.held or not self.trained:
            self.held = max(1, int(total * self._share))
            self.trained = total - self.held


def _refuse_input(
    what: str, expected: str, actual: str, where: str, remedy: str = "Correct it."
) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, where=where, remedy=remedy)
