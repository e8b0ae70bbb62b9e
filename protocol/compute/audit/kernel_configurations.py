"""Lists ways for this machine to compute that stand for other operators' machines.

`scripts/calibration` starts a process for each of them.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class KernelConfiguration:
    """One way for this machine to compute, which stands for another machine: environment variables and
    arguments of `pin_kernels`."""

    threads: int
    onednn: bool
    cpu_capability: str
    mkl: str = ""
    """The value of MKL_CBWR, which binds MKL's kernels to one kind of processor; empty: not set."""
    device: str = "cpu"

    @property
    def name(self) -> str:
        """A short and unique name."""
        if self.device != "cpu":
            return self.device
        name = f"{self.cpu_capability}-{self.threads}-{'onednn' if self.onednn else 'native'}"
        return f"{name}-{self.mkl.lower()}" if self.mkl else name

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that the process of this configuration needs besides its parent's.
        Waiting threads must not spin."""
        chosen = {"ATEN_CPU_CAPABILITY": self.cpu_capability, "OMP_WAIT_POLICY": "PASSIVE"}
        return {**chosen, **({"MKL_CBWR": self.mkl} if self.mkl else {})}


def list_every_configuration(
    capabilities: Sequence[str], devices: Sequence[str] = ()
) -> tuple[KernelConfiguration, ...]:
    """Returns all configurations that a machine offers: vector instructions, one thread and two, oneDNN or
    not, MKL's own choice and its most cautious one, and `devices` besides the processor (`list_devices`)."""
    kinds = itertools.product(capabilities, (1, 2), (True, False), ("", "COMPATIBLE"))
    return (
        *(KernelConfiguration(threads, onednn, kind, mkl) for kind, threads, onednn, mkl in kinds),
        *(KernelConfiguration(1, True, capabilities[0], device=device) for device in devices),
    )


def list_devices() -> tuple[str, ...]:
    """Returns the accelerators that torch can compute on, one of each kind: "cuda" for the first, "cuda:2"
    and so on."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kinds = {torch.cuda.get_device_name(number): number for number in reversed(range(count))}
    return tuple(f"cuda:{number}" if number else "cuda" for number in sorted(kinds.values()))
