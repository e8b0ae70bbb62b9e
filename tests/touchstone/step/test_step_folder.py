"""A recorded step as files: it comes back as it was, and a broken folder is refused by the file at fault."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.protocol.compute.program.hand_written import HandWritten, M, V, W
from tests.touchstone.step.test_record_step import ROWS, TOKENS, Adapter, make_module
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import MAX_CONSTANT_BYTES, MAX_CONSTANTS, MAX_PARAMETERS
from touchstone.protocol.spec.program import Buffer, Role
from touchstone.protocol.spec.program_codec import encode_program
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.weights_layout import ParameterEntry, Start, WeightsLayout, encode_layout
from touchstone.step import step_folder
from touchstone.step.record_step import RecordedStep, Shape, record_step
from touchstone.step.step_folder import load_step


def record_adapter() -> RecordedStep:
    module = make_module()
    module.join = Adapter(module.join)  # type: ignore[arg-type]
    module.join.lora_b = nn.Parameter(torch.zeros(16, 2))
    shape = Shape(ROWS, TOKENS)
    return record_step(module, shape, is_frozen=lambda name: "lora_" not in name, config='{"a": 1}')


@pytest.fixture(scope="module")
def step() -> RecordedStep:
    return record_adapter()


@pytest.fixture
def folder(step: RecordedStep, tmp_path: Path) -> Path:
    step.save(tmp_path / "step")
    return tmp_path / "step"


def test_a_step_comes_back_as_it_was(step: RecordedStep, folder: Path) -> None:
    found = load_step(folder)
    assert found.built.program == step.built.program and found.layout == step.layout
    assert torch.equal(found.weights, step.weights)
    assert found.built.constants.keys() == step.built.constants.keys()
    assert all(torch.equal(found.built.constants[n], values) for n, values in step.built.constants.items())
    report = json.loads((folder / "report.json").read_text())
    assert report["parameters"] == step.weights.numel() and report["proof_gas"] > report["proof_bytes"]


def test_the_layout_tells_how_weights_begin_and_what_is_frozen(step: RecordedStep) -> None:
    drawn, zero = step.layout.parameters
    assert (drawn.name, drawn.start, zero.start) == ("join.lora_a", Start.UNIFORM, Start.ZEROS)
    assert drawn.deviation == pytest.approx(float(step.weights[: drawn.size].square().mean().sqrt()), 0.01)
    frozen = {entry.name: entry for entry in step.layout.frozen}
    roots = {step.built.program.buffers[n].constant_root for n in step.built.constants}
    assert frozen["rows.weight"].root in roots and frozen["rows.weight"].shape == (40, 16)
    assert step.layout.config == '{"a": 1}'


def list_constants(folder: Path) -> list[Path]:
    return sorted((folder / "constants").iterdir())


def link(path: Path) -> None:
    """The file lies outside, and a link to it in its place."""
    outside = path.rename(path.parents[1] / "outside")
    path.symlink_to(outside)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def change_byte(path: Path, place: int = 40) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no program": (lambda f: (f / "program").unlink(), "program: .*|cannot be read.*program"),
    "no layout": (lambda f: (f / "layout.json").unlink(), "layout.json"),
    "no constant": (lambda f: list_constants(f)[0].unlink(), "constants/"),
    "no weights": (lambda f: (f / "weights").unlink(), "weights"),
    "an empty program": (lambda f: (f / "program").write_bytes(b""), "program"),
    "another program": (lambda f: change_byte(f / "program"), "program|head|buffer"),
    "another constant": (lambda f: change_byte(list_constants(f)[0], 1), "bytes of the root"),
    "a short constant": (lambda f: list_constants(f)[0].write_bytes(bytes(4)), "constants/"),
    "more weights": (lambda f: (f / "weights").open("ab").write(bytes(4)), "weights"),
    "weights that are no numbers": (
        lambda f: (f / "weights").write_bytes(b"\xff" * (f / "weights").stat().st_size), "finite numbers",
    ),
    "a linked program": (lambda f: link(f / "program"), "program: .*a file of this folder"),
    "linked weights": (lambda f: link(f / "weights"), "weights: .*a file of this folder"),
    "a linked constant": (lambda f: link(list_constants(f)[0]), "constants/.*a file of this folder"),
    "a folder of weights": (lambda f: replace_by_folder(f / "weights"), "weights: .*a file of this folder"),
    "another layout": (
        lambda f: (f / "layout.json").write_bytes(
            (f / "layout.json").read_bytes().replace(b"[2,16]", b"[2,17]")
        ),
        "does not fit the program",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_refused(folder: Path, name: str) -> None:
    change, message = BROKEN[name]
    change(folder)
    with pytest.raises(InvalidInput, match=message):
        load_step(folder)


def write_large(folder: Path, parameters: int, constant: int) -> None:
    """A step of so many parameters, with a constant of so many elements; its numbers are nowhere."""
    written = HandWritten(parameters)
    written.buffers.append(Buffer(Role.CONSTANT, constant, b"\1" * 32))
    new_w = written.flat(Operation.ADD, W, (len(written.buffers) - 1, 0))
    folder.mkdir()
    (folder / "program").write_bytes(encode_program(written.finish(new_w, *written.copies(M, V))))
    layout = WeightsLayout((ParameterEntry("w", (parameters,), Start.UNIFORM, 0.5),))
    (folder / "layout.json").write_bytes(encode_layout(layout))
    shape = {"sequences": 2, "tokens": 4, "numeric_format": "float32", "vocabulary_size": 13}
    (folder / "shape.json").write_text(json.dumps({**shape, "beta1": 0.9, "beta2": 0.95}))


def test_more_numbers_than_a_task_may_have_are_refused_before_one_is_read(tmp_path: Path) -> None:
    constant, parameters = MAX_CONSTANT_BYTES // 4, MAX_PARAMETERS
    write_large(tmp_path / "constants", 8, constant + 1)
    with pytest.raises(InvalidInput, match=f"constants of at most {MAX_CONSTANT_BYTES} bytes in all"):
        load_step(tmp_path / "constants")
    write_large(tmp_path / "parameters", parameters + 1, parameters + 1)
    with pytest.raises(InvalidInput, match=f"at most {parameters} parameters"):
        load_step(tmp_path / "parameters")
    write_large(tmp_path / "allowed", 8, constant - 1)
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_step(tmp_path / "allowed")


@pytest.mark.parametrize("count", [MAX_CONSTANTS, MAX_CONSTANTS + 1])
def test_more_constants_than_a_task_may_have_are_refused_before_one_is_read(folder: Path, count: int) -> None:
    program = load_step(folder).built.program
    known = [one for one in program.buffers if one.role is Role.CONSTANT]
    more = tuple(known[0] for _ in range(count - len(known)))
    (folder / "program").write_bytes(encode_program(replace(program, buffers=(*program.buffers, *more))))
    if count > MAX_CONSTANTS:
        with pytest.raises(InvalidInput, match=f"at most {MAX_CONSTANTS} constants"):
            load_step(folder)
    else:
        assert len(load_step(folder).built.constants) == count


def test_all_files_are_measured_before_numbers_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are read last."""
    monkeypatch.setattr(step_folder, "_read_numbers", None)
    (folder / "weights").write_bytes(bytes(4))
    with pytest.raises(InvalidInput, match="weights: "):
        load_step(folder)
