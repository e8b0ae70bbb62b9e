"""`touchstone data pack`: packs texts into a folder with the tokens of a task (`packed_dataset.py`).

Documents stream: memory holds one batch of them. The folder appears whole, by one rename, or not at all.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from touchstone.node.exports.model_note import TOKENIZER_NAME
from touchstone.protocol.adapters.files.durable_files import sync
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import GrowingRoot, hash_leaf
from touchstone.protocol.spec.params import LEAF_BYTES
from touchstone.scripts.data.bad_documents import BadDocuments
from touchstone.scripts.data.document_borders import describe_template, find_borders
from touchstone.scripts.data.documents import Fields, read_documents
from touchstone.scripts.data.file_kinds import Kind
from touchstone.scripts.data.first_look import look_at_first
from touchstone.scripts.data.input_files import list_inputs
from touchstone.scripts.data.pack_report import PackedFile, PackReport
from touchstone.scripts.data.packed_dataset import FORMAT, NOTE_NAME, TOKENS_NAME, DatasetNote, format_note
from touchstone.scripts.data.packing import Packer
from touchstone.scripts.data.text_loss import TextLoss
from touchstone.scripts.data.tokenizing import ByteTokens, read_tokenizer

MOST_HELDOUT = 0.5


@dataclass(frozen=True)
class PackPlan:
    """What to pack and how. `tokenizer` is a tokenizer.json, None if bytes are tokens. `end_of_text` is the
    name of the token after each document, `begin_of_text` of the one before it; empty for none. `heldout` is
    the share of the tokens that is held out; if it is None, `heldout.py` says how many are. `read_as` is the
    kind of all inputs; if it is None, each file's name says it. At most `skip_bad` documents are skipped
    because they are bad. A tokenizer that loses text is refused unless it `is_lossy`."""

    inputs: Sequence[Path]
    out: Path
    fields: Fields = field(default_factory=Fields)
    tokenizer: Path | None = None
    end_of_text: str = ""
    heldout: float | None = None
    read_as: Kind | None = None
    skip_bad: int = 0
    begin_of_text: str = ""
    is_lossy: bool = False


def pack(plan: PackPlan) -> DatasetNote:
    """Does what `pack_and_report` does; returns the dataset.json."""
    return pack_and_report(plan).note


def pack_and_report(plan: PackPlan, notify: Callable[[str], object] = lambda notice: None) -> PackReport:
    """Writes the folder. `notify` takes what the operator should know before the texts are read. Raises
    InvalidInput for an unsuitable input, tokenizer or option, and if `out` exists already; then nothing is
    left behind."""
    _check_options(plan)
    inputs, tokenizer, copy = list_inputs(plan.inputs, plan.read_as), None, b""
    if plan.tokenizer is not None:
        tokenizer, copy = read_tokenizer(plan.tokenizer)
    borders = find_borders(tokenizer, plan.begin_of_text, plan.end_of_text)
    notices = describe_template(tokenizer, plan.begin_of_text, plan.end_of_text)
    for notice in notices:
        notify(notice)
    tokens = tokenizer or ByteTokens()
    bad, loss = BadDocuments(plan.skip_bad), TextLoss(tokens, is_lossy=plan.is_lossy)
    look_at_first(inputs.files, plan.fields, loss, BadDocuments(plan.skip_bad))
    with _make_aside(plan.out) as folder:
        packer = Packer(folder, tokens, borders, bad, loss)
        files: list[PackedFile] = []
        for file in inputs.files:
            taken = packer.take(file.path, read_documents(file, plan.fields))
            files.append(PackedFile(file.path, taken.documents, taken.tokens))
        loss.judge()
        trained, held = packer.finish(plan.heldout)
        note = DatasetNote(
            format=FORMAT,
            vocabulary_size=tokens.vocabulary_size,
            token_bytes=packer.token_bytes,
            token_count=trained,
            heldout_tokens=held,
            root=compute_file_root(folder / TOKENS_NAME).hex(),
            tokenizer_sha256="" if tokenizer is None else tokenizer.sha256,
            end_of_text=plan.end_of_text,
            begin_of_text=plan.begin_of_text,
            documents=packer.documents,
            sources=[(file.path.name, file.path.stat().st_size) for file in inputs.files],
            field=plan.fields.field,
            column=plan.fields.column,
            heldout=plan.heldout or held / (trained + held),
            made_with=f"touchstone {version('touchstone')}",
        )
        if copy:
            (folder / TOKENIZER_NAME).write_bytes(copy)
        (folder / NOTE_NAME).write_bytes(format_note(note))
    return PackReport(note, files, inputs.left_out, bad, notices, loss.total)


def _check_options(plan: PackPlan) -> None:
    if plan.out.exists():
        remedy = "Choose another --out, or delete what is there."
        raise _refuse_input(
            "the dataset would replace something", "a new folder", str(plan.out), "--out", remedy
        )
    if plan.heldout is not None and not 0 < plan.heldout <= MOST_HELDOUT:
        expected = f"above 0 and at most {MOST_HELDOUT}"
        raise _refuse_input("not a share to hold out", expected, str(plan.heldout), "--heldout")


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


def _refuse_input(
    what: str, expected: str, actual: str, where: str, remedy: str = "Correct it."
) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, where=where, remedy=remedy)
