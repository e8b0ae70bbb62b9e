"""How a node judged once that knew a segment's own noise (docs/decisions/0024-conditioning.md); nodes go by
the limits now."""

from dataclasses import dataclass

from protocol.compute.audit.compare import ILL_CONDITIONED_RATIO, Verdict
from protocol.spec.calibration_rules import MARGIN

NOISE_CAP = 100.0
"""In limits: noise excuses nothing beyond. Whoever claims a state from which training on its data is
chaos would else be free to claim anything after it; work that was not done lies hundreds of times beyond."""


@dataclass(frozen=True)
class Conditioning:
    """What a node's own two results of a segment differ by, and what two of the same start on other data do:
    the largest distances of W, m and v in limits."""

    own: tuple[float, float, float]
    usual: tuple[float, float, float]

    @property
    def is_ill(self) -> bool:
        """Whether this segment multiplies noise as others do not."""
        pairs = zip(self.own, self.usual, strict=True)
        return any(own > ILL_CONDITIONED_RATIO * usual for own, usual in pairs)


def stands_out(excess: float, conditioning: Conditioning) -> bool:
    """Whether a distance (in limits) cannot be a segment's noise. Where the segment is ill-conditioned it
    has to lie beyond as many times the own noise as the limits lie beyond what honest machines
    showed elsewhere, or beyond NOISE_CAP."""
    own_noise = max(conditioning.own) if conditioning.is_ill else 0.0
    return excess > min(max(1.0, MARGIN * own_noise), NOISE_CAP)


def is_noise(verdict: Verdict, conditioning: Conditioning) -> bool:
    """Whether somebody who knows the segment's conditioning takes what lies beyond the limits for noise."""
    return verdict.is_beyond and not stands_out(verdict.excess, conditioning)
