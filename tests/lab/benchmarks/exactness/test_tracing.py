"""Whole traces of exact steps: what is compared, refused and found."""

from pathlib import Path

import numpy as np
import pytest

from lab.benchmarks.exactness import tracing
from lab.benchmarks.exactness.tracing import (
    Digests,
    compare_elements,
    digest,
    open_step,
    plant_bits,
    record,
)
from lab.benchmarks.exactness.walking import Run, Walk, Way, list_ways
from tests.protocol.compute.bounds.exact_trace import Step
from touchstone.protocol.spec.program_operations import Operation

STEP = Walk(Run("0.2M", "exact8"), 0, 1)
WAYS = list_ways()[:1]


def test_a_digest_tells_all_bits_but_those_of_a_nan() -> None:
    values = np.array([1, 0x7FC00000, 0], np.uint32)
    same, other = values.copy(), values.copy()
    same[1], other[2] = 0xFFC12345, 1 << 31
    found = [digest(bits.view(np.float32)) for bits in (values, same, other)]
    assert found[0] == found[1] != found[2]
    assert digest(np.zeros(3, np.int8)) != digest(np.array([0, 0, 1], np.int8))


def test_a_worker_records_what_numpy_computes(tmp_path: Path) -> None:
    found = compare_elements([*WAYS, list_ways()[-1]], [Walk(STEP.run, 1, 1)], tmp_path, 1)
    assert found["ways"] == found["steps"] == 1, "NumPy is no way to compare with NumPy"
    assert found["elements"] > 5_000_000 and found["refused"] == 0
    assert found["judged"] > 500 and found["convicted"] == 0
    assert [path.name[-2:] for path in tmp_path.iterdir()] == ["-1"], "the state where the step begins"


def test_a_buffer_with_other_bits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = open_step(STEP, tmp_path).built.program
    lost = program.outputs.weights

    def spoil(folder: Path, jobs: list[Walk], way: Way) -> list[Digests]:
        """As a worker that has other weights."""
        return [{**record(open_step(job, folder)), lost: "other"} for job in jobs]

    monkeypatch.setattr(tracing, "start_tracer", spoil)
    found = compare_elements(WAYS, [STEP], tmp_path, 0)
    assert found["refused"] == program.buffers[lost].size
    assert f"buffer {lost}" in found["first_refused"][0]


def test_a_changed_bit_of_each_kind_is_found() -> None:
    found = plant_bits(("exact15",), 1)
    assert found["by_kind"].keys() == {one.name for one in Operation} - {"PRODUCT_SUM"}
    assert found["planted"] == found["found"] == len(found["by_kind"]) and not found["missed"]


def test_a_challenger_that_finds_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "find", lambda *_: None)
    found = plant_bits(("exact8",), 1)
    assert found["found"] == 0 and len(found["missed"]) == tracing.KEPT
    assert "node" in found["missed"][0]
