"""Kernels that stand in for other machines, and limits from how far they differ."""

from collections.abc import Sequence

import pytest

from lab.benchmarks.setting import list_configurations, propose_limits
from protocol.compute.audit.calibrate import FLOORS
from protocol.compute.audit.compare import Distances, Floors
from protocol.spec.containers import OptimizerConfig
from protocol.spec.errors import InvalidInput


@pytest.mark.parametrize(
    ("capabilities", "count"),
    [(("avx512", "avx2", "default"), 6), (("avx2", "default"), 6), (("default",), 4)],
)
def test_the_configurations_cover_what_the_processor_has(capabilities: Sequence[str], count: int) -> None:
    found = list_configurations(capabilities)
    assert len({one.name for one in found}) == len(found) == count
    assert {one.threads for one in found} == {1, 2} and {one.onednn for one in found} == {True, False}
    assert {one.cpu_capability for one in found} == set(capabilities)


def test_the_floor_of_the_first_moment_is_where_moments_stop_moving_weights() -> None:
    assert FLOORS.eps_m == pytest.approx(OptimizerConfig().epsilon)


def test_proposed_limits_scale_the_largest_distance_of_each_kind() -> None:
    pairs = [Distances(1e-5, 2e-5, 3e-6, 0, 0, 0), Distances(2e-5, 1e-5, 1e-6, 0, 0, 0)]
    limits = propose_limits(pairs, Floors(1e-5, 1e-14, 1e-7))
    taus = (limits.tau_m, limits.tau_v, limits.tau_w)
    assert [tau / 2**64 for tau in taus] == pytest.approx([2e-4, 2e-4, 3e-5])
    assert limits.eps_m * 2.0**-149 == pytest.approx(1e-5)
    assert limits.tau_r * 2.0**-64 == pytest.approx(1e-7)


def test_no_measurement_gives_no_limits() -> None:
    with pytest.raises(InvalidInput, match="nothing was measured"):
        propose_limits([])


def test_noise_as_large_as_the_values_gives_no_limits() -> None:
    with pytest.raises(InvalidInput, match="differ too much"):
        propose_limits([Distances(1e-5, 0.2, 1e-5, 0, 0, 0)])
