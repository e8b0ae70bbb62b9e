"""A recorded step as files: it comes back as it was, and a broken folder is refused by the file at fault."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from protocol.spec.errors import InvalidInput
from protocol.spec.weights_layout import Start
from tests.touchstone.step.test_record_step import ROWS, TOKENS, Adapter, make_module
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
