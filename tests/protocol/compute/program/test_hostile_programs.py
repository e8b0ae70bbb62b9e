"""Valid programs that no recorder writes: each is refused, or trained as it is traced and judged."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.program.hand_written import (
    ROWS,
    SCALARS,
    TOKENS,
    TOKENS_IN,
    VOCABULARY,
    HandWritten,
    M,
    Operand,
    V,
    W,
    draw_rows,
    draw_vectors,
    judge,
)
from tests.protocol.compute.program.test_cutting import Meeting
from touchstone.protocol.compute.bounds import rehearsal
from touchstone.protocol.compute.bounds.live_parameters import require_live_parameters
from touchstone.protocol.compute.bounds.rehearsal import rehearse
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.program.costs import count_scratch_bytes
from touchstone.protocol.compute.program.cut_step import CutStep
from touchstone.protocol.compute.program.interpreter import Interpreter, measure_arena_bytes
from touchstone.protocol.compute.program.kernels.fused_update import match_update
from touchstone.protocol.compute.program.planning.copy_folding import fold
from touchstone.protocol.compute.program.planning.flat_runs import find_flat_runs
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.program import Program, Role
from touchstone.protocol.spec.program_addressing import locate, unravel
from touchstone.protocol.spec.program_operations import INDEXED, OPERAND_COUNTS, REDUCTIONS, Operation
from touchstone.protocol.spec.referee import judge_element

LONG = 70_000
"""Of a flat run of more than a tile."""
FORMATS = ("exact15", "float32")
Written = tuple[HandWritten, Program]


def is_same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def list_updates(program: Program) -> list[int]:
    folded = fold(program, keeps_copies=False)
    return [number for number, run in find_flat_runs(folded) if match_update(folded, run)]


def require_alike(written: HandWritten, program: Program, numeric_format: str) -> None:
    """A segment in which each step overwrites the states before gives the bits that a dispute shows."""
    judged, rows = judge(written, program, numeric_format), draw_rows()
    w, m, v = draw_vectors(written.parameters)
    start = TrainingState(w.clone(), m.clone(), v.clone(), 3, 3)
    end, _ = train_segment(start, judged.training, lambda _: rows, 0, 2)
    state = TrainingState(w, m, v, 3, 3)
    for step in range(2):
        state = retrace(state, judged.training, lambda _: rows, step).end
    assert all(map(is_same, end.vectors, state.vectors))


# What is written over what
def write_update(change: Mapping[str, Operand | str] | None = None, gradient: int | None = None) -> Written:
    written = HandWritten(LONG)
    own = written.constant(torch.linspace(-1, 1, LONG))
    found = written.update(own if gradient is None else gradient, change)
    new = [one for one in map(found.get, ("new_w", "new_m", "new_v")) if isinstance(one, int)]
    return written, written.finish(*new)


def clip_before() -> Written:
    """W is clipped first, and the update moves what was clipped."""
    written = HandWritten(LONG)
    gradient, limit = written.constant(torch.linspace(-1, 1, LONG)), written.constant([10.0])
    pairs = (LONG // 2, 2)
    clipped = written.node(
        Operation.MINIMUM, pairs, (written.tensor(LONG), 0, (2, 1)), (W, 0, (2, 1)), (limit, 0, (0, 0))
    )
    found = written.update(gradient, {"w": clipped})
    new = [one for one in map(found.get, ("new_w", "new_m", "new_v")) if isinstance(one, int)]
    return written, written.finish(*new)


def write_the_end_before() -> Written:
    """The update writes all of the new W but its end, which another node has written."""
    written = HandWritten(LONG)
    gradient, three = written.constant(torch.linspace(-1, 1, LONG)), written.constant([3.0])
    new_w, end = written.tensor(LONG), LONG - 1
    number = (three, 0, (1,))
    written.node(Operation.FINITE_SELECT, (1,), (new_w, end, (1,)), number, number, number)
    last = written.node(Operation.COPY, (1,), (written.tensor(1), 0, (1,)), (W, end, (1,)))
    found = written.update(gradient, {"new_w": new_w}, size=end)
    results = []
    for name in ("new_m", "new_v"):
        source, result = found[name], written.tensor(LONG)
        assert isinstance(source, int)
        written.node(Operation.COPY, (end // 3, 3), (result, 0, (3, 1)), (source, 0, (3, 1)))
        written.node(Operation.COPY, (1,), (result, end, (1,)), (last, 0, (1,)))
        results.append(result)
    return written, written.finish(new_w, *results)


UPDATES: Mapping[str, Callable[[], Written]] = {
    "W as m": lambda: write_update({"m": W}),
    "m as the gradient": lambda: write_update(gradient=M),
    "W from before": clip_before,
    "the end of W": write_the_end_before,
    "a gradient inside": lambda: write_update({"g": "kept_m"}),
    "W inside": lambda: write_update({"w": "kept_m"}),
    "v inside": lambda: write_update({"v": "kept_m"}),
    "an old moment as a number": lambda: write_update({"epsilon": (V, 5)}),
}


@pytest.mark.parametrize("numeric_format", FORMATS)
@pytest.mark.parametrize("name", UPDATES)
def test_no_update_but_the_recorders_is_fused(name: str, numeric_format: str) -> None:
    """Loops that write new vectors over old ones would read what they have written."""
    written, program = UPDATES[name]()
    assert not list_updates(program)
    require_alike(written, program, numeric_format)


@pytest.mark.parametrize("numeric_format", FORMATS)
def test_the_recorders_update_is_fused(numeric_format: str) -> None:
    written, program = write_update()
    assert len(list_updates(program)) == 1
    require_alike(written, program, numeric_format)


def test_workers_do_not_cut_an_update_that_reads_other_leaves() -> None:
    """A worker has its own leaves of m and v alone."""
    written, program = UPDATES["an old moment as a number"]()
    training, meeting = judge(written, program, "exact15").training, Meeting(2)
    with ThreadPoolExecutor(2) as pool, pytest.raises(InvalidInput, match="workers"):
        list(pool.map(lambda own: CutStep(training, meeting.join(own)), range(2)))


# Reductions that have nothing to reduce
def add_up_one() -> Written:
    written = HandWritten(LONG)
    two = written.constant([2.0])
    doubled = written.flat(Operation.MULTIPLY, W, (two, 0))
    new_w = written.flat(Operation.ADD, written.flat(Operation.SUM, doubled), W)
    return written, written.finish(new_w, *written.copies(M, V))


def multiply_rows_of_one(bits: int) -> Written:
    written = HandWritten(LONG)
    one, flat = (LONG,), (0, (1,))
    scales = written.node(Operation.SCALE_OF, one, (written.tensor(LONG), *flat), (W, *flat), selected=bits)
    role = Role.INTEGER16 if bits <= 15 else Role.INTEGER32
    values = written.node(
        Operation.QUANTIZE, one, (written.tensor(LONG, role), *flat), (W, *flat), (scales, *flat),
        selected=bits,
    )  # fmt: skip
    new_w = written.flat(Operation.QUANTIZED_PRODUCT_SUM, values, values, scales, scales)
    new_m = written.flat(Operation.ADD, M, new_w)
    return written, written.finish(new_w, new_m, *written.copies(V))


@pytest.mark.parametrize(("make", "numeric_format"), [
    (add_up_one, "exact15"), (add_up_one, "float32"),
    (lambda: multiply_rows_of_one(20), "exact20"),
])  # fmt: skip
def test_a_reduction_of_one_term_is_trained_as_it_is_traced(
    make: Callable[[], Written], numeric_format: str
) -> None:
    require_alike(*make(), numeric_format)


# Results that come from anywhere
def write_result(operation: Operation) -> Written:
    """W is what one operation gives, and not an optimizer's choice between new and old."""
    if operation in INDEXED:
        return write_indexed(operation)
    written = HandWritten(36)
    rows, columns, grid = (6, 0, 1), (0, 6, 1), (6, 6, 6)
    out, flat = (written.tensor(36), 0, (6, 1)), (written.tensor(36), 0, (1,))
    if operation is Operation.QUANTIZED_PRODUCT_SUM:
        values, scales = written.quantize(W, 6, 6, 15)
        sides = (values, 0, rows), (values, 0, columns), (scales, 0, (1, 0, 0)), (scales, 0, (0, 1, 0))
        result = written.node(operation, grid, out, *sides, reduced=1)
    elif operation is Operation.PRODUCT_SUM:
        result = written.node(operation, grid, out, (W, 0, rows), (M, 0, columns), reduced=1)
    elif operation in REDUCTIONS:
        bits = 15 if operation is Operation.SCALE_OF else 0
        result = written.node(operation, (36, 1), flat, (W, 0, (1, 1)), reduced=1, selected=bits)
    else:
        result = written.flat(operation, *(W, M, V)[: OPERAND_COUNTS[operation]])
    used = {node.output.buffer for node in written.nodes}
    for unused in {out[0], flat[0]} - used:
        written.flat(Operation.COPY, W, output=unused)
    return written, written.finish(result, *written.copies(M, V))


def write_indexed(operation: Operation) -> Written:
    """The same, with a row or a column for each of 13 tokens."""
    written = HandWritten(3 * VOCABULARY)
    wide = (written.tensor(3 * VOCABULARY), 0, (VOCABULARY, 1))
    tokens, sizes = (TOKENS_IN, 0, (1, 0)), (3, VOCABULARY)
    if operation is Operation.SELECTED_SUM:
        high, terms = (wide[0], 0, (3, 1)), ROWS * TOKENS
        result = written.node(
            operation, (VOCABULARY, 3, terms), high, (TOKENS_IN, 0, (0, 0, 1)), (W, 0, (0, terms, 1)),
            reduced=1,
        )  # fmt: skip
    elif operation is Operation.GATHER:
        result = written.node(operation, sizes, wide, tokens, (W, 0, (0, 1)), selected=2)
    else:
        views = (W, 0, (VOCABULARY, 1)), (M, 0, (VOCABULARY, 1))
        result = written.node(operation, sizes, wide, tokens, *views, selected=1)
    return written, written.finish(result, *written.copies(M, V))


QUANTIZED = (Operation.QUANTIZE, Operation.QUANTIZED_PRODUCT_SUM, Operation.SCALE_OF)


@pytest.mark.parametrize("numeric_format", FORMATS)
@pytest.mark.parametrize("operation", Operation, ids=lambda one: one.name)
def test_any_operation_may_write_w(operation: Operation, numeric_format: str) -> None:
    """W lies elsewhere in each step. A kernel that keeps its address would write over an older one."""
    is_exact = numeric_format != "float32"
    if operation is Operation.QUANTIZE or (operation in QUANTIZED and not is_exact):
        return
    if operation is Operation.PRODUCT_SUM and is_exact:
        return
    require_alike(*write_result(operation), numeric_format)


# Honest numbers that the referee would convict
def list_faults(written: HandWritten, program: Program) -> list[str]:
    """Operations of honest elements that the referee convicts, or that two kernels compute differently."""
    step = judge(written, program, "exact15").step
    vectors, rows = draw_vectors(written.parameters), draw_rows()
    one, other = (
        Interpreter(
            step.built.program, step.built.constants, keeps_all=True, numeric_format="exact15", by_tensors=how
        )
        for how in (False, True)
    )
    for each in (one, other):
        each.run(vectors, *rows, torch.ones(3) / 8)

    def read(buffer: int, element: int) -> int:
        tensor = one.tensors[buffer].flatten()[element]
        is_float = tensor.dtype is torch.float32
        return int(tensor.view(torch.int32)) & 0xFFFFFFFF if is_float else int(tensor)

    faults = []
    for number, node in enumerate(program.nodes):
        for element in range(node.elements):
            buffer, at = node.output.buffer, locate(node.output, unravel(element, node.output_sizes))
            is_fault = judge_element(node, element, read, read(buffer, at), "exact15").is_fault
            if is_fault or not torch.equal(one.tensors[buffer], other.tensors[buffer]):
                faults.append(f"{number} {node.operation.name}")
    return faults


def flush_at(threshold: float) -> Written:
    """Zeros with a sign: no magnitude is below such a threshold."""
    written = HandWritten(8)
    least, zeros = written.constant([threshold]), written.constant([-0.0] * 8)
    new_w = written.flat(Operation.FLUSH, zeros, (least, 0))
    return written, written.finish(new_w, *written.copies(M, V))


def shrink_scales() -> Written:
    """Scales whose product is below all normal numbers."""
    written = HandWritten(8)
    small = written.flat(Operation.MULTIPLY, W, written.constant([1e-30] * 8))
    values, scales = written.quantize(small, 2, 4, 15)
    return write_square(written, values, scales, (scales, 0, (1, 0, 0)))


def write_square(
    written: HandWritten, values: int, scales: int, rows: tuple[int, int, tuple[int, ...]]
) -> Written:
    """The product of two rows with themselves. rows: where the scales of the left side lie."""
    product = written.node(
        Operation.QUANTIZED_PRODUCT_SUM, (2, 2, 4), (written.tensor(4), 0, (2, 1)), (values, 0, (4, 0, 1)),
        (values, 0, (0, 4, 1)), rows, (scales, 0, (0, 1, 0)), reduced=1,
    )  # fmt: skip
    new_w = written.node(Operation.COPY, (2, 4), (written.tensor(8), 0, (4, 1)), (product, 0, (0, 1)))
    return written, written.finish(new_w, *written.copies(M, V))


@pytest.mark.parametrize("make", [lambda: flush_at(0.0), lambda: flush_at(-0.0), shrink_scales])
def test_the_referee_convicts_no_honest_element(make: Callable[[], Written]) -> None:
    assert list_faults(*make()) == []


# Refused
def scale_by(add: Callable[[HandWritten], tuple[int, int, tuple[int, ...]]]) -> Written:
    written = HandWritten(8)
    values, scales = written.quantize(W, 2, 4, 15)
    return write_square(written, values, scales, add(written))


def mix_scales(written: HandWritten) -> tuple[int, int, tuple[int, ...]]:
    """One of two scales is one, the other any sum."""
    both, sums = written.tensor(2), written.constant([3e38, 3e38])
    written.node(Operation.SCALE_OF, (1, 4), (both, 0, (1,)), (W, 0, (4, 1)), reduced=1, selected=15)
    written.node(Operation.ADD, (1,), (both, 1, (1,)), (sums, 0, (1,)), (sums, 1, (1,)))
    return both, 0, (1, 0, 0)


def copy_a_constant(written: HandWritten) -> tuple[int, int, tuple[int, ...]]:
    return written.flat(Operation.COPY, written.constant([0.1]), size=1), 0, (0, 0, 0)


def leave_out() -> Written:
    written = HandWritten(8)
    written.tensor(5)
    return written, written.finish(*written.copies(W, M, V))


@pytest.mark.parametrize(("make", "said"), [
    (lambda: scale_by(mix_scales), "a scale for each row"),
    (lambda: scale_by(copy_a_constant), "a power of two"),
    (leave_out, "a node that writes it"),
])  # fmt: skip
def test_a_program_is_refused_before_it_is_computed(make: Callable[[], Written], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        judge(*make(), "exact15")


def move_by_noise(is_seen_in_training: bool) -> Written:
    """W moves by the sign of what is left of one sum, taken from both ends. In training alone: where the bias
    correction is not 1."""
    written, width = HandWritten(64), 64
    drawn = torch.randn(width, width, generator=torch.Generator().manual_seed(1))
    turned = written.tensor(width)
    for place in range(width):
        written.node(Operation.COPY, (1,), (turned, place, (1,)), (W, width - 1 - place, (1,)))
    sums = [
        written.node(
            Operation.PRODUCT_SUM, (width, width), (written.tensor(width), 0, (1,)),
            (written.constant(matrix.flatten()), 0, (width, 1)), (vector, 0, (0, 1)), reduced=1,
        )
        for matrix, vector in ((drawn, W), (drawn.flip(1), turned))
    ]  # fmt: skip
    numbers = written.constant([1.0, -1.0, 1e30])
    left = written.flat(Operation.SUBTRACT, *sums)
    if is_seen_in_training:
        gate = written.flat(Operation.SUBTRACT, (numbers, 0), (SCALARS, 1), size=1)
        left = written.flat(Operation.MULTIPLY, left, (gate, 0))
    large = written.flat(Operation.MULTIPLY, left, (numbers, 2))
    sign = written.flat(Operation.MAXIMUM, large, (numbers, 1))
    sign = written.flat(Operation.MINIMUM, sign, (numbers, 0))
    move = written.flat(Operation.MULTIPLY, sign, (SCALARS, 0))
    ones = written.constant([1.0] * width)
    new_w = written.flat(Operation.SUBTRACT, W, move)
    return written, written.finish(new_w, *written.copies(ones, V))


@pytest.mark.parametrize("is_seen_in_training", [False, True])
def test_noise_is_seen_where_neither_moment_shows_it(is_seen_in_training: bool) -> None:
    written, program = move_by_noise(is_seen_in_training)
    judged = judge(written, program, "float32")
    with pytest.raises(InvalidInput, match="rounding noise"):
        require_live_parameters(judged.step, judged.training, draw_vectors(64)[0], draw_rows())


def test_a_machine_that_trains_other_bits_than_it_traces_does_not_stake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, program = write_update()
    judged, weights = judge(written, program, "float32"), draw_vectors(LONG)[0]
    rehearse(begin_round(weights, 0), judged.training, draw_rows(), bytes(32))

    def train(*words: object) -> object:
        end, losses = train_segment(*words)  # type: ignore[arg-type]
        end.weights.view(torch.int32)[LONG // 2] ^= 1
        return end, losses

    monkeypatch.setattr(rehearsal, "train_segment", train)
    with pytest.raises(EnvironmentFault, match="other bits when it is trained"):
        rehearse(begin_round(weights, 0), judged.training, draw_rows(), bytes(32))


# Memory beside the tensors
@pytest.mark.parametrize("operation", [Operation.PRODUCT_SUM, Operation.SELECTED_SUM])
def test_copies_that_a_kernel_makes_are_told(operation: Operation) -> None:
    """Of operands that are read again and again: a matrix of 4 KB, 4,096 times."""
    written, many = HandWritten(8), 1 << 12
    small = written.constant(torch.ones(1024))
    if operation is Operation.PRODUCT_SUM:
        written.node(
            operation, (many, 2, 512), (written.tensor(2 * many), 0, (2, 1)), (small, 0, (0, 512, 1)),
            (small, 0, (0, 0, 1)), reduced=1,
        )  # fmt: skip
    else:
        written.node(
            operation, (many, 2, 512), (written.tensor(2 * many), 0, (2, 1)), (3, 0, (0, 0, 0)),
            (small, 0, (0, 0, 0)), reduced=1, selected=1,
        )  # fmt: skip
    assert count_scratch_bytes(written.nodes[-1]) >= 4 * 512 * many


def test_copies_of_selections_are_told() -> None:
    """Rows that each index has of its own are compared with all indices: every term is copied."""
    written, many = HandWritten(8), 1 << 12
    small, out = written.constant(torch.ones(1024)), written.tensor(many)
    selected = (many, 2, 512), (out, 0, (0, 1))
    index, row = (TOKENS_IN, 0, (0, 1, 0)), (small, 0, (0, 0, 1))
    own_rows = (small, 0, (0, 1, 1))
    for operation, operands, least in (
        (Operation.GATHER, (index, row), 28), (Operation.EQUAL_SELECT, (index, row, row), 1),
        (Operation.FINITE_SELECT, (row, row, row), 5),
    ):  # fmt: skip
        written.node(operation, (many, 2, 512), (written.tensor(1024 * many), 0, (1024, 512, 1)), *operands)
        assert count_scratch_bytes(written.nodes[-1]) >= least * 1024 * many, operation
    written.node(Operation.SELECTED_SUM, *selected, index, own_rows, reduced=1, selected=1)
    assert count_scratch_bytes(written.nodes[-1]) >= 5 * 1024 * many


def test_memory_of_a_trace_is_told() -> None:
    """Training looks through a copy; a trace has it whole, and here it is the largest tensor."""
    written, many = HandWritten(8), 1 << 16
    wide = written.tensor(8 * many)
    written.node(Operation.COPY, (many, 8), (wide, 0, (8, 1)), (W, 0, (0, 1)))
    rows = written.node(
        Operation.SUM, (many, 8), (written.tensor(many), 0, (1,)), (wide, 0, (8, 1)), reduced=1
    )
    program = written.finish(written.flat(Operation.ADD, W, rows), *written.copies(M, V))
    trained, traced = (Interpreter(program, written.constants, is_traced=traced) for traced in (False, True))
    assert trained.arena_bytes < 32 * many <= traced.arena_bytes <= measure_arena_bytes(program)
