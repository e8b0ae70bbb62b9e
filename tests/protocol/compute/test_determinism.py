import pytest
import torch

from protocol.compute.determinism import describe_kernels, pin_kernels
from protocol.spec.errors import EnvironmentFault, InvalidInput


@pytest.mark.parametrize("threads, onednn", [(1, True), (2, False)])
def test_pinned_kernels_are_described(threads: int, onednn: bool) -> None:
    description = pin_kernels(threads, onednn)
    assert (description.threads, description.onednn) == (threads, onednn)
    assert description.deterministic and description.matmul_precision == "highest"
    assert description == describe_kernels()


def test_subnormals_are_kept() -> None:
    torch.set_flush_denormal(True)
    pin_kernels(1)
    assert float(torch.tensor([2.0**-148]) * 0.5) == 2.0**-149


def test_a_processor_that_flushes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_flush_denormal(True)
    monkeypatch.setattr(torch, "set_flush_denormal", lambda mode: False)
    try:
        with pytest.raises(EnvironmentFault, match="subnormal"):
            pin_kernels(1)
    finally:
        monkeypatch.undo()
        torch.set_flush_denormal(False)


def test_no_threads_are_refused() -> None:
    with pytest.raises(InvalidInput, match="threads"):
        pin_kernels(0)
