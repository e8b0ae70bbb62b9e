"""Runs steps on a graphics card: static buffers, a step captured as a graph, copies to the host beside it.

    W, m, v --> buffers before a step -- the program --> buffers after it --.
                      ^                                                      |
                      '------------------------------------------------------'
    at a segment's end: a copy of W, m, v that nothing writes to --> the host, while the next segment runs

Buffers keep their places, so all of a step can be captured once as a graph and launched at once. A dispute
traces the same step kernel by kernel. So a graph is used only if it gives the same bits for one step as
running kernel by kernel; else this process goes on kernel by kernel.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from touchstone.protocol.compute.program.interpreter import Interpreter, Vectors
from touchstone.protocol.compute.program.tensor_allocator import allocate, relax

STAGED_ELEMENTS = 1 << 22
"""Elements of a tensor that are copied at a time; each copy pins 16 MB of the host's memory."""
FIRST_DATA = 3
"""Inputs of a program are W, m, v, then tokens, labels and scalars; this is the number of the tokens."""
Call = Callable[[], object]
_beside = threading.Lock()
"""The lock held while a stream other than the first is used: PyTorch reuses a few streams, and a process can
have one capture at a time."""

log = logging.getLogger(__name__)


class Device(Protocol):
    """The device that holds a program's buffers. Computations and copies run in order; they may still run
    when a call returns."""

    def send(self, source: Tensor, target: Tensor) -> None:
        """Copies a tensor from anywhere into one on the device. The caller may change `source` at once."""

    def wait(self) -> None:
        """Waits until all work is done that was begun before."""

    def fetch(self, source: Tensor, target: Tensor) -> None:
        """Copies a flat, complete tensor into one on the host, without waiting for later steps."""

    def capture(self, call: Call) -> Call:
        """Returns a function that launches all kernels that `call` launches, at once and on the same memory.
        `call` has run before, and does not run now. Raises RuntimeError if that is not possible."""


class CudaDevice:
    """A CUDA card, or a card that PyTorch presents as one."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(self, source: Tensor, target: Tensor) -> None:
        """Copies small tensors through pinned memory, which PyTorch keeps until the copy is done, so the host
        goes on. A large tensor of the host is copied piece by piece while the host waits."""
        if source.device.type == "cpu" and source.numel() <= STAGED_ELEMENTS:
            target.copy_(source.contiguous().pin_memory(), non_blocking=True)
            return
        for part, room in _cut(source, target):
            room.copy_(part)
            relax()

    def wait(self) -> None:
        """Waits for this thread's stream."""
        torch.cuda.current_stream(self._device).synchronize()

    def fetch(self, source: Tensor, target: Tensor) -> None:
        """Copies piece by piece, on a separate stream."""
        staged = torch.empty(min(STAGED_ELEMENTS, source.numel()), dtype=source.dtype, pin_memory=True)
        for part, room in _cut(source, target):
            with _beside:
                with torch.cuda.stream(self._beside):
                    staged[: len(part)].copy_(part, non_blocking=True)
                self._beside.synchronize()
            room.copy_(staged[: len(part)])
            relax()

    def capture(self, call: Call) -> Call:
        """Captures a CUDA graph. Other threads may launch kernels meanwhile. After a failed capture PyTorch
        leaves its thread on the captured stream, so this returns the thread to its own."""
        graph = torch.cuda.CUDAGraph()
        with (
            _beside,
            torch.cuda.device(self._device),
            torch.cuda.stream(torch.cuda.current_stream(self._device)),
            torch.cuda.graph(graph, capture_error_mode="thread_local"),
        ):
            call()
        return graph.replay


def _cut(source: Tensor, target: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(torch.split(source, STAGED_ELEMENTS), torch.split(target, STAGED_ELEMENTS), strict=True)


KINDS: dict[str, Callable[[torch.device], Device]] = {"cuda": CudaDevice}
"""Device classes by PyTorch's name. The processor is missing, because states already lie in its memory."""


def open_device(device: torch.device) -> Device | None:
    """Returns the object that copies to a device and captures on it; None for the processor."""
    kind = KINDS.get(device.type)
    return None if kind is None else kind(device)


def copy_to_host(tensor: Tensor) -> Tensor:
    """Returns a flat tensor in this machine's memory, or in a mapped file; the same one if it is there
    already. The tensor must be complete; other work of the device is not waited for."""
    device = open_device(tensor.device)
    if device is None:
        return tensor
    copied = allocate(tensor.numel(), tensor.dtype)
    device.fetch(tensor, copied)
    return copied


class DeviceSteps:
    """Runs one program step after step, with W, m and v on the device. Not for several threads at once."""

    def __init__(self, interpreter: Interpreter, device: Device, is_captured: bool = True) -> None:
        """Prepares the steps. `is_captured` tries a graph; otherwise it launches kernel by kernel."""
        interpreter.make_static()
        memory, outputs = interpreter.memory, interpreter.program.outputs
        self._interpreter, self._device = interpreter, device
        self._before = [memory[number] for number in range(FIRST_DATA)]
        self._after = [memory[n] for n in (outputs.weights, outputs.first_moment, outputs.second_moment)]
        self._loss, self._losses = memory[outputs.loss], list[Tensor]()
        self._launch: Call | None = None if is_captured else self._compute

    @property
    def is_graph(self) -> bool:
        """Whether steps are launched as a graph; known after the first one."""
        return self._launch not in (None, self._compute)

    def begin(self, vectors: Vectors) -> None:
        """Starts from W, m, v, flat float32, on any device. Raises InvalidInput if one does not fit."""
        self._losses.clear()
        for number, vector in enumerate(vectors):
            self._interpreter.put(number, vector, self._device.send)

    def step(self, tokens_BT: Tensor, labels_BT: Tensor, scalars: Tensor) -> None:
        """Computes one step, as `Interpreter.run` does."""
        for number, tensor in enumerate((tokens_BT, labels_BT, scalars), start=FIRST_DATA):
            self._interpreter.put(number, tensor, self._device.send)
        if self._launch is None:
            self._launch = self._choose()
        self._launch()
        self._losses.append(self._loss.clone())

    def end(self) -> tuple[Vectors, list[float]]:
        """Returns W, m, v in new memory on the device, complete, and the loss of each step since `begin`."""
        weights, first, second = (vector.clone() for vector in self._before)
        self._device.wait()
        return (weights, first, second), [float(loss) for loss in self._losses]

    def _compute(self) -> None:
        """Computes a step kernel by kernel. The new state takes the place of the old one."""
        self._interpreter.launch()
        for old, new in zip(self._before, self._after, strict=True):
            old.copy_(new)

    def _choose(self) -> Call:
        """Returns a graph if it gives the same bits as a step run kernel by kernel. Leaves the state
        unchanged."""
        start = [vector.clone() for vector in self._before]

        def run(call: Call) -> list[Tensor]:
            """Runs one step from the same start, and returns the state after it and its loss."""
            try:
                call()
                return [tensor.clone() for tensor in (*self._before, self._loss)]
            finally:
                for vector, given in zip(self._before, start, strict=True):
                    vector.copy_(given)

        expected = run(self._compute)
        try:
            graph = self._device.capture(self._compute)
            is_same = all(map(_has_same_bits, run(graph), expected))
        except RuntimeError as error:
            log.warning("a step cannot be launched as one graph, and goes kernel by kernel: %s", error)
            return self._compute
        if not is_same:
            log.warning("a step as one graph gave other bits; steps go kernel by kernel")
        return graph if is_same else self._compute


def _has_same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))
