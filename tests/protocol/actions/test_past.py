"""What was seen of a solver: kept, added to once an audit, bounded, and begun anew where it is damaged."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from protocol.actions import past
from protocol.actions.past import MAX_PLACES, MAX_SOLVERS, PAST_FOLDER, PastFile, Place
from protocol.compute.residuals import PastResiduals
from protocol.spec.errors import EnvironmentFault

TASK, COUNT = bytes(32), 70_000
Residuals = tuple[Tensor, Tensor, Tensor]


def draw(seed: int) -> Residuals:
    generator = torch.Generator().manual_seed(seed)
    first, second, third = (torch.randn(COUNT, generator=generator) for _ in range(3))
    return first, second, third


def open_file(home: Path, solver: str = "0xaa") -> PastFile:
    return PastFile(home, TASK, solver, COUNT)


def add(file: PastFile, place: Place, residuals: Residuals) -> None:
    """In parts of a size that no page has."""
    pieces = ([vector[at : at + 9_999] for at in range(0, len(vector), 9_999)] for vector in residuals)
    file.add(place, zip(*pieces, strict=True), [float(vector.norm()) for vector in residuals])


def test_add_is_loaded_as_the_sum_of_unit_residuals(tmp_path: Path) -> None:
    expected = PastResiduals()
    assert open_file(tmp_path).load().places == () and open_file(tmp_path).load().residuals.sums == ()
    for index in range(3):
        add(open_file(tmp_path), (0, 0, index), draw(index))
        expected.add(draw(index))
    found = open_file(tmp_path).load()
    assert found.places == ((0, 0, 0), (0, 0, 1), (0, 0, 2))
    for one, other in zip(found.residuals.sums, expected.sums, strict=True):
        assert torch.allclose(one[:], other[:], atol=1e-7, rtol=1e-5)
        assert torch.equal(one[65_000 : COUNT + 9], one[:][65_000:])
    assert open_file(tmp_path, "0xbb").load().places == (), "each solver has its own"


def test_add_the_same_audit_counts_once(tmp_path: Path) -> None:
    for _ in range(2):
        add(open_file(tmp_path), (1, 0, 2), draw(1))
    assert float(open_file(tmp_path).load().residuals.sums[0][:].norm()) == pytest.approx(1, rel=1e-5)


def test_add_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "MAX_SOLVERS", 3)
    monkeypatch.setattr(past, "MAX_PLACES", 2)
    first, second, third = (vector[:8] for vector in draw(1))
    small = (first, second, third)
    for index in range(5):
        add(PastFile(tmp_path, TASK, f"0x{index}", 8), (index, 0, 0), small)
    for index in range(5, 8):
        add(PastFile(tmp_path, TASK, "0x4", 8), (index, 0, 0), small)
    assert len(list((tmp_path / PAST_FOLDER).iterdir())) == 3
    assert PastFile(tmp_path, TASK, "0x0", 8).load().places == ()
    assert PastFile(tmp_path, TASK, "0x4", 8).load().places == ((6, 0, 0), (7, 0, 0))


def test_head_has_room_for_all_places(tmp_path: Path) -> None:
    large = (10**6, 10**3, 10**4)
    assert len(str([large] * MAX_PLACES)) < past.HEAD_BYTES and MAX_SOLVERS > 0


@pytest.mark.parametrize("damage", [b"", b"[", b"x" * 9000])
def test_load_a_damaged_file_begins_anew(tmp_path: Path, damage: bytes) -> None:
    add(open_file(tmp_path), (0, 0, 0), draw(1))
    [path] = (tmp_path / PAST_FOLDER).iterdir()
    data = path.read_bytes()
    path.write_bytes(damage + data[len(damage) :] if damage else data[:-4])
    assert open_file(tmp_path).load().places == ()
    add(open_file(tmp_path), (0, 0, 1), draw(2))
    assert open_file(tmp_path).load().places == ((0, 0, 1),)


def test_add_to_a_full_disk_is_the_environment(tmp_path: Path) -> None:
    (tmp_path / PAST_FOLDER).write_text("no folder")
    with pytest.raises(EnvironmentFault, match="cannot be kept"):
        add(open_file(tmp_path), (0, 0, 0), draw(1))
