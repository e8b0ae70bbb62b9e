"""A recorded step as files: what a submitter hands to a task, and anybody can look at.

program             canonical bytes of the program
layout.json         names, shapes and first values of W
constants/ROOT      values of a constant, little-endian float32
weights             W of the module that was recorded, little-endian float32
shape.json          what a task has to say of it: batch, numeric format, vocabulary, betas
report.json         what the program costs; nobody reads it back
"""

import json
import os
import re
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from touchstone.protocol.compute.digest import tensor_bytes
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import LEAF_BYTES, MAX_CONSTANT_BYTES, MAX_CONSTANTS, MAX_PARAMETERS
from touchstone.protocol.spec.program import Program, Role
from touchstone.protocol.spec.program_codec import MAX_PROGRAM_BYTES, decode_program, encode_program
from touchstone.protocol.spec.program_rules import require_step
from touchstone.protocol.spec.weights_layout import (
    MAX_LAYOUT_BYTES,
    WeightsLayout,
    decode_layout,
    encode_layout,
)

PROGRAM, LAYOUT, CONSTANTS, WEIGHTS = "program", "layout.json", "constants", "weights"
SHAPE, REPORT = "shape.json", "report.json"
MAX_SHAPE_BYTES = 4096
ROOT_NAME = re.compile(r"[0-9a-f]{64}")
REMEDY = "Record the step again, or copy the folder whole."


class StepShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a task says of a step. `vocabulary_size` is the largest that the program can read by. `betas` are
    those of the bias corrections that it gets, 0 if it uses none. `tokenizer_sha256` is the hash in hex of
    the tokenizer.json beside the recorded model, empty if there was none."""

    sequences: int
    tokens: int
    numeric_format: str
    vocabulary_size: int
    beta1: float
    beta2: float
    tokenizer_sha256: str = ""


@dataclass(frozen=True)
class StepFiles:
    """A step as a task takes it. `weights` is W before any training, flat float32."""

    built: BuiltProgram
    layout: WeightsLayout
    weights: Tensor
    shape: StepShape


def save_step(step: StepFiles, folder: Path) -> None:
    """Writes the files of a step into `folder`, which is made if it is missing. Constants of an earlier step
    there are removed."""
    (folder / CONSTANTS).mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM).write_bytes(encode_program(step.built.program))
    (folder / LAYOUT).write_bytes(encode_layout(step.layout))
    (folder / WEIGHTS).write_bytes(tensor_bytes(step.weights))
    # Zeros at the end of a root's last leaf do not change the root, so the longer of two constants serves
    # both.
    for number, values in sorted(step.built.constants.items(), key=lambda one: one[1].numel()):
        name = step.built.program.buffers[number].constant_root.hex()
        (folder / CONSTANTS / name).write_bytes(tensor_bytes(values))
    kept = {buffer.constant_root.hex() for buffer in step.built.program.buffers}
    for path in (folder / CONSTANTS).iterdir():
        if ROOT_NAME.fullmatch(path.name) and path.name not in kept:
            path.unlink()
    (folder / SHAPE).write_bytes(msgspec.json.format(msgspec.json.encode(step.shape)) + b"\n")
    costs = measure_costs(step.built.program)
    report = {**asdict(costs), "proof_gas": costs.proof_gas}
    (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n")


def load_step(folder: Path) -> StepFiles:
    """Returns the step in a folder. Raises InvalidInput, naming the file, if one is missing, broken, a link,
    too large, or does not fit the others. Sizes are checked before a number is read."""
    program = decode_program(bytes(_read(folder / PROGRAM, most=MAX_PROGRAM_BYTES)))
    require_step(program)
    layout = decode_layout(bytes(_read(folder / LAYOUT, most=MAX_LAYOUT_BYTES)))
    count = program.buffers[0].size
    if layout.count != count:
        raise InvalidInput(
            what="the layout does not fit the program",
            expected=f"parameters of {count} elements in all",
            actual=layout.count,
            where=str(folder / LAYOUT),
            remedy=REMEDY,
        )
    shape = _read_shape(folder / SHAPE)
    places = {
        number: (folder / CONSTANTS / buffer.constant_root.hex(), buffer.size)
        for number, buffer in enumerate(program.buffers)
        if buffer.role is Role.CONSTANT
    }
    _require_sizes(program, folder)
    for path, size in places.values():
        _measure(path, 4 * size, _round_up(4 * size))
    _measure(folder / WEIGHTS, 4 * count, 4 * count)
    constants = {
        number: _read_numbers(path, size, program.buffers[number].constant_root)
        for number, (path, size) in places.items()
    }
    weights = _read_numbers(folder / WEIGHTS, count)
    return StepFiles(BuiltProgram(program, constants), layout, weights, shape)


def _require_sizes(program: Program, folder: Path) -> None:
    """Raises InvalidInput if the program has more numbers than a task may have."""
    count = program.buffers[0].size
    if count > MAX_PARAMETERS:
        raise _refuse(f"at most {MAX_PARAMETERS} parameters", str(count), folder / PROGRAM)
    constants = [4 * buffer.size for buffer in program.buffers if buffer.role is Role.CONSTANT]
    if len(constants) > MAX_CONSTANTS:
        raise _refuse(f"at most {MAX_CONSTANTS} constants", str(len(constants)), folder / PROGRAM)
    constant_bytes = sum(constants)
    if constant_bytes > MAX_CONSTANT_BYTES:
        expected = f"constants of at most {MAX_CONSTANT_BYTES} bytes in all"
        raise _refuse(expected, f"{constant_bytes} bytes", folder / PROGRAM)


def _read_shape(path: Path) -> StepShape:
    try:
        return msgspec.json.decode(_read(path, most=MAX_SHAPE_BYTES), type=StepShape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse("the shape of a step", str(error)[:200], path) from error


def _measure(path: Path, least: int, most: int) -> int:
    """Returns the bytes of a file in this folder. Refuses links, devices and paths outside."""
    try:
        found = path.lstat()
    except OSError as error:
        raise _refuse_reading(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise _refuse("a file of this folder", "a link, or no file", path)
    if not least <= found.st_size <= most:
        expected = f"{least} bytes" if least == most else f"{least} to {most} bytes"
        raise _refuse(expected, f"{found.st_size} bytes", path)
    return found.st_size


def _read(path: Path, least: int = 1, most: int = 1 << 63) -> bytearray:
    data = bytearray(_measure(path, least, most))
    try:
        with open(path, "rb", opener=_open_file) as file:
            count = file.readinto(data)
    except OSError as error:
        raise _refuse_reading(path, error) from error
    if count != len(data):
        raise _refuse(f"{len(data)} bytes", f"{count} bytes", path)
    return data


def _open_file(path: str, flags: int) -> int:
    """Opens a file. If a link has replaced it since it was measured, it is not followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _round_up(size_bytes: int) -> int:
    return -(-size_bytes // LEAF_BYTES) * LEAF_BYTES


def _read_numbers(path: Path, count: int, root: bytes = b"") -> Tensor:
    """Returns the first `count` numbers of a file. `root` is their root. A constant's file may have zeros at
    the end."""
    data = _read(path, 4 * count, _round_up(4 * count) if root else 4 * count)
    if root and compute_data_root(memoryview(data)[: 4 * count]) != root:
        raise _refuse(f"bytes of the root {root.hex()}", "others", path)
    values = torch.frombuffer(data, dtype=torch.float32)[:count]
    if not bool(values.isfinite().all()):
        raise _refuse("finite numbers", "others", path)
    return values


def _refuse_reading(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        what="a file of a recorded step cannot be read",
        expected="a file",
        actual=error.strerror or str(error),
        where=str(path),
        remedy=REMEDY,
    )


def _refuse(expected: str, actual: str, path: Path) -> InvalidInput:
    return InvalidInput(
        what="a file of a recorded step is broken",
        expected=expected,
        actual=actual,
        where=str(path),
        remedy=REMEDY,
    )
