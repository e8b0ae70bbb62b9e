"""A recorded step as files: what a submitter hands to a task, and anybody can look at.

program             canonical bytes of the program
layout.json         names, shapes and first values of W
constants/ROOT      values of a constant, little-endian float32
weights             W of the module that was recorded, little-endian float32
report.json         what the program costs; nobody reads it back
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from protocol.compute.digest import tensor_bytes
from protocol.compute.program.built_program import BuiltProgram
from protocol.compute.program.costs import measure_costs
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import compute_data_root
from protocol.spec.program import Role
from protocol.spec.program_codec import MAX_PROGRAM_BYTES, decode_program, encode_program
from protocol.spec.program_rules import require_step
from protocol.spec.weights_layout import MAX_LAYOUT_BYTES, WeightsLayout, decode_layout, encode_layout

PROGRAM, LAYOUT, CONSTANTS, WEIGHTS, REPORT = "program", "layout.json", "constants", "weights", "report.json"
REMEDY = "Record the step again, or copy the folder whole."


@dataclass(frozen=True)
class StepFiles:
    """A step as a task takes it. weights: W before any training, flat float32."""

    built: BuiltProgram
    layout: WeightsLayout
    weights: Tensor


def save_step(step: StepFiles, folder: Path) -> None:
    """Writes the files of a step into `folder`, which is made where there is none."""
    (folder / CONSTANTS).mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM).write_bytes(encode_program(step.built.program))
    (folder / LAYOUT).write_bytes(encode_layout(step.layout))
    (folder / WEIGHTS).write_bytes(tensor_bytes(step.weights))
    for number, values in step.built.constants.items():
        name = step.built.program.buffers[number].constant_root.hex()
        (folder / CONSTANTS / name).write_bytes(tensor_bytes(values))
    costs = measure_costs(step.built.program)
    report = {**asdict(costs), "proof_gas": costs.proof_gas}
    (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n")


def load_step(folder: Path) -> StepFiles:
    """The step that lies in a folder. Raises InvalidInput, with the file, where one is missing, broken or
    does not belong to the others."""
    program = decode_program(_read(folder / PROGRAM, most=MAX_PROGRAM_BYTES))
    require_step(program)
    layout = decode_layout(_read(folder / LAYOUT, most=MAX_LAYOUT_BYTES))
    count = program.buffers[0].size
    if layout.count != count:
        raise InvalidInput(
            what="the layout does not fit the program",
            expected=f"parameters of {count} elements in all",
            actual=layout.count,
            where=str(folder / LAYOUT),
            remedy=REMEDY,
        )
    constants = {}
    for number, buffer in enumerate(program.buffers):
        if buffer.role is Role.CONSTANT:
            path = folder / CONSTANTS / buffer.constant_root.hex()
            constants[number] = _read_numbers(path, buffer.size, buffer.constant_root)
    weights = _read_numbers(folder / WEIGHTS, count)
    return StepFiles(BuiltProgram(program, constants), layout, weights)


def _read(path: Path, least: int = 1, most: int = 1 << 63) -> bytes:
    try:
        size = path.stat().st_size
        data = path.read_bytes() if least <= size <= most else b""
    except OSError as error:
        raise InvalidInput(
            what="a file of a recorded step cannot be read",
            expected="a file",
            actual=error.strerror or str(error),
            where=str(path),
            remedy=REMEDY,
        ) from error
    if not data:
        expected = f"{least} bytes" if least == most else f"{least} to {most} bytes"
        raise _refuse(expected, f"{size} bytes", path)
    return data


def _read_numbers(path: Path, count: int, root: bytes = b"") -> Tensor:
    data = _read(path, 4 * count, 4 * count)
    if root and compute_data_root(data) != root:
        raise _refuse(f"bytes of the root {root.hex()}", "others", path)
    values = torch.frombuffer(bytearray(data), dtype=torch.float32)
    if not bool(values.isfinite().all()):
        raise _refuse("finite numbers", "others", path)
    return values


def _refuse(expected: str, actual: str, path: Path) -> InvalidInput:
    return InvalidInput(
        what="a file of a recorded step is broken",
        expected=expected,
        actual=actual,
        where=str(path),
        remedy=REMEDY,
    )
