"""A device in the processor's memory that notes in which order it is told to copy, wait and capture."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from touchstone.protocol.compute.program import devices, step_runners
from touchstone.protocol.compute.program.devices import Call


@dataclass
class RecordingDevice:
    """capture: what becomes of a call; by default it stays as it is."""

    make_graph: Callable[[Call], Call] = lambda call: call
    events: list[str] = field(default_factory=list)

    def send(self, source: Tensor, target: Tensor) -> None:
        self.events.append("send")
        target.copy_(source)

    def wait(self) -> None:
        self.events.append("wait")

    def fetch(self, source: Tensor, target: Tensor) -> None:
        self.events.append("fetch")
        target.copy_(source)

    def capture(self, call: Call) -> Call:
        self.events.append("capture")
        graph = self.make_graph(call)

        def launch() -> None:
            self.events.append("launch")
            graph()

        return launch


def use_device(patch: pytest.MonkeyPatch, device: RecordingDevice) -> None:
    """Let this process compute its steps there, as it would on a card."""
    patch.setitem(devices.KINDS, "cpu", lambda _: device)
    patch.setattr(step_runners, "_idle_on_device", {})


def fail_to_capture(call: Call) -> Call:
    raise RuntimeError("operation not permitted when stream is capturing")


class SmallDevice(RecordingDevice):
    """One that has too little memory for what it is sent."""

    def send(self, source: Tensor, target: Tensor) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB")
