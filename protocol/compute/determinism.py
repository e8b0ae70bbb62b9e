"""Decides how kernels compute, so that a run repeats its own bits.

Two machines may still differ by float noise; a task's limits allow for that. This module removes every cause
that one machine can remove: the number of threads (it changes the order of sums), kernels that add in order
of arrival, lower matmul precision, and subnormals flushed in one process and kept in another.

A process has one device. Training, replays, traces and self-tests all compute on it.
"""

import os
import platform
import re
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch

from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput


@dataclass(frozen=True)
class KernelDescription:
    """The settings that decide the bits of float32 kernels on this machine. They go into reports, never into
    a hash."""

    torch_version: str
    processor: str
    cpu_capability: str
    threads: int
    onednn: bool
    matmul_precision: str
    deterministic: bool
    device: str


CPU = torch.device("cpu")
KERNEL_VARIABLES = (
    "CUBLAS", "CUDNN_", "DISABLE_ADDMM", "DNNL_", "MKL_", "NVIDIA_TF32", "ONEDNN_", "OPENBLAS_CORETYPE",
    "TORCH_ALLOW_TF32", "TORCH_BLAS_PREFER",
)  # fmt: skip
"""Prefixes of the environment variables by which libraries choose kernels when they are loaded."""
_pinned: list[torch.device] = [CPU]
"""The device of this process."""


def pin_kernels(threads: int = 1, onednn: bool = True, device: str = "cpu") -> KernelDescription:
    """Pins this process to `threads` CPU threads, to a device, and to kernels that repeat their bits. Returns
    the resulting settings.

    Call it once, before the first tensor operation of a process. Raises InvalidInput for an unsupported
    device. Raises EnvironmentFault if the machine has no such device, or refuses a setting, because a node
    that cannot repeat its own bits would lose its stake."""
    if threads < 1:
        raise InvalidInput(
            what="no threads to compute with",
            expected="threads >= 1",
            actual=threads,
            remedy="Pass 1 or more.",
        )
    _pinned[:] = [require_device(device)]
    torch.set_num_threads(threads)
    # Products on graphics cards repeat their bits if their workspace has a fixed size.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # As use_deterministic_algorithms(True) does, without importing a compiler, which takes two seconds.
    torch.set_deterministic_debug_mode("error")
    # Filling fresh buffers with NaN finds bugs in kernels, does not change bits, and costs a pass over each
    # buffer.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("highest")
    torch.set_default_dtype(torch.float32)
    torch.backends.mkldnn.set_flags(onednn)  # type: ignore[no-untyped-call]
    # Convolutions have another switch for operands of fewer bits.
    torch.backends.cudnn.allow_tf32 = False
    _keep_subnormals()
    _require_little_endian()
    return describe_kernels()


def get_device() -> torch.device:
    """Returns the device on which this process computes training steps, as set by `pin_kernels`; before that,
    the CPU."""
    return _pinned[0]


def require_device(name: str) -> torch.device:
    """Returns the device of that name. Raises InvalidInput if Touchstone computes no steps on such a device,
    EnvironmentFault if this machine has none."""
    # No `mps`: it has no float64, which exact programs need.
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,2})?", name):
        raise InvalidInput(
            what="Touchstone computes no steps on a device of this kind",
            expected="cpu, cuda, or cuda with a number, as cuda:1",
            actual=name,
            where="device",
            remedy="Set one of these in the home's config.toml.",
        )
    kind, _, number = name.partition(":")
    count = torch.cuda.device_count() if kind == "cuda" and torch.cuda.is_available() else 0
    if kind == "cuda" and int(number or 0) >= count:
        raise EnvironmentFault(
            what="this machine has no such device",
            expected=f"a graphics card that PyTorch {torch.__version__} can compute on",
            actual=f"{count} of them, numbered from 0" if count else "none",
            where=f"device = {name}",
            remedy='Set device = "cpu" in config.toml; or install a driver, and the PyTorch for the card.',
            retryable=False,
        )
    return torch.device(kind, int(number or 0)) if kind == "cuda" else CPU


def has_byte_products() -> bool:
    """Returns whether this processor multiplies bytes and adds them as int32 in one instruction (VNNI,
    AMX)."""
    asks = (getattr(torch.cpu, name, None) for name in ("_is_vnni_supported", "_is_amx_tile_supported"))
    return any(ask() for ask in asks if ask)


def describe_kernels() -> KernelDescription:
    """Describes what this process computes with now."""
    return KernelDescription(
        torch_version=torch.__version__,
        processor=platform.processor() or platform.machine(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        onednn=bool(torch.backends.mkldnn.enabled),
        matmul_precision=torch.get_float32_matmul_precision(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        device=_describe_device(get_device()),
    )


def _describe_device(device: torch.device) -> str:
    """Describes the card's properties by which a library chooses its kernels, and the library."""
    if device.type != "cuda":
        return str(device)
    card = torch.cuda.get_device_properties(device)
    library = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"HIP {torch.version.hip}"
    kind = f"{card.name}, {card.major}.{card.minor}, {card.multi_processor_count} processors"
    return f"{device}: {kind}, {library}"


def list_cpu_capabilities() -> tuple[str, ...]:
    """Returns values of ATEN_CPU_CAPABILITY that this processor can run, the best first; a better one would
    be an illegal instruction. A value set in this process's environment hides those above it."""
    best = torch.backends.cpu.get_cpu_capability().lower()
    ladder = ("avx512", "avx2", "default")
    return ladder[ladder.index(best) :] if best in ladder else ("default",)


def _keep_subnormals() -> None:
    torch.set_flush_denormal(False)
    least = torch.tensor([2.0**-148], dtype=torch.float32)
    if float((least * 0.5).item()) != 2.0**-149:
        raise EnvironmentFault(
            what="this processor flushes subnormal numbers to zero",
            expected="2^-148 * 0.5 = 2^-149",
            actual=float((least * 0.5).item()),
            remedy="Run on a processor, or with a library, that keeps IEEE 754 subnormals.",
            retryable=False,
        )


def _require_little_endian() -> None:
    first = int(torch.tensor([1], dtype=torch.int32).view(torch.uint8)[0])
    if first != 1:
        raise EnvironmentFault(
            what="tensors are hashed as they lie in memory",
            expected="a little-endian processor",
            actual="a big-endian one",
            remedy="Run this node on x86-64 or arm64.",
            retryable=False,
        )


def describe_bits() -> str:
    """Returns one line with everything on this machine whose change may change the bits of a training step:
    versions of Python, numpy and torch, torch's build, the kind of processor, the pinned kernels, and
    variables by which libraries choose others."""
    build = sha256(torch.__config__.show().encode()).hexdigest()[:16]
    kernels = ", ".join(f"{name} {value}" for name, value in vars(describe_kernels()).items())
    chosen = "".join(
        f", {name} {value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(KERNEL_VARIABLES)
        and not name.endswith("_NUM_THREADS")  # Threads are pinned already.
    )
    return f"python {platform.python_version()}, numpy {np.__version__}, build {build}, {kernels}{chosen}"
