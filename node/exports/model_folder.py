"""Reads a model's weights from a folder as float32: `model.safetensors`, or shards with an index."""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from touchstone.node.exports.tensor_names import OUTPUT, TensorNames, find_names
from touchstone.node.kit.stored_tensors import keep_tree
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.compute.digest import build_tensor_tree
from touchstone.protocol.compute.program.tensor_allocator import allocate, relax
from touchstone.protocol.compute.tolerance.compare import MAGNITUDE_LIMIT
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.weights_layout import WeightsLayout

SAFETENSORS_NAME = "model.safetensors"


SAFETENSORS_METADATA = {"format": "pt"}
"""The metadata that transformers requires in the header of the file."""


INDEX_NAME = "model.safetensors.index.json"


LENGTH_BYTES = 8
"""The bytes of the length field at the start of a file: the length of the header, little-endian."""


MAX_HEADER_BYTES = 1 << 22
"""The most bytes of a header or an index. A model of 256 layers has 3,000 tensors of some 150 bytes each."""


MAX_BRACKETS = 64
"""The most tables and lists in an index. A real one has three."""


TYPES = {"F32": 4, "F16": 2, "BF16": 2}
"""Types that convert to float32 exactly, with their size in bytes."""


SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.safetensors", re.ASCII)


ROOM = 2
"""A file larger than this multiple of the model in float32 is not opened. Smaller ones are opened, so that an
extra tensor can be named in the error."""


SHOWN = 3
"""The most names that an error lists."""


REMEDY = (
    "Load the model with transformers, on its own family's class, and write it with "
    "save_pretrained(folder, safe_serialization=True); copy files, do not link them."
)


class ShardIndex(msgspec.Struct, frozen=True):
    """The part of model.safetensors.index.json that is used. `weight_map` gives the file of each tensor."""

    weight_map: dict[str, str]


class Found(NamedTuple):
    """A tensor as a file's header describes it, by its name there."""

    file: Path
    stored: str
    kind: str
    shape: tuple[int, ...]


Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class WeightsFolder:
    """A folder whose headers fit the model. `shapes` are those of all parameters, in the order of the flat
    vector. `tied` maps some parameters to a second name that a file may use. `tensors` are what the headers
    say, by name."""

    folder: Path
    shapes: Shapes
    tied: Mapping[str, str]
    tensors: Mapping[str, Found]

    def read(self) -> Tensor:
        """Returns all parameters as one flat float32 vector. Raises InvalidInput if a number is not finite or
        too large for limits, or if a tied output matrix differs from the embedding."""
        flat = allocate(sum(map(prod, self.shapes.values())))
        pieces = torch.split(flat, [prod(shape) for shape in self.shapes.values()])
        parts = {
            name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }
        # Tensors that must equal another one are read last.
        for name in sorted(self.tensors, key=lambda one: one not in parts):
            found = self.tensors[name]
            tensor = _read_tensor(name, found)
            if name in parts:
                parts[name].copy_(tensor)
                _require_sound(parts[name], name, found.file)
            elif not torch.equal(tensor.to(torch.float32), parts[self.tied[name]]):
                raise _refuse_weights(f"{name}: {self.tied[name]}, or none", "other numbers", found.file)
            relax()
        return flat


def _refuse_step(folder: Path) -> None:
    if (folder / "shape.json").is_file() and (folder / "program").is_file():
        raise InvalidInput(
            what="the folder of a recorded step, and not of a model",
            expected="a folder with model.safetensors",
            actual=str(folder),
            remedy="Leave out the weights: the task's submitter serves those of the step.",
        )


def open_named(
    folder: Path, shapes: Shapes, tied: Mapping[str, str], names: TensorNames | None = None
) -> WeightsFolder:
    """Opens a folder, and checks its headers. `names` are those that files may have; else the module's. The
    other arguments are the fields of `WeightsFolder`. Raises InvalidInput if a tensor does not fit the model,
    or a file is missing, malformed, a link or too large."""
    _refuse_step(folder)
    optional = {name: shapes[other] for name, other in tied.items()}
    most = ROOM * 4 * sum(prod(shape) for shape in (*shapes.values(), *optional.values()))
    stored = dict[str, Found]()
    for file, indexed in _list_files(folder).items():
        inside = dict(_read_header(file, most))
        if indexed is not None and set(inside) != indexed:
            raise _refuse_names("the tensors that the index names", indexed ^ set(inside), file)
        stored |= inside
    matched = (names or TensorNames()).match(stored, [*shapes, *optional])
    found = {name: stored[held] for held, name in matched.items()}
    if twice := {held for held, name in matched.items() if stored[held] is not found[name]}:
        raise _refuse_names("each tensor by one name", twice, folder)
    missing, extra = set(shapes) - set(found), set(found) - set(shapes) - set(optional)
    if missing or extra:
        what = "some are missing" if missing else "there are others"
        raise _refuse_names(f"the {len(shapes)} tensors of the model: {what}", missing or extra, folder)
    for name, one in found.items():
        shape = shapes.get(name, optional.get(name))
        if one.kind not in TYPES or one.shape != shape:
            expected = f"{name}: {' or '.join(TYPES)} {list(shape or ())}"
            raise _refuse_weights(expected, f"{one.kind} {list(one.shape)[:8]}", one.file)
    return WeightsFolder(folder, shapes, tied, found)


def read_trained(folder: Path, layout: WeightsLayout) -> Tensor:
    """Returns W of an exported model, read by the names in the layout. Raises as `open_named` and `read`
    do."""
    trained = {entry.name: entry.shape for entry in layout.parameters}
    frozen = {entry.name: entry.shape for entry in layout.frozen}
    return open_named(folder, trained | frozen, {}, find_names(layout.config)).read()[: layout.count]


def import_start(store: BlobStore, folder: Path, spec: TaskSpec, layout: WeightsLayout) -> None:
    """Puts the weights of a folder into a node's store as the task's starting weights, so that it need not
    fetch them. The folder may repeat the first parameter, an embedding, as files of tied models do. Raises
    InvalidInput if the weights are not the task's, and as `open_named` and `read` do."""
    shapes = {entry.name: entry.shape for entry in layout.parameters}
    tied = {} if OUTPUT in shapes else {OUTPUT: layout.parameters[0].name}
    tree = build_tensor_tree(open_named(folder, shapes, tied, find_names(layout.config)).read())
    expected = spec.terms.initial_weights_root
    if tree.root != expected:
        raise InvalidInput(
            what="these are not the task's starting weights",
            expected=f"root {expected.hex()}",
            actual=tree.root.hex(),
            where=str(folder),
            remedy="Leave --weights out: the node fetches them. Or ask the submitter which ones they are.",
        )
    keep_tree(store, BlobKind.TENSOR, tree)


def _list_files(folder: Path) -> dict[Path, set[str] | None]:
    """Returns the files with weights, each with the tensor names that the index gives it (None if there is no
    index)."""
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
    """Returns the length in bytes of a file of this folder. Refuses links, devices and paths outside."""
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
    # The JSON parser recurses at each bracket, and may overflow the stack.
    if data.count(b"[") + data.count(b"{") > MAX_BRACKETS:
        raise _refuse_weights("an index of shards", f"more than {MAX_BRACKETS} brackets", path)
    try:
        return msgspec.json.decode(data, type=ShardIndex)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse_weights("an index of shards", str(error), path) from error


def _read_header(path: Path, most_bytes: int) -> Iterator[tuple[str, Found]]:
    """Returns name, type and shape of each tensor in a file. The library checks that the tensors fill the
    file without gaps."""
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
                yield name, Found(path, name, piece.get_dtype(), tuple(piece.get_shape()))
    except (OSError, SafetensorError) as error:
        raise _refuse_weights("a safetensors file", str(error), path) from error


def _read_tensor(name: str, found: Found) -> Tensor:
    try:
        with safe_open(found.file, framework="pt") as opened:
            tensor: Tensor = opened.get_tensor(found.stored)
    except (OSError, SafetensorError) as error:
        raise _refuse_weights("a safetensors file", str(error), found.file) from error
    if tuple(tensor.shape) != found.shape:
        raise _refuse_weights(f"{name}: {list(found.shape)}", "a file that has changed", found.file)
    return tensor


def _require_sound(tensor: Tensor, name: str, where: Path) -> None:
    least, greatest = (float(one) for one in torch.aminmax(tensor))
    # NaN fails both comparisons.
    if not -MAGNITUDE_LIMIT < least <= greatest < MAGNITUDE_LIMIT:
        raise _refuse_weights(
            f"{name}: finite numbers below {MAGNITUDE_LIMIT:.4g}", f"{least} to {greatest}", where
        )


def _refuse_names(expected: str, names: set[str], where: Path) -> InvalidInput:
    shown = ", ".join(name[:80] for name in sorted(names)[:SHOWN])
    return _refuse_weights(expected, f"{len(names)}: {shown}" + ", ..." * (len(names) > SHOWN), where)


def _refuse_weights(expected: str, actual: str, where: Path) -> InvalidInput:
    return InvalidInput(
        what="not the weights of this model",
        expected=expected,
        # Names in a file may contain anything, even control codes of a terminal.
        actual="".join(one if one.isprintable() else "?" for one in actual[:300]),
        where=str(where),
        remedy=REMEDY,
    )


def refuse_folder(expected: str, actual: str, where: Path) -> InvalidInput:
    """Returns the error that refuses a folder."""
    return InvalidInput(
        what="not the folder of a model",
        expected=expected,
        actual=actual[:300],
        where=str(where),
        remedy="Write it with `touchstone export`, or with save_pretrained of model and tokenizer.",
    )
