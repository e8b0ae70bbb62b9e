"""The benchmark of a graphics card, with the CPU in its place."""

import numpy as np
import pytest
import torch

from lab.benchmarks import device
from lab.benchmarks.device import compare_graphs, compare_replays, follow_nodes, sweep_functions
from lab.benchmarks.honesty.kinds import FUNCTIONS
from tests.protocol.compute.program.recording_device import RecordingDevice, use_device
from touchstone.protocol.compute.program.exact import device_functions
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.program_operations import Operation


def test_functions_are_swept_from_the_least_pattern_to_the_largest() -> None:
    patterns = [x.view(torch.int32) for x in device._iterate_numbers("cpu", 1 << 10)]
    joined = torch.cat(patterns)
    assert len(joined) == len(set(joined.tolist())) == 1 << 10 and int(joined[0]) == -(1 << 31)
    found = sweep_functions("cpu", 1 << 12)
    assert set(found) == {kind.name for kind in FUNCTIONS}
    assert all(
        0 < seen["worst_ulp"] <= seen["bound_ulp"] and not seen["bits_differ"] for seen in found.values()
    )


def test_other_bits_of_a_function_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def err(x: torch.Tensor) -> torch.Tensor:
        """One unit off for positive numbers; NaN has one pattern."""
        right = device_functions.take_logarithms(x)
        return torch.where(x > 1, right.nextafter(torch.tensor(np.inf)), right)

    kind = Operation.LOGARITHM
    monkeypatch.setitem(device.EXACT, kind, (err, device.EXACT[kind][1]))
    x = torch.tensor([2.0, 3.0, 0.5, float("nan"), -1.0])
    assert device._count_differing(x, kind) == 2


def test_replays_on_a_device_are_compared_with_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PRODUCT_BITS", {"exact8": 8})
    found = compare_replays("cpu", "0.2M", 1)
    assert found["distances"]["device"]["weights"] == 0
    assert {seen["differ"] for seen in found["exact"].values()} == {0}


def test_a_nodes_path_is_followed_and_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained as on a device, repeated, traced; then audited as on the CPU: the same bits here."""
    monkeypatch.setattr(device, "PRODUCT_BITS", {"exact8": 8})
    card = RecordingDevice()
    use_device(monkeypatch, card)
    found = follow_nodes("cpu", "0.2M", 2, 2)
    assert set(found) == {"float32", "exact8"} and "fetch" in card.events
    for seen in found.values():
        assert (seen["repeats_differ"], seen["traces_differ"], seen["beyond_limits"]) == (0, 0, 0)
        assert seen["segments"] == 2 and seen["worst_excess"] <= 0 < seen["tokens_per_s"]


def test_a_trace_and_an_audit_that_come_to_other_numbers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step traced by other kernels than it was trained by could not be defended."""
    monkeypatch.setattr(device, "PRODUCT_BITS", {})
    use_device(monkeypatch, RecordingDevice())
    launch = Interpreter.launch

    def err(self: Interpreter) -> None:
        """Training alone errs: a trace goes node by node."""
        launch(self)
        self.memory[self.program.outputs.weights].mul_(1.5)

    def pin(threads: int, device: str = "") -> None:
        """The auditor's processor does not err."""
        monkeypatch.setattr(Interpreter, "launch", err if device else launch)

    monkeypatch.setattr(device, "pin_kernels", pin)
    seen = follow_nodes("cpu", "0.2M", 2, 1)["float32"]
    assert (seen["repeats_differ"], seen["traces_differ"], seen["beyond_limits"]) == (0, 2, 2)
    assert seen["worst_excess"] > 0


def test_graphs_are_timed_beside_single_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PRODUCT_BITS", {})
    use_device(monkeypatch, RecordingDevice())
    seen = compare_graphs("cpu", "1M", 1)["float32"]
    assert seen["is_graph"] == 1 and min(seen.values()) > 0
