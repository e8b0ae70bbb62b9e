"""Steps on a device: the bits of the processor's own way, copies in order, and a graph only where it agrees.

There is no card here. What a card would do is done in the processor's memory, and by PyTorch's "meta" device,
which has shapes and no numbers.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.decoders import DECODERS
from tests.protocol.compute.program.recording_device import (
    RecordingDevice,
    SmallDevice,
    fail_to_capture,
    use_device,
)
from tests.task_models import DecoderStep, build_program, get_model
from touchstone.protocol.compute import determinism
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.bounds import rehearsal, rehearsal_trace
from touchstone.protocol.compute.bounds.fault_proof import ClaimedTrace
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program import devices
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.devices import Call
from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels
from touchstone.protocol.compute.program.exact.exact_kernels import ExactKernels
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import advance, compute_scalars, replay_segment, train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.compute.tolerance.tolerance_choice import choose_tolerance
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import Limits, TrainingSpec
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig

FORMATS = ("float32", "exact8")
SEED = bytes(32)


def make_batches(corpus: Corpus, spec: TrainingSpec) -> Callable[[int], Batch]:
    return lambda step: get_batch(corpus, spec, SEED, 0, step)


NO_LIMITS = Limits(0, 0, 0, 0, 0, 0)


def train(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec, steps: int = 3
) -> tuple[StateHeader, list[float]]:
    end, losses = replay_segment(state, spec, make_batches(corpus, spec), 0, steps)
    return state_header(end), losses


# The same program
@pytest.mark.parametrize("numeric_format", FORMATS)
def test_a_device_computes_the_bits_of_the_processors_own_way(
    state: TrainingState, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, numeric_format: str
) -> None:
    spec = build_tiny_training(numeric_format=numeric_format)
    expected = train(state, corpus, spec)
    use_device(monkeypatch, RecordingDevice())
    assert train(state, corpus, spec) == expected
    batch = get_batch(corpus, spec, SEED, 0, 0)
    trace = retrace(state, spec, make_batches(corpus, spec), 0)
    assert state_header(advance(state, batch, spec)[0].bring_home()) == state_header(trace.end)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("numeric_format", FORMATS)
def test_no_kernel_waits_for_a_number(name: str, numeric_format: str) -> None:
    """On a device without numbers a kernel that asks for one fails. One that is in a graph must not ask."""
    config = DecoderStep(DECODERS[name], AdamW(), 4, 16, 128, numeric_format)
    built = build_program(config)
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format, device="meta")
    interpreter.make_static()
    interpreter.launch()


def test_a_device_computes_whole_tensors() -> None:
    """Tiles are for the processor's cache. On a card each would be a launch of its own."""
    built = build_program(DecoderStep(DecoderConfig(256, 64, 192, 1, 4, 4, 16), AdamW(), 1, 16, 128))
    counts = []
    for device in ("cpu", "meta"):
        interpreter = Interpreter(built.program, built.constants, device=device, by_tensors=True)
        interpreter.make_static()
        counts.append(len(interpreter._kernels))
    assert counts[1] == len(interpreter._folded.nodes) < counts[0]


def _find(built: BuiltProgram, state: TrainingState, spec: TrainingSpec, batch: Batch) -> None:
    scalars, roots = compute_scalars(spec, 0, 0), [bytes(32)] * len(built.program.buffers)
    claimed = ClaimedTrace(roots, lambda number: torch.zeros(0), find_leaf=lambda number, tree: pytest.fail())
    choose_tolerance(spec.numeric_format, NO_LIMITS).prove(built, state, batch, scalars, claimed)


@pytest.mark.parametrize("numeric_format", FORMATS)
@pytest.mark.parametrize("place", ["training", "replay", "step", "trace", "search", "rehearsal"])
def test_all_of_a_process_computes_on_its_device(
    state: TrainingState, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, numeric_format: str, place: str
) -> None:
    """Numbers cannot come back from a device that has none: whoever computes there fails."""
    spec = build_tiny_training(numeric_format=numeric_format)
    batches, built = make_batches(corpus, spec), get_program(spec)
    calls: dict[str, Callable[[], object]] = {
        "training": lambda: train_segment(state, spec, batches, 0, 1),
        "replay": lambda: replay_segment(state, spec, batches, 0, 1),
        "step": lambda: advance(state, batches(0), spec),
        "trace": lambda: retrace(state, spec, batches, 0),
        "search": lambda: _find(built, state, spec, batches(0)),
        "rehearsal": lambda: rehearsal.rehearse(state, spec, batches(0), SEED),
    }
    monkeypatch.setattr(determinism, "_pinned", [torch.device("meta")])
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        calls[place]()


def test_an_exact_rehearsal_on_a_device_is_beside_the_processors_own_kernels(
    state: TrainingState, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run has to come from other kernels: those of the device would agree with themselves."""
    spec, kinds = build_tiny_training(numeric_format="exact8"), []

    class Told(Interpreter):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # type: ignore[arg-type]
            kinds.append((self._device.type, type(self._exact)))

    for module in (rehearsal, rehearsal_trace):
        monkeypatch.setattr(module, "Interpreter", Told)
    monkeypatch.setattr(determinism, "_pinned", [torch.device("meta")])
    with pytest.raises(NotImplementedError, match="meta"):
        rehearsal.rehearse(state, spec, get_batch(corpus, spec, SEED, 0, 0), SEED)
    assert kinds == [("meta", DeviceKernels), ("cpu", ExactKernels)]


# Copies
def test_copies_are_made_in_order_and_none_to_the_host_while_steps_run(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = RecordingDevice()
    use_device(monkeypatch, device)
    batches = make_batches(corpus, spec)
    end, _ = train_segment(state, spec, batches, 0, 2)
    begun, one_step = ["send"] * 3, ["send"] * 3
    # Captured once, tried once; a segment's end is done when it is handed on.
    tried = [*one_step, "capture", "launch", "launch"]
    assert device.events == [*begun, *tried, *one_step, "launch", "wait"]
    device.events.clear()
    train_segment(end, spec, batches, 2, 1)
    assert device.events == [*begun, *one_step, "launch", "wait"]
    device.events.clear()
    home = end.bring_home()
    assert device.events == ["fetch"] * 3
    assert all(a.data_ptr() != b.data_ptr() for a, b in zip(home.vectors, end.vectors, strict=True))


def test_a_segments_end_stays_while_the_next_segment_is_trained(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_device(monkeypatch, RecordingDevice())
    before = state_header(state)
    end, _ = train_segment(state, spec, make_batches(corpus, spec), 0, 2)
    reached = state_header(end)
    _, losses = train_segment(end, spec, make_batches(corpus, spec), 2, 2)
    assert (state_header(state), state_header(end)) == (before, reached) and len(losses) == 2
    assert (end.local_step, end.global_step) == (2, 2)


def test_two_threads_on_one_device_do_not_disturb_each_other(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_device(monkeypatch, RecordingDevice())
    other = TrainingState(state.weights * 1.25, state.first_moment, state.second_moment, 7, 7)
    alone = [train(start, corpus, spec, 8) for start in (state, other)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda start: train(start, corpus, spec, 8), (state, other))) == alone


class LateStream:
    """Of a card: what is copied there arrives when it is waited for, not before."""

    def __init__(self, device: torch.device) -> None:
        self.late: list[Callable[[], object]] = []

    def synchronize(self) -> None:
        while self.late:
            self.late.pop(0)()


def test_a_tensor_comes_from_a_card_in_pieces_each_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a stream of its own. The pinned memory holds a piece alone."""
    empty, copy, streams, pinned = torch.empty, Tensor.copy_, list[LateStream](), list[int]()

    def make_empty(size: int, dtype: torch.dtype, pin_memory: bool) -> Tensor:
        pinned.append(size)
        return empty(size, dtype=dtype)

    def copy_late(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        """At once but on the stream beside."""
        if non_blocking:
            streams[-1].late.append(lambda: copy(target, source))
        else:
            copy(target, source)
        return target

    @contextmanager
    def use_stream(stream: LateStream) -> Iterator[None]:
        streams.append(stream)
        yield

    monkeypatch.setattr(devices, "STAGED_ELEMENTS", 4)
    monkeypatch.setattr(torch.cuda, "Stream", LateStream)
    monkeypatch.setattr(torch.cuda, "stream", use_stream)
    monkeypatch.setattr(torch, "empty", make_empty)
    monkeypatch.setattr(Tensor, "copy_", copy_late)
    source, target = torch.arange(10, dtype=torch.float32), torch.zeros(10)
    devices.CudaDevice(torch.device("cuda", 0)).fetch(source, target)
    assert torch.equal(source, target) and len(streams) == 3 and pinned == [4]


# Graphs
class SharedStreams:
    """What PyTorch keeps of streams in a process: which one each thread is on, and one that all captures are
    on. A capture that ends badly leaves its thread there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own, self.under_way, self.most = threading.local(), 0, 0
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=self.get))
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: "beside")
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self.get())
        monkeypatch.setattr(torch.cuda, "stream", self.enter)
        monkeypatch.setattr(torch.cuda, "graph", self.capture)

    def get(self) -> str:
        """The stream of the calling thread."""
        found: str = getattr(self.own, "stream", "first")
        return found

    @contextmanager
    def enter(self, stream: str) -> Iterator[None]:
        """As `torch.cuda.stream`."""
        before, self.own.stream = self.get(), stream
        try:
            yield
        finally:
            self.own.stream = before

    @contextmanager
    def capture(self, graph: object, capture_error_mode: str) -> Iterator[None]:
        """As `torch.cuda.graph`: where it fails, the stream is not left."""
        before, self.own.stream = self.get(), "captured"
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            yield
        finally:
            self.under_way -= 1
        self.own.stream = before


def test_two_threads_do_not_capture_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch would mix them: what one thread computes meanwhile lands in the other's graph."""
    streams, meet = SharedStreams(monkeypatch), threading.Barrier(2)

    def capture(_: int) -> None:
        """Each waits a moment for the other to come in."""
        with suppress(threading.BrokenBarrierError):
            meet.wait(timeout=0.2)

    with ThreadPoolExecutor(2) as pool:
        card = devices.CudaDevice(torch.device("cuda", 0))
        list(pool.map(lambda number: card.capture(lambda: capture(number)), range(2)))
    assert streams.most == 1


def test_a_thread_whose_capture_fails_is_back_on_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing would order its next kernels after those before, and a node would compute other bits."""
    streams = SharedStreams(monkeypatch)
    with pytest.raises(RuntimeError, match="not permitted"):
        devices.CudaDevice(torch.device("cuda", 0)).capture(partial(fail_to_capture, list))
    assert streams.get() == "first"


def err_in_a_bit(call: Call) -> Call:
    """A graph that computes the step, and the last bit of a loss otherwise."""

    def launch() -> None:
        call()
        interpreter = call.__self__._interpreter  # type: ignore[attr-defined]
        loss = interpreter.memory[interpreter.program.outputs.loss]
        loss.copy_(torch.nextafter(loss, torch.zeros(1)))

    return launch


def break_off(call: Call) -> Call:
    """A graph that fails when it has computed half of its step."""

    def launch() -> None:
        call()
        raise RuntimeError("an illegal memory access")

    return launch


@pytest.mark.parametrize(
    ("make_graph", "said"),
    [(err_in_a_bit, "other bits"), (fail_to_capture, "not permitted"), (break_off, "illegal")],
)
def test_a_graph_that_does_not_agree_is_not_used(
    state: TrainingState,
    corpus: Corpus,
    spec: TrainingSpec,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    make_graph: Callable[[Call], Call],
    said: str,
) -> None:
    expected = train(state, corpus, spec)
    device = RecordingDevice(make_graph)
    use_device(monkeypatch, device)
    with caplog.at_level(logging.WARNING):
        assert train(state, corpus, spec) == expected
    assert said in caplog.text and device.events.count("launch") <= 1


# Bad input
def test_what_does_not_fit_is_refused_and_training_goes_on(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_device(monkeypatch, RecordingDevice())
    before, batch = train(state, corpus, spec, 1), get_batch(corpus, spec, SEED, 0, 0)

    def try_bad() -> Iterator[Batch]:
        """Tokens past the vocabulary, and too few of them."""
        yield Batch(batch.tokens_BT + get_model(spec).vocabulary_size, batch.labels_BT)
        yield Batch(*(part[:-1] for part in batch))

    for bad in try_bad():
        with pytest.raises(InvalidInput, match="out of range|does not fit the program"):
            train_segment(state, spec, lambda _, bad=bad: bad, 0, 1)  # type: ignore[misc]
    short = TrainingState(state.weights[:-1], state.first_moment, state.second_moment, 0, 0)
    with pytest.raises(InvalidInput, match="does not fit the task at weights"):
        train_segment(short, spec, make_batches(corpus, spec), 0, 1)
    assert train(state, corpus, spec, 1) == before


def test_a_device_that_is_too_small_is_told_from_other_faults(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_device(monkeypatch, SmallDevice())
    with pytest.raises(EnvironmentFault, match="does not fit into the device's memory") as fault:
        train(state, corpus, spec)
    assert fault.value.actual == "CUDA out of memory"
