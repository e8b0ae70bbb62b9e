"""A model's folder read back: shape, tokens, and weights as float32; a folder of Hugging Face too.

`touchstone.json` of an export has the shape as the task has it, so that no other file has to be understood. A
folder of Hugging Face without it is read by its `config.json`. Nothing of a folder is executed: JSON and
safetensors are data.

Weights from a Hugging Face folder, read as float32: `model.safetensors`, or shards with their index.

    headers --> names, shapes and types are the model's --> tensor after tensor into the flat vector

Names and shapes are those that an export has. Nothing is unpickled. A file is measured before it is opened, a
header before it is parsed, a tensor before memory is taken for it: a folder may come from anywhere.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from math import prod
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from protocol.actions.stored_tensors import keep_tree
from protocol.adapters.blobs import BlobKind
from protocol.adapters.store import BlobStore
from protocol.compute.audit.compare import UNSOUND_FROM
from protocol.compute.digest import build_tensor_tree
from protocol.compute.model.reference_model import (
    MAX_CONFIG_BYTES,
    SAFETENSORS_NAME,
    get_family,
    import_model,
    parameter_count,
    parameter_layout,
    split_parameters,
)
from protocol.compute.program.tensor_allocator import allocate, relax
from protocol.spec.containers import ModelConfig, TaskSpec
from protocol.spec.errors import InvalidInput

# --- Weights ------------------------------------------------------------------------------------------------
INDEX_NAME = "model.safetensors.index.json"
OUTPUT = "lm_head.weight"
"""The output matrix in every family. A tied model's file may have it: it is the embedding then."""
LENGTH_BYTES = 8
"""The length of a header comes first, little-endian."""
MAX_HEADER_BYTES = 1 << 22
"""Of a header, and of an index: 256 layers have 3,000 tensors, of some 150 bytes each."""
MAX_BRACKETS = 64
"""Tables and lists of an index: it has three."""
TYPES = {"F32": 4, "F16": 2, "BF16": 2}
"""Types whose numbers are float32 exactly, and their bytes."""
SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.safetensors", re.ASCII)
ROOM = 2
"""A file more than so many times as large as the model in float32 is not opened. A smaller one is, so that a
tensor too many is refused by its name."""
SHOWN = 3
"""Names in an error."""
REMEDY = (
    "Load the model with transformers, on its own family's class, and write it with "
    "save_pretrained(folder, safe_serialization=True); copy files, do not link them."
)


class ShardIndex(msgspec.Struct, frozen=True):
    """model.safetensors.index.json, as far as it counts. weight_map: the file of each tensor."""

    weight_map: dict[str, str]


class Found(NamedTuple):
    """What a header says of a tensor."""

    file: Path
    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class WeightsFolder:
    """A folder whose headers are those of the model. tensors: by name, a tied output matrix among them."""

    folder: Path
    model: ModelConfig
    tensors: Mapping[str, Found]

    def read(self) -> Tensor:
        """All parameters as one flat float32 vector. Raises InvalidInput where a number is not finite or so
        large that no comparison accepts it, or a tied output matrix is not the embedding."""
        flat = allocate(parameter_count(self.model))
        parts = split_parameters(flat, self.model)
        # What is compared with another tensor comes last.
        for name in sorted(self.tensors, key=lambda one: one not in parts):
            found = self.tensors[name]
            tensor = _read_tensor(name, found)
            if name in parts:
                parts[name].copy_(tensor)
                _require_sound(parts[name], name, found.file)
            elif not torch.equal(tensor.to(torch.float32), parts[_get_embedding(self.model)]):
                raise _refuse_weights(f"{name}: the embedding, or none", "other numbers", found.file)
            relax()
        return flat


def open_weights(folder: Path, model: ModelConfig) -> WeightsFolder:
    """The folder, its headers read and judged. Raises InvalidInput where they are not those of the model, or
    a file is missing, malformed, linked or too large."""
    shapes = {one.name: one.shape for one in parameter_layout(model)}
    optional = {OUTPUT: shapes[_get_embedding(model)]} if model.tied else {}
    most = ROOM * 4 * sum(prod(shape) for shape in (*shapes.values(), *optional.values()))
    found = dict[str, Found]()
    for file, names in _list_files(folder).items():
        inside = dict(_read_header(file, most))
        if names is not None and set(inside) != names:
            raise _refuse_names("the tensors that the index names", names ^ set(inside), file)
        found |= inside
    missing, extra = set(shapes) - set(found), set(found) - set(shapes) - set(optional)
    if missing or extra:
        what = "some are missing" if missing else "there are others"
        raise _refuse_names(f"the {len(shapes)} tensors of the model: {what}", missing or extra, folder)
    for name, one in found.items():
        shape = shapes.get(name, optional.get(name))
        if one.kind not in TYPES or one.shape != shape:
            expected = f"{name}: {' or '.join(TYPES)} {list(shape or ())}"
            raise _refuse_weights(expected, f"{one.kind} {list(one.shape)[:8]}", one.file)
    return WeightsFolder(folder, model, found)


def import_start(store: BlobStore, folder: Path, spec: TaskSpec) -> None:
    """Put the weights of a folder into a node's store, as those that the task begins with: nothing of them is
    fetched then. Raises InvalidInput where they are others, and as `open_weights` and `read` do."""
    tree = build_tensor_tree(open_weights(folder, spec.training.model).read())
    expected = spec.terms.initial_weights_root
    if tree.root != expected:
        raise InvalidInput(
            what="not the weights that the task begins with",
            expected=f"root {expected.hex()}",
            actual=tree.root.hex(),
            where=str(folder),
            remedy="Leave --weights out: the node fetches them. Or ask the submitter which ones they are.",
        )
    keep_tree(store, BlobKind.TENSOR, tree)


# --- Files --------------------------------------------------------------------------------------------------
def _list_files(folder: Path) -> dict[Path, set[str] | None]:
    """The files with weights, each with the names that the index gives it (None: there is no index)."""
    single, index = folder / SAFETENSORS_NAME, folder / INDEX_NAME
    is_single, is_sharded = single.exists() or single.is_symlink(), index.exists() or index.is_symlink()
    if is_single == is_sharded:
        actual = "both" if is_single else "neither" + "; pickles are not read" * _has_pickle(folder)
        raise _refuse_weights(f"either {SAFETENSORS_NAME} or {INDEX_NAME}", actual, folder)
    if is_single:
        return {single: None}
    named = dict[Path, set[str] | None]()
    for name, shard in _read_index(index).weight_map.items():
        if SHARD.fullmatch(shard) is None:
            raise _refuse_weights(f"a plain name of a .safetensors file for {name!r}", repr(shard), index)
        names = named.setdefault(folder / shard, set())
        assert names is not None
        names.add(name)
    return named


def _has_pickle(folder: Path) -> bool:
    return any(one.suffix in (".bin", ".pt", ".pth", ".ckpt") for one in folder.glob("*"))


def _measure(path: Path) -> int:
    """Bytes of a file of this folder: no link, no device, nothing outside."""
    try:
        found = path.lstat()
    except OSError as error:
        raise _refuse_weights("a file", str(error.strerror), path) from error
    if not stat.S_ISREG(found.st_mode):
        raise _refuse_weights("a file of this folder", "a link, or no file", path)
    return found.st_size


def _read_index(path: Path) -> ShardIndex:
    if _measure(path) > MAX_HEADER_BYTES:
        raise _refuse_weights(f"an index of at most {MAX_HEADER_BYTES} bytes", "a longer one", path)
    data = path.read_bytes()
    # A parser calls itself for each bracket, and may run out of stack.
    if data.count(b"[") + data.count(b"{") > MAX_BRACKETS:
        raise _refuse_weights("an index of shards", f"more than {MAX_BRACKETS} brackets", path)
    try:
        return msgspec.json.decode(data, type=ShardIndex)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse_weights("an index of shards", str(error), path) from error


def _read_header(path: Path, most_bytes: int) -> Iterator[tuple[str, Found]]:
    """Name, type and shape of each tensor of a file. The library checks that they fill it without gaps."""
    size = _measure(path)
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if not 0 < header_bytes <= MAX_HEADER_BYTES:
        raise _refuse_weights(f"a header of at most {MAX_HEADER_BYTES} bytes", f"{header_bytes} bytes", path)
    if size > LENGTH_BYTES + header_bytes + most_bytes:
        raise _refuse_weights(f"at most {most_bytes} bytes of weights", f"a file of {size} bytes", path)
    try:
        with safe_open(path, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                piece = opened.get_slice(name)
                yield name, Found(path, piece.get_dtype(), tuple(piece.get_shape()))
    except (OSError, SafetensorError) as error:
        raise _refuse_weights("a safetensors file", str(error), path) from error


def _read_tensor(name: str, found: Found) -> Tensor:
    try:
        with safe_open(found.file, framework="pt") as opened:
            tensor: Tensor = opened.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise _refuse_weights("a safetensors file", str(error), found.file) from error
    if tuple(tensor.shape) != found.shape:
        raise _refuse_weights(f"{name}: {list(found.shape)}", "a file that has changed", found.file)
    return tensor


# --- Judging ------------------------------------------------------------------------------------------------
def _get_embedding(model: ModelConfig) -> str:
    """The name of the first parameter of every family."""
    return parameter_layout(model)[0].name


def _require_sound(tensor: Tensor, name: str, where: Path) -> None:
    least, greatest = (float(one) for one in torch.aminmax(tensor))
    # A number that is none is above and below nothing.
    if not -UNSOUND_FROM < least <= greatest < UNSOUND_FROM:
        raise _refuse_weights(
            f"{name}: finite numbers below {UNSOUND_FROM:.4g}", f"{least} to {greatest}", where
        )


def _refuse_names(expected: str, names: set[str], where: Path) -> InvalidInput:
    shown = ", ".join(name[:80] for name in sorted(names)[:SHOWN])
    return _refuse_weights(expected, f"{len(names)}: {shown}" + ", ..." * (len(names) > SHOWN), where)


def _refuse_weights(expected: str, actual: str, where: Path) -> InvalidInput:
    return InvalidInput(
        what="not the weights of this model",
        expected=expected,
        # Names in a file may be anything, and steer a terminal.
        actual="".join(one if one.isprintable() else "?" for one in actual[:300]),
        where=str(where),
        remedy=REMEDY,
    )


NOTE_NAME = "touchstone.json"
TOKENIZER_NAME = "tokenizer.json"
CONFIG_NAME = "config.json"
BYTE_VOCABULARY = 256
"""Tokens that are the bytes of a text."""
MAX_NOTE_BYTES = 64 * 1024
Digest = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]


class ModelNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """touchstone.json. model: names and values of `ModelConfig`; tokenizer_sha256: of the tokenizer.json that
    the task names, hex; empty where tokens are bytes."""

    model: ModelConfig
    tokenizer_sha256: Digest = ""


def format_note(model: ModelConfig, tokenizer_sha256: str) -> bytes:
    """touchstone.json."""
    content = {"model": asdict(model), "tokenizer_sha256": tokenizer_sha256}
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def format_tokenizer_config(model: ModelConfig) -> bytes:
    """The least tokenizer_config.json with which `AutoTokenizer` reads tokenizer.json."""
    content = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.context_tokens,
        "clean_up_tokenization_spaces": False,
    }
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def check_tokenizer(path: Path, expected: bytes) -> bytes:
    """The bytes of a tokenizer.json, or of the one in a folder. expected: its SHA-256, zero where the task
    names none. Raises InvalidInput where it is missing or another one."""
    file = path / TOKENIZER_NAME if path.is_dir() else path
    data = file.read_bytes() if file.is_file() else b""
    found = sha256(data).digest()
    if not data and not any(expected):
        raise InvalidInput(
            what="the task names no tokenizer, and there is none here",
            expected="a tokenizer.json, where one is named",
            actual="no such file",
            where=str(file),
            remedy="Leave --tokenizer out where tokens are bytes; else ask the submitter for the file.",
        )
    if not data or (any(expected) and found != expected):
        raise InvalidInput(
            what="not the tokenizer of this task",
            expected=f"a tokenizer.json with SHA-256 {expected.hex()}",
            actual=found.hex() if data else "no such file",
            where=str(file),
            remedy="Ask the submitter for the folder that `touchstone data pack` wrote, and name it.",
        )
    return data


def read_model(folder: Path) -> tuple[ModelNote, Tensor]:
    """Shape and flat float32 weights [parameters] of an exported folder or of one of Hugging Face. Raises
    InvalidInput where a file is missing or malformed, or the weights are not the shape's."""
    has_note = (folder / NOTE_NAME).exists() or not (folder / CONFIG_NAME).is_file()
    note = read_note(folder) if has_note else make_note(folder)
    return note, open_weights(folder, note.model).read()


def make_note(folder: Path) -> ModelNote:
    """What touchstone.json would say of a folder of Hugging Face: its tokenizer is its own. Raises
    InvalidInput where its config.json is malformed or asks for what is not offered, or where there is no
    tokenizer.json and its tokens cannot be bytes."""
    with (folder / CONFIG_NAME).open("rb") as file:
        # One byte more shows that the file is too long.
        model = import_model(file.read(MAX_CONFIG_BYTES + 1), str(folder / CONFIG_NAME))
    tokenizer = folder / TOKENIZER_NAME
    if not tokenizer.is_file():
        if model.vocabulary_size != BYTE_VOCABULARY:
            expected = f"{TOKENIZER_NAME}, or a vocabulary of {BYTE_VOCABULARY}"
            raise _refuse(expected, f"no such file, and {model.vocabulary_size} tokens", folder)
        return ModelNote(model)
    return ModelNote(model, hash_file(tokenizer))


def hash_file(path: Path) -> str:
    """SHA-256 of a file, hex. It may be of any length."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_note(folder: Path) -> ModelNote:
    """touchstone.json of a folder. Raises InvalidInput where it is missing or malformed, or its model has a
    shape that no family has: nothing is built for it."""
    path = folder / NOTE_NAME
    if not path.is_file() or path.stat().st_size > MAX_NOTE_BYTES:
        expected = f"a folder that `touchstone export` wrote, or one of Hugging Face, with {CONFIG_NAME}"
        raise _refuse(expected, f"no {NOTE_NAME}", path)
    try:
        note = msgspec.json.decode(path.read_bytes(), type=ModelNote)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse("the note of an exported model", str(error), path) from error
    get_family(note.model)
    return note


def _refuse(expected: str, actual: str, where: Path) -> InvalidInput:
    return InvalidInput(
        what="not the folder of a model",
        expected=expected,
        actual=actual[:300],
        where=str(where),
        remedy="Write it with `touchstone export`, or with save_pretrained of model and tokenizer.",
    )
