"""From honest distances to limits: how far apart two honest nodes were seen, times a margin.

Whoever posts a task measures its model on kernel configurations that stand in for other people's machines
(`benchmarks/limits.py` starts them as processes) and puts the proposal into the task. Meanings and units of
the limits: docs/spec.md, section 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from protocol.compute.compare import Distances, Floors
from protocol.spec.containers import Limits
from protocol.spec.errors import InvalidInput
from protocol.spec.params import TAU_FRACTION_BITS, UNIT_EXPONENT

ACCEPT_MARGIN = 4
"""Times the honest maximum: hardware that was not measured; what lies beyond is void, not a crime."""
REJECT_MARGIN = 10
"""Times the honest maximum: what lies beyond is called false."""
FLOORS = Floors(eps_m=1e-5, floor_v=2.0**-47, floor_w=2.0**-23)
"""eps_m: the default epsilon of AdamW, below which a moment hardly moves its weight. floor_v: its root lies a
hundred times below eps_m. floor_w: one unit in the last place of 1, the magnitude of norms and embeddings."""


@dataclass(frozen=True)
class KernelConfiguration:
    """One way for this machine to compute, standing in for another machine; an environment and
    `pin_kernels`."""

    threads: int
    onednn: bool
    cpu_capability: str

    @property
    def name(self) -> str:
        """Short and unique."""
        return f"{self.cpu_capability}-{self.threads}-{'onednn' if self.onednn else 'native'}"


def list_configurations(capabilities: Sequence[str]) -> tuple[KernelConfiguration, ...]:
    """Six, or what there is on a processor with one kind of vector instructions: each of threads, oneDNN and
    `capabilities` (best first) in all its values; others at once, as on another machine."""
    best, second, last = capabilities[0], capabilities[1 % len(capabilities)], capabilities[-1]
    every = (
        KernelConfiguration(1, True, best),
        KernelConfiguration(2, True, best),
        KernelConfiguration(1, False, best),
        KernelConfiguration(1, True, second),
        KernelConfiguration(1, False, last),
        KernelConfiguration(2, False, last),
    )
    return tuple(dict.fromkeys(every))


@dataclass(frozen=True)
class Proposal:
    """Limits for a task, from the honest maxima they rest on."""

    accept: Limits
    reject: Limits


def find_maxima(distances: Sequence[Distances]) -> tuple[float, float, float]:
    """The largest (first_moment, second_moment, weights) over all honest pairs measured."""
    if not distances:
        raise InvalidInput(
            what="nothing was measured", expected="distances of at least one pair", actual=0,
            remedy="Run the calibration first.",
        )  # fmt: skip
    return (
        max(d.first_moment for d in distances),
        max(d.second_moment for d in distances),
        max(d.weights for d in distances),
    )


def propose_limits(distances: Sequence[Distances], floors: Floors = FLOORS) -> Proposal:
    """Accept and reject limits from honest distances that were measured with the same `floors`.

    Raises InvalidInput where the noise is so large that limits ten times as wide would bind nobody."""
    maxima = find_maxima(distances)
    if max(maxima) * REJECT_MARGIN >= 1:
        raise InvalidInput(
            what="honest machines differ too much to be told from false ones",
            expected=f"every distance below 1/{REJECT_MARGIN}",
            actual=maxima,
            where="(first moment, second moment, weights)",
            remedy="Warm up after every start from zero moments (inner_warmup_steps), or shorten segments.",
        )
    return Proposal(_scale(maxima, floors, ACCEPT_MARGIN), _scale(maxima, floors, REJECT_MARGIN))


def _scale(maxima: tuple[float, float, float], floors: Floors, margin: int) -> Limits:
    tau_m, tau_v, tau_w = (ceil(Fraction(value) * margin * (1 << TAU_FRACTION_BITS)) for value in maxima)
    eps_m, floor_v, floor_w = (
        round(Fraction(value) * (1 << -UNIT_EXPONENT))
        for value in (floors.eps_m, floors.floor_v, floors.floor_w)
    )
    return Limits(tau_m, eps_m, tau_v, floor_v, tau_w, floor_w)
