from types import SimpleNamespace

import pytest
import torch

from touchstone.protocol.compute import determinism
from touchstone.protocol.compute.determinism import (
    CPU,
    describe_bits,
    describe_kernels,
    get_device,
    pin_kernels,
    require_device,
)
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput


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


def test_variables_that_choose_kernels_are_described_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MKL_CBWR=COMPATIBLE a step has other bits. A self-test is due, and a worker with it counts as
    another machine; the number of threads is pinned."""
    for name in ("MKL_CBWR", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE"):
        monkeypatch.delenv(name, raising=False)
    before = describe_bits()
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    assert describe_bits() == before
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert describe_bits() == f"{before}, MKL_CBWR COMPATIBLE"


def test_workspaces_by_which_a_card_chooses_its_products_are_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both sizes are deterministic, so PyTorch takes either; the kernels are not the same."""
    found = []
    for size in (":4096:8", ":16:8"):
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", size)
        pin_kernels(1)
        found.append(describe_bits())
    assert found[0] != found[1]


# Devices
def have_cards(patch: pytest.MonkeyPatch, count: int, processors: int = 132) -> None:
    """What PyTorch says on a machine with so many cards."""
    card = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=processors)
    patch.setattr(torch.cuda, "is_available", lambda: count > 0)
    patch.setattr(torch.cuda, "device_count", lambda: count)
    patch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    patch.setattr(torch.version, "cuda", "13.0")


@pytest.mark.parametrize(("name", "index"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_device_is_pinned_and_described(monkeypatch: pytest.MonkeyPatch, name: str, index: int) -> None:
    have_cards(monkeypatch, 2)
    on_cpu = describe_bits()
    torch.backends.cudnn.allow_tf32 = True
    description = pin_kernels(1, device=name)
    assert get_device() == torch.device("cuda", index) and not torch.backends.cudnn.allow_tf32
    assert description.device == f"cuda:{index}: NVIDIA H200, 9.0, 132 processors, CUDA 13.0"
    on_card = describe_bits()
    have_cards(monkeypatch, 2, processors=114)
    assert len({on_cpu, on_card, describe_bits()}) == 3, "a self-test is due on another device"
    assert pin_kernels(1).device == "cpu" and get_device() == CPU


@pytest.mark.parametrize(("count", "name"), [(0, "cuda"), (0, "cuda:1"), (1, "cuda:1"), (2, "cuda:2")])
def test_a_device_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, count: int, name: str
) -> None:
    have_cards(monkeypatch, count)
    with pytest.raises(EnvironmentFault, match="no such device") as fault:
        pin_kernels(1, device=name)
    assert not fault.value.retryable and name in str(fault.value.where)
    assert determinism._pinned == [CPU]


@pytest.mark.parametrize(
    "name", ["mps", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:100", "cpu:0", "", "cpu\n"]
)
def test_a_device_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="no steps on a device of this kind"):
        require_device(name)
