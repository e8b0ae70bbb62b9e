"""Running programs: tiles, reused memory and traces change no bit, the plain step is met within float noise,
and what does not fit is refused."""

from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.protocol.compute.conftest import TINY
from tests.protocol.compute.programs import NO_INDEX, NOTHING, Bench, build_update
from tests.task_models import DecoderStep, build_program, init_parameters, make_plain_step
from touchstone.protocol.compute.program.interpreter import Interpreter, StepResult, measure_arena_bytes
from touchstone.protocol.compute.program.planning.arena import ALIGNMENT, plan_memory
from touchstone.protocol.compute.program.planning.flat_runs import TILE_ELEMENTS
from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Access, Program, Role
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.views import View

TINY_CONFIG = DecoderStep(TINY, AdamW(), 4, 16, 128)
CONFIGS = {
    "tiny": TINY_CONFIG,
    # Sums over 480 positions, 300 hidden and 257 tokens (a prime), all longer than a chunk; tiles.
    "long sums": DecoderStep(DecoderConfig(257, 60, 300, 1, 2, 1, 48), AdamW(), 10, 48, 128),
    "one token": DecoderStep(TINY, AdamW(), 3, 1, 128),
    "one position": DecoderStep(TINY, AdamW(), 1, 1, 128),
    "many short rows": DecoderStep(TINY, AdamW(), 257, 1, 128),
}
Inputs = tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor, Tensor]
"""Vectors, tokens, labels, scalars."""
NAMES = ("weights", "first moment", "second moment", "loss")


def make_inputs(config: DecoderStep, seed: int = 0) -> Inputs:
    random = torch.Generator().manual_seed(seed)
    weights = init_parameters(config.model, seed)
    first = torch.randn(weights.shape, generator=random) * 1e-3
    second = torch.rand(weights.shape, generator=random) * 1e-6
    shape, limit = (config.sequences, config.tokens), config.model.vocabulary_size
    tokens, labels = (torch.randint(0, limit, shape, generator=random) for _ in range(2))
    return (weights, first, second), tokens, labels, torch.tensor([1e-3, 0.1, 0.05])


def run_plain(config: DecoderStep, inputs: Inputs) -> StepResult:
    vectors, tokens, labels, scalars = inputs
    return StepResult(*make_plain_step(config).take(vectors, tokens, labels, scalars))


def make_interpreter(config: DecoderStep, is_traced: bool = False) -> Interpreter:
    built = build_program(config)
    return Interpreter(built.program, built.constants, is_traced)


def assert_equal(ours: StepResult, expected: StepResult) -> None:
    for name, a, b in zip(NAMES, ours, expected, strict=True):
        assert torch.equal(a, b), name


# Memory
@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
@pytest.mark.parametrize("model", [TINY, DecoderConfig(257, 96, 300, 1, 2, 1, 48)], ids=["whole", "in tiles"])
def test_what_a_step_takes_is_known_before_any_memory_is_taken(
    model: DecoderConfig, numeric_format: str
) -> None:
    """The update of the larger one goes in tiles: most of its tensors lie in no memory of their own."""
    built = build_program(DecoderStep(model, AdamW(), 2, 8, 128, numeric_format))
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    traced = Interpreter(built.program, built.constants, is_traced=True, numeric_format=numeric_format)
    taken = max(interpreter.arena_bytes, traced.arena_bytes)
    assert measure_arena_bytes(built.program) == taken > 0


# The same step
@pytest.mark.parametrize("name", CONFIGS)
def test_a_step_is_the_plain_step_within_float_noise(name: str) -> None:
    config = CONFIGS[name]
    inputs = make_inputs(config)
    ours, plain = make_interpreter(config).run(*inputs), run_plain(config, inputs)
    before = (*inputs[0], torch.zeros(()))
    for part, a, b, old in zip(NAMES, ours, plain, before, strict=True):
        moved = (b - old).norm()
        assert moved > 0 and float((a - b).norm() / moved) < 1e-5, part


@pytest.mark.parametrize("name", CONFIGS)
def test_traces_tiles_and_repetition_change_no_bit(name: str) -> None:
    config = CONFIGS[name]
    inputs = make_inputs(config)
    traced, untraced = make_interpreter(config, is_traced=True), make_interpreter(config)
    expected = traced.run(*inputs)
    assert_equal(traced.run(*inputs, keep=lambda _buffer, _values: None), expected)
    assert_equal(untraced.run(*inputs), expected)
    assert_equal(untraced.run(*inputs), expected)


def test_steps_in_a_row_overwrite_no_earlier_result() -> None:
    interpreter, traced = make_interpreter(TINY_CONFIG), make_interpreter(TINY_CONFIG, is_traced=True)
    vectors, *_ = make_inputs(TINY_CONFIG)
    results: list[StepResult] = []
    copies: list[StepResult] = []
    for seed in range(4):
        batch = make_inputs(TINY_CONFIG, seed)[1:]
        results.append(interpreter.run(vectors, *batch))
        copies.append(StepResult(*(part.clone() for part in results[-1])))
        assert_equal(traced.run(vectors, *batch), copies[-1])
        vectors = copies[-1][:3] if seed % 2 else results[-1][:3]
    for result, copied in zip(results, copies, strict=True):
        assert_equal(result, copied)
    assert len({float(result.loss) for result in results}) == 4


def test_inputs_are_left_as_they_are() -> None:
    inputs, copies = make_inputs(TINY_CONFIG), make_inputs(TINY_CONFIG)
    make_interpreter(TINY_CONFIG).run(*inputs)
    for ours, copied in zip((*inputs[0], *inputs[1:]), (*copies[0], *copies[1:]), strict=True):
        assert torch.equal(ours, copied)


def test_inputs_may_lie_anywhere() -> None:
    """In every second place, or in the middle of other tensors."""
    interpreter, inputs = make_interpreter(TINY_CONFIG), make_inputs(TINY_CONFIG)
    expected = interpreter.run(*inputs)
    w, m, v = inputs[0]
    scattered = torch.stack([w, m], 1)
    moved = (scattered[:, 0], torch.cat([v, m, w])[len(v) : 2 * len(v)], v)
    assert_equal(interpreter.run(moved, *inputs[1:]), expected)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e30])
def test_a_gradient_that_is_not_finite_changes_nothing_but_what_is_not_finite(bad: float) -> None:
    """That becomes zero: each state of a task can be shown."""
    (weights, first, second), tokens, labels, scalars = make_inputs(TINY_CONFIG)
    broken = weights.clone()
    broken[-5] = bad  # in the output matrix
    weights_after = torch.where(broken.isfinite(), broken, 0.0)
    for is_traced in (False, True):
        interpreter = make_interpreter(TINY_CONFIG, is_traced)
        result = interpreter.run((broken, first, second), tokens, labels, scalars)
        for new, old in zip(result, (weights_after, first, second), strict=False):
            assert torch.equal(new.view(torch.int32), old.view(torch.int32))


def test_an_update_without_finite_norm_changes_nothing_in_tiles() -> None:
    count = 5 * TILE_ELEMENTS + 7
    gradient, *vectors = (torch.randn(count, generator=torch.Generator().manual_seed(i)) for i in range(4))
    interpreter = build_update(gradient, AdamW())
    w, m, v = vectors
    for norm, is_kept in ((1.0, False), (float("inf"), True), (float("nan"), True), (2.0, False)):
        scalars = torch.tensor([1e-3, 0.1, 0.05, 0.5, norm])
        result = interpreter.run((w, m, v.square()), NO_INDEX, NO_INDEX, scalars)
        assert torch.equal(result.weights, w) == torch.equal(result.first_moment, m) == is_kept


# What does not fit
@pytest.mark.parametrize("place, name", list(enumerate(["weights", "first_moment", "second_moment"])))
def test_a_vector_of_another_size_is_refused(place: int, name: str) -> None:
    vectors, tokens, labels, scalars = make_inputs(TINY_CONFIG)
    wrong = list(vectors)
    wrong[place] = wrong[place][:-1]
    with pytest.raises(InvalidInput, match=f"does not fit the program at {name}"):
        make_interpreter(TINY_CONFIG).run((wrong[0], wrong[1], wrong[2]), tokens, labels, scalars)


@pytest.mark.parametrize("place, name", list(enumerate(["tokens", "labels", "scalars"])))
def test_a_batch_of_another_size_is_refused(place: int, name: str) -> None:
    vectors, *batch = make_inputs(TINY_CONFIG)
    batch[place] = batch[place][:-1]
    tokens, labels, scalars = batch
    with pytest.raises(InvalidInput, match=f"does not fit the program at {name}"):
        make_interpreter(TINY_CONFIG).run(vectors, tokens, labels, scalars)


@pytest.mark.parametrize("place, kind", [(0, torch.float64), (1, torch.float16), (2, torch.int32)])
def test_a_vector_of_another_type_is_refused(place: int, kind: torch.dtype) -> None:
    """Its memory must not be read as float32."""
    vectors, tokens, labels, scalars = make_inputs(TINY_CONFIG)
    wrong = list(vectors)
    wrong[place] = wrong[place].to(kind)
    with pytest.raises(InvalidInput, match="does not fit the program"):
        make_interpreter(TINY_CONFIG).run((wrong[0], wrong[1], wrong[2]), tokens, labels, scalars)


@pytest.mark.parametrize("place", [0, 1], ids=["token", "label"])
@pytest.mark.parametrize("index", [-1, -100, 64, 65, 1000, 1 << 40])
def test_an_index_out_of_range_is_refused(place: int, index: int) -> None:
    """The vocabulary has 64: what lies behind its rows are other weights."""
    inputs = make_inputs(TINY_CONFIG)
    (inputs[1], inputs[2])[place][2, 3] = index
    for is_traced in (False, True):
        with pytest.raises(InvalidInput, match="index is out of range at (tokens|labels): expected 0 to 63"):
            make_interpreter(TINY_CONFIG, is_traced).run(*inputs)


def test_the_largest_index_is_taken() -> None:
    inputs = make_inputs(TINY_CONFIG)
    inputs[1][:], inputs[2][:] = 63, 63
    ours = make_interpreter(TINY_CONFIG).run(*inputs)
    assert float(ours.loss) == pytest.approx(float(run_plain(TINY_CONFIG, inputs).loss), rel=1e-6)


def test_only_a_traced_run_can_be_kept() -> None:
    with pytest.raises(InvalidInput, match="reuses memory"):
        make_interpreter(TINY_CONFIG).run(*make_inputs(TINY_CONFIG), keep=lambda _buffer, _values: None)


# Traces
def test_every_tensor_is_shown_once_and_whole() -> None:
    built = build_program(TINY_CONFIG)
    shown: Counter[int] = Counter()
    kept: dict[int, Tensor] = {}

    def keep(buffer: int, values: Tensor) -> None:
        shown[buffer] += 1
        kept[buffer] = values.clone()

    result = make_interpreter(TINY_CONFIG, is_traced=True).run(*make_inputs(TINY_CONFIG), keep=keep)
    tensors = {n: b.size for n, b in enumerate(built.program.buffers) if b.role is Role.TENSOR}
    assert shown == dict.fromkeys(tensors, 1)
    assert {n: values.numel() for n, values in kept.items()} == tensors
    outputs = built.program.outputs
    for buffer, values in ((outputs.weights, result.weights), (outputs.loss, result.loss)):
        assert torch.equal(kept[buffer], values.reshape(-1))


def test_what_is_shown_is_what_the_nodes_read() -> None:
    """Each shown tensor that one addition made is the sum of what was shown before."""
    built, checked = build_program(TINY_CONFIG), 0
    kept = dict(built.constants)
    interpreter = make_interpreter(TINY_CONFIG, is_traced=True)
    interpreter.run(*make_inputs(TINY_CONFIG), keep=lambda b, values: kept.update({b: values.clone()}))

    def read(access: Access, sizes: tuple[int, ...]) -> Tensor:
        return kept[access.buffer].as_strided(sizes, access.strides, access.offset)

    for node in built.program.nodes:
        if node.operation is Operation.ADD and all(a.buffer in kept for a in node.operands):
            a, b = (read(operand, node.sizes) for operand in node.operands)
            assert torch.equal(read(node.output, node.sizes), a + b)
            checked += 1
    assert checked > 30


# Memory
def list_internal(program: Program) -> list[int]:
    named = {program.outputs.weights, program.outputs.first_moment, program.outputs.second_moment}
    return [n for n, b in enumerate(program.buffers) if b.role is Role.TENSOR and n not in named]


def require_apart(program: Program) -> None:
    """No two tensors overlap while both are needed, and all lie inside the arena."""
    internal, lifetimes = list_internal(program), compute_lifetimes(program)
    offsets, total = plan_memory(program, internal)
    assert offsets.keys() == set(internal)
    for number, node in enumerate(program.nodes):
        alive = [b for b in internal if lifetimes[b].first <= number <= lifetimes[b].last]
        touched = {a.buffer for a in (node.output, *node.operands)} & set(internal)
        assert touched <= set(alive)
        spans = sorted((offsets[b], offsets[b] + program.buffers[b].size) for b in alive)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert spans == [] or (spans[-1][1] <= total and all(start % ALIGNMENT == 0 for start, _ in spans))


@pytest.mark.parametrize("name", CONFIGS)
def test_no_two_live_tensors_share_memory(name: str) -> None:
    program = build_program(CONFIGS[name]).program
    require_apart(program)
    held = sum(program.buffers[b].size for b in list_internal(program))
    assert plan_memory(program, list_internal(program))[1] < 0.8 * held


MAPS = [Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.MAXIMUM]


def draw_program(data: st.DataObject, sizes: list[int], most: int) -> tuple[Program, dict[int, Tensor]]:
    """Elementwise nodes over tensors of a few sizes and over single numbers, three of them results."""
    bench = Bench()
    random = torch.Generator().manual_seed(7)
    views = [bench.add(torch.randn(size, generator=random)) for size in (*sizes, *sizes, 1)]
    for _ in range(data.draw(st.integers(3, most))):
        size = data.draw(st.sampled_from(sizes))
        fitting = [view for view in views if view.shape[0] in (size, 1)]
        pair = (data.draw(st.sampled_from([v for v in fitting if v.shape[0] == size])),
                data.draw(st.sampled_from(fitting)))  # fmt: skip
        out = bench.builder.add_tensor((size,))
        views.append(bench.builder.map(data.draw(st.sampled_from(MAPS)), *pair, out=out))
        if data.draw(st.booleans()) and size < 200:
            bench.builder.contract(Operation.SUM, [views[-1]], 1)
    made = [view for view in views if view.buffer not in bench.constants]
    return bench.finish(data.draw(st.lists(st.sampled_from(made), min_size=3, max_size=3)))


@settings(max_examples=40)
@given(st.data())
def test_no_two_live_tensors_of_any_program_share_memory(data: st.DataObject) -> None:
    require_apart(draw_program(data, [1, 17, 33, 100], 25)[0])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_tiles_give_the_bits_of_whole_tensors_in_any_program(data: st.DataObject) -> None:
    size = 3 * TILE_ELEMENTS + 5
    program, constants = draw_program(data, [size, size // 2], 12)
    results = [
        Interpreter(program, constants, is_traced).run((NOTHING,) * 3, NO_INDEX, NO_INDEX, NOTHING)
        for is_traced in (True, False)
    ]
    assert_equal(results[1], results[0])


def test_a_number_stays_until_the_last_tile_has_read_it() -> None:
    """One number is read by the first node of a run; what a later node of the run writes must not take its
    place before the last tile is done."""
    size = 4 * TILE_ELEMENTS
    bench = Bench()
    x = bench.add(torch.linspace(-1, 1, size))
    number = bench.builder.map(Operation.ADD, bench.add(torch.tensor([2.0])), bench.builder.add_number(1.0))
    scaled = bench.builder.map(Operation.MULTIPLY, x, number)
    kept = bench.builder.map(Operation.ADD, scaled, x)
    first = bench.builder.map(Operation.MAXIMUM, View(kept.buffer, 0, ()), bench.builder.add_number(0.0))
    last = bench.builder.map(Operation.SUBTRACT, kept, first)
    program, constants = bench.finish([last])
    traced, tiled = (
        Interpreter(program, constants, is_traced).run((NOTHING,) * 3, NO_INDEX, NO_INDEX, NOTHING)
        for is_traced in (True, False)
    )
    assert_equal(tiled, traced)


def test_a_number_out_of_a_later_tile_is_read_when_it_is_there() -> None:
    size = 3 * TILE_ELEMENTS
    bench = Bench()
    x = bench.add(torch.linspace(-1, 1, size))
    doubled = bench.builder.map(Operation.ADD, x, x)
    last = bench.builder.map(Operation.SUBTRACT, x, View(doubled.buffer, size - 1, ()))
    program, constants = bench.finish([last])
    result = Interpreter(program, constants).run((NOTHING,) * 3, NO_INDEX, NO_INDEX, NOTHING)
    assert torch.equal(result.weights, torch.linspace(-1, 1, size) - 2)
