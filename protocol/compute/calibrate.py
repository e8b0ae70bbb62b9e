"""From honest distances to limits: how far apart two honest nodes were seen, times a margin.

Whoever posts a task measures its model on kernel configurations that stand in for other people's machines
(`scripts/calibration.py` starts them as processes) and puts the proposal into the task. Meanings and units of
the limits: docs/spec.md, section 6.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch

from protocol.compute.compare import Floors
from protocol.spec.params import TAU_FRACTION_BITS, UNIT_EXPONENT

FLOORS = Floors(eps_m=1e-5, floor_v=2.0**-47, tau_r=2.0**-23)
"""eps_m: the default epsilon of AdamW, below which a moment hardly moves its weight. floor_v: its root lies a
hundred times below eps_m. tau_r: one or two units in the last place of the
weight itself (docs/decisions/0023-rounding.md)."""


@dataclass(frozen=True)
class KernelConfiguration:
    """One way for this machine to compute, standing in for another machine; an environment and
    `pin_kernels`."""

    threads: int
    onednn: bool
    cpu_capability: str
    mkl: str = ""
    """MKL_CBWR, which binds MKL's kernels to one kind of processor; empty: not set."""
    device: str = "cpu"

    @property
    def name(self) -> str:
        """Short and unique."""
        if self.device != "cpu":
            return self.device
        name = f"{self.cpu_capability}-{self.threads}-{'onednn' if self.onednn else 'native'}"
        return f"{name}-{self.mkl.lower()}" if self.mkl else name

    @property
    def environment(self) -> dict[str, str]:
        """What its process needs beyond that of its parent; threads that wait do not spin."""
        chosen = {"ATEN_CPU_CAPABILITY": self.cpu_capability, "OMP_WAIT_POLICY": "PASSIVE"}
        return {**chosen, **({"MKL_CBWR": self.mkl} if self.mkl else {})}


def list_every_configuration(
    capabilities: Sequence[str], devices: Sequence[str] = ()
) -> tuple[KernelConfiguration, ...]:
    """All that a machine offers: vector instructions, one thread and two, oneDNN and not, MKL's own choice
    and its most cautious, and `devices` beside the processor (`list_devices`)."""
    kinds = itertools.product(capabilities, (1, 2), (True, False), ("", "COMPATIBLE"))
    return (
        *(KernelConfiguration(threads, onednn, kind, mkl) for kind, threads, onednn, mkl in kinds),
        *(KernelConfiguration(1, True, capabilities[0], device=device) for device in devices),
    )


def list_devices() -> tuple[str, ...]:
    """Accelerators that torch can compute on: "cuda", or none."""
    return ("cuda",) if torch.cuda.is_available() else ()


def count_floor_units(floors: Floors) -> tuple[int, int, int]:
    """eps_m and floor_v in units of 2^-149, tau_r in units of 2^-64."""
    eps_m, floor_v = (
        round(Fraction(value) * (1 << -UNIT_EXPONENT)) for value in (floors.eps_m, floors.floor_v)
    )
    return eps_m, floor_v, round(Fraction(floors.tau_r) * (1 << TAU_FRACTION_BITS))
