"""How a node judged once that knew a segment's own noise (docs/decisions/0024-conditioning.md); nodes go by
the limits now."""

from dataclasses import dataclass, replace

from protocol.compute.compare import Verdict
from protocol.compute.conditioning import ILL_CONDITIONED_RATIO
from protocol.spec.policy import REJECT_MARGIN
from protocol.spec.tolerance import Judgement

NOISE_CAP = 100.0
"""In reject limits: noise excuses nothing beyond. Whoever claims a state from which training on its data is
chaos would else be free to claim anything after it; work that was not done lies hundreds of times beyond."""


@dataclass(frozen=True)
class Conditioning:
    """What a node's own two results of a segment differ by, and what two of the same start on other data do:
    the largest distances of W, m and v in reject limits."""

    own: tuple[float, float, float]
    usual: tuple[float, float, float]

    @property
    def is_ill(self) -> bool:
        """Whether this segment multiplies noise as others do not."""
        pairs = zip(self.own, self.usual, strict=True)
        return any(own > ILL_CONDITIONED_RATIO * usual for own, usual in pairs)


def stands_out(excess: float, conditioning: Conditioning) -> bool:
    """Whether a distance (in reject limits) cannot be a segment's noise. Where the segment is ill-conditioned
    it has to lie beyond as many times the own noise as the reject limits lie beyond what honest machines
    showed elsewhere, or beyond NOISE_CAP."""
    own_noise = max(conditioning.own) if conditioning.is_ill else 0.0
    return excess > min(max(1.0, REJECT_MARGIN * own_noise), NOISE_CAP)


def weigh(verdict: Verdict, conditioning: Conditioning) -> Verdict:
    """The verdict of whoever knows the segment's conditioning: a rejection that may be noise is grey."""
    is_noise = verdict.judgement is Judgement.REJECT and not stands_out(verdict.excess, conditioning)
    return replace(verdict, judgement=Judgement.GREY) if is_noise else verdict
