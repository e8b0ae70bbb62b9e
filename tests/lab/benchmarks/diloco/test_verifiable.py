"""What the benchmark `training` measures in one process."""

from pathlib import Path

import pytest

from lab.benchmarks.diloco import verifiable
from lab.benchmarks.diloco.verifiable import (
    Costs,
    Load,
    Long,
    compare_plain,
    compare_synchronous,
    measure_share,
)
from touchstone.step.plain_decoder import DecoderConfig


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verifiable.SHAPES, "tiny", DecoderConfig(256, 16, 40, 1, 2, 2, 128))


def test_the_share_is_of_all_that_is_not_training() -> None:
    assert Costs(6.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25).share == pytest.approx(0.25)


def test_every_cost_of_a_segment_is_seen() -> None:
    found = measure_share(Load("tiny", 2, 2, 1))
    assert all(seconds > 0 for seconds in found["seconds_of_a_segment"].values())
    assert 0 < found["share"] < 1 and found["tokens_a_step"] == 256


def test_every_format_is_compared_with_plain_pytorch() -> None:
    assert compare_plain("tiny", 1).keys() == {"float32", "exact15"}


def test_both_kinds_of_training_learn_from_the_same_start_and_go_on_where_they_were_stopped(
    tmp_path: Path,
) -> None:
    said, plan = list[str](), Long("0.2M", 2, 10, 3, 1, rows=2)
    found = compare_synchronous(plan, tmp_path, said.append)
    assert found["steps"] == 30 and len(said) == 2
    for losses in found["losses"].values():
        assert losses[0] < 5.4, "log 256 is 5.55"
    assert found["ratio"] == pytest.approx(found["losses"]["rounds"][0] / found["losses"]["synchronous"][0])
    kept = sorted(tmp_path.iterdir())
    assert [path.stem.rpartition("-")[2] for path in kept] == ["rounds", "synchronous"]
    kept[0].write_text("1.5")
    assert compare_synchronous(plan, tmp_path, said.append)["losses"]["rounds"] == [1.5]
