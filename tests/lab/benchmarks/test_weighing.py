"""What a segment's own noise excuses."""

import pytest

from lab.benchmarks.replays.pairs import Conditioning, stands_out
from touchstone.protocol.compute.audit.conditioning import ILL_CONDITIONED_RATIO


@pytest.mark.parametrize(
    ("excess", "own", "usual", "expected"),
    [
        (1.01, 0.0, 0.0, True),
        (1.0, 0.0, 0.0, False),
        (1.01, 2.0, 1.0, True),
        (1.01, 0.1, 0.001, True),
        (3.0, 0.4, 0.01, False),
        (4.1, 0.4, 0.01, True),
        (99.0, 12.0, 0.01, False),
        (99.0, float("inf"), 0.01, False),
        (101.0, 12.0, 0.01, True),
        (101.0, float("inf"), 0.01, True),
    ],
)
def test_stands_out_beyond_the_limit_and_unusual_noise_up_to_a_cap(
    excess: float, own: float, usual: float, expected: bool
) -> None:
    assert stands_out(excess, Conditioning((0.0, own, 0.0), (0.1, usual, 0.1))) == expected


@pytest.mark.parametrize("place", range(3))
def test_ill_conditioned_is_what_is_far_above_the_usual_in_any_quantity(place: int) -> None:
    usual, own = [0.01, 0.02, 0.03], [0.01, 0.02, 0.03]
    own[place] = ILL_CONDITIONED_RATIO * usual[place]
    assert not Conditioning((own[0], own[1], own[2]), (usual[0], usual[1], usual[2])).is_ill
    own[place] *= 1.01
    assert Conditioning((own[0], own[1], own[2]), (usual[0], usual[1], usual[2])).is_ill
