"""A safetensors file that is written piece by piece is the library's own."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from touchstone.node.exports import tensor_file
from touchstone.node.exports.tensor_file import fill, measure_tensors, save_tensors
from touchstone.protocol.compute.digest import tensor_bytes
from touchstone.protocol.spec.errors import InvalidInput

METADATA = {"format": "pt"}


@pytest.mark.parametrize("metadata", [METADATA, None])
@pytest.mark.parametrize("piece", [1, 5, 1 << 20])
def test_the_bytes_are_those_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: dict[str, str] | None, piece: int
) -> None:
    """Also where a tensor lies in pieces, or is one number everywhere."""
    monkeypatch.setattr(tensor_file, "PIECE_ELEMENTS", piece)
    tensors = {
        "b.weight": torch.arange(12.0).view(3, 4), "a": torch.arange(7.0), "c": torch.tensor(2.5),
        "B": torch.arange(6.0).view(2, 3).T, "d.10": torch.full((2, 3), -0.0), "d.9": torch.ones(1, 1, 2),
    }  # fmt: skip
    path = tmp_path / "model.safetensors"
    save_tensors(path, {**tensors, "d.10": fill(-0.0, (2, 3))}, metadata)
    assert path.read_bytes() == save({name: one.contiguous() for name, one in tensors.items()}, metadata)
    assert path.stat().st_size == measure_tensors(tensors, metadata)
    assert torch.equal(load_file(path)["B"], tensors["B"])


def test_what_is_one_number_everywhere_is_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = list[int]()

    def note(piece: Tensor) -> memoryview:
        sizes.append(piece.numel())
        return tensor_bytes(piece)

    monkeypatch.setattr(tensor_file, "PIECE_ELEMENTS", 1000)
    monkeypatch.setattr(tensor_file, "tensor_bytes", note)
    save_tensors(tmp_path / "file", {"x": fill(1.5, (50, 51))})
    assert sizes == [1000, 1000, 550]
    assert torch.equal(load_file(tmp_path / "file")["x"], torch.full((50, 51), 1.5))


def test_other_numbers_than_float32_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="float64"):
        save_tensors(tmp_path / "file", {"x": torch.ones(2, dtype=torch.float64)})
    assert not list(tmp_path.iterdir())
