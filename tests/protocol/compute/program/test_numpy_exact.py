"""The product's exact programs and a reading of the specification by itself give the same bits.

The start with large weights overflows: infinities and NaN flow through the step, and FINITE_SELECT leaves the
state as it was. The one with tiny weights computes with subnormal numbers."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.program import numpy_exact
from tests.protocol.compute.program.numpy_exact import Array, Floats, compute_buffers, run_program
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.exact import product_families
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import advance, compute_scalars
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec import exact, exact_elementwise, exact_sums
from touchstone.protocol.spec.program import COMPUTED_ROLES, Access, Node
from touchstone.protocol.spec.program_operations import OPERAND_COUNTS, Operation
from touchstone.protocol.spec.task_spec import TrainingSpec

STEPS = 12
STARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "usual": lambda weights: weights,
    "tiny": lambda weights: weights * 1e-40,
    "large": lambda weights: weights.where(torch.arange(len(weights)) % 97 != 0, 3e38),
}
FORMATS = pytest.mark.parametrize("numeric_format", ["exact8", "exact15", "exact20"])
CHUNKS = pytest.mark.parametrize("chunk_terms", [128, 4096])


@pytest.fixture(autouse=True)
def _measured() -> Iterator[None]:
    yield
    product_families.force_family(None)


def build(numeric_format: str, chunk_terms: int) -> tuple[TrainingSpec, BuiltProgram, dict[int, Floats]]:
    spec = build_tiny_training(numeric_format=numeric_format, chunk_terms=chunk_terms)
    built = get_program(spec)
    return spec, built, {number: values.numpy() for number, values in built.constants.items()}


def begin(state: TrainingState, start: str) -> TrainingState:
    return replace(state, weights=STARTS[start](state.weights))


def canonicalize(values: Array) -> Array:
    """Patterns as they are hashed; integers as they are."""
    if values.dtype != np.float32:
        return values
    return np.where(np.isnan(values), np.uint32(exact_elementwise.NAN), values.view(np.uint32))


def require_equal(own: Array, other: Array, what: object) -> None:
    assert own.dtype == other.dtype and own.shape == other.shape, what
    differing = np.flatnonzero(canonicalize(own) != canonicalize(other))
    assert not differing.size, (what, differing[:5], own[differing[:5]], other[differing[:5]])


@FORMATS
@CHUNKS
@pytest.mark.parametrize("start", STARTS)
def test_steps_have_the_bits_of_the_text(
    start: str, numeric_format: str, chunk_terms: int, corpus: Corpus, state: TrainingState
) -> None:
    spec, built, constants = build(numeric_format, chunk_terms)
    state = begin(state, start)
    begun = state
    vectors = [vector.numpy() for vector in state.vectors]
    for step in range(STEPS):
        tokens, labels = (indices.numpy() for indices in get_batch(corpus, spec, bytes(32), 0, step))
        scalars = compute_scalars(spec, state.local_step, state.global_step).numpy()
        w, m, v = vectors
        loss, *vectors = run_program(built.program, constants, w, m, v, tokens, labels, scalars)
        state, expected = advance(state, get_batch(corpus, spec, bytes(32), 0, step), spec)
        require_equal(np.array([loss]), np.array([expected], np.float32), (step, "loss"))
        for name, own, other in zip("Wmv", vectors, state.vectors, strict=True):
            require_equal(own, other.numpy(), (step, name))
    stays = all(torch.equal(a, b) for a, b in zip(begun.vectors, state.vectors, strict=True))
    assert stays == (start == "large")


@FORMATS
@CHUNKS
@pytest.mark.parametrize("family", ["bytes", "doubles"])
@pytest.mark.parametrize("start", STARTS)
def test_all_tensors_of_a_step_have_the_bits_of_the_text(
    start: str, family: str, numeric_format: str, chunk_terms: int, corpus: Corpus, state: TrainingState
) -> None:
    product_families.force_family(family)
    spec, built, constants = build(numeric_format, chunk_terms)
    state, batch = begin(state, start), get_batch(corpus, spec, bytes(32), 0, 0)
    scalars = compute_scalars(spec, 0, 0)
    traced = Interpreter(built.program, built.constants, is_traced=True, numeric_format=numeric_format)
    shown: dict[int, Array] = {}
    traced.run(state.vectors, *batch, scalars, lambda b, t: shown.update({b: t.clone().numpy()}))
    inputs = [tensor.numpy() for tensor in (*state.vectors, *batch, scalars)]
    buffers = compute_buffers(built.program, constants, inputs)
    computed = [n for n, buffer in enumerate(built.program.buffers) if buffer.role in COMPUTED_ROLES]
    assert set(computed) <= set(shown)
    for number in computed:
        require_equal(buffers[number], shown[number].reshape(-1), number)
    floats = [values for values in buffers if values.dtype == np.float32]
    if start == "large":
        assert any(np.isnan(values).any() for values in floats)
        assert any(np.isinf(values).any() for values in floats)


# One node
ELEMENTS = 300
TERMS = 5
EDGES = (0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0x42FFFFFF, 0x43000000, 0xC3000000,
         0x3FB504F3, 0x3FB504F4, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345)  # fmt: skip
ROWS = (Operation.SUM, Operation.MAXIMUM_OF, Operation.SCALE_OF)
ELEMENTWISE = (
    Operation.QUANTIZE, Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE,
    Operation.MAXIMUM, Operation.MINIMUM, Operation.SQUARE_ROOT, Operation.RECIPROCAL_ROOT,
    Operation.EXPONENTIAL, Operation.LOGARITHM, Operation.SIGMOID, Operation.FLUSH, Operation.FINITE_SELECT,
    Operation.COPY,
)  # fmt: skip


def draw(chance: np.random.Generator, count: int) -> NDArray[np.uint32]:
    """Patterns: any, usual numbers, edges, and those of one size next to each other."""
    kinds = (
        chance.integers(0, 2**32, count, dtype=np.uint32),
        (10 * chance.standard_normal(count)).astype(np.float32).view(np.uint32),
        chance.choice(np.array(EDGES, np.uint32), count),
        np.uint32(0x00800000) * chance.integers(0, 2, count, dtype=np.uint32)
        + chance.integers(0, 99, count, dtype=np.uint32),
    )
    # Rows of few kinds, so that not every row has a NaN.
    return np.choose(np.arange(count) // TERMS % len(kinds), kinds)


@pytest.mark.parametrize("bits", [8, 15, 20])
@pytest.mark.parametrize("operation", [*ROWS, *ELEMENTWISE])
def test_elements_are_those_of_the_slow_rules(operation: Operation, bits: int) -> None:
    chance = np.random.default_rng(bits)
    reduced = operation in ROWS
    has_bits = operation in (Operation.SCALE_OF, Operation.QUANTIZE)
    count = OPERAND_COUNTS[operation]
    size = ELEMENTS * (TERMS if reduced else 1)
    sizes, strides = ((ELEMENTS, TERMS), (TERMS, 1)) if reduced else ((ELEMENTS,), (1,))
    operands = tuple(Access(number, 0, strides) for number in range(count))
    node = Node(operation, sizes, int(reduced), Access(count, 0, (1,)), operands, bits if has_bits else 0)
    values = [draw(chance, size) for _ in operands]
    if operation is Operation.QUANTIZE:
        # Ties: halves of powers of two.
        values[1][::7] = (
            np.exp2(chance.integers(-30, 3, len(values[1][::7]))).astype(np.float32).view(np.uint32)
        )
    output: Array = np.zeros(ELEMENTS, np.int32 if operation is Operation.QUANTIZE else np.float32)
    with np.errstate(all="ignore"):
        numpy_exact.run_node(node, [*(value.view(np.float32) for value in values), output])
    rows = np.stack(values, -1).reshape(ELEMENTS, -1, count).tolist()
    expected = [exact.compute_element(operation, [tuple(term) for term in row], bits) for row in rows]
    assert canonicalize(output).tolist() == expected


def test_sums_keep_as_many_places_as_the_text_says() -> None:
    """Around 1 + 2^-24, a tie: terms of 2^-39, 2^-38 and more of them decide."""
    tails = [(0, 0), (1, 0), (2, 0), (3, 0), (-1, 0), (-2, 0), (-3, 0), (1, 1), (-1, -1), (2, -1), (-2, 1)]
    rows = np.array([(1.0, 2.0**-24, *(2.0**-39 * n for n in tail)) for tail in tails], np.float32)
    expected = [exact_sums.add_terms(row) for row in rows.view(np.uint32).tolist()]
    assert canonicalize(numpy_exact.sum_fixed(rows)).tolist() == expected
    assert len(set(expected)) == 2


@pytest.mark.parametrize("scale", [2.0**-149, 2.0**-80, 1.0, 2.0**115, float("nan")])
def test_product_sums_are_rounded_once(scale: float) -> None:
    chance = np.random.default_rng(3)
    factors = [chance.integers(-99, 99, (ELEMENTS, TERMS)).astype(np.int8) for _ in range(2)]
    factors[0][::9] = 0
    scales = [np.full(1, scale, np.float32), np.full(1, 2.0**-70, np.float32)]
    places = [Access(number, 0, (TERMS, 1)) for number in (0, 1)] + [Access(n, 0, (0, 0)) for n in (2, 3)]
    operation = Operation.QUANTIZED_PRODUCT_SUM
    node = Node(operation, (ELEMENTS, TERMS), 1, Access(4, 0, (1,)), tuple(places))
    output = np.zeros(ELEMENTS, np.float32)
    numpy_exact.run_node(node, [*(factor.reshape(-1) for factor in factors), *scales, output])
    a, b = (int(canonicalize(one)[0]) for one in scales)
    for element, found in enumerate(canonicalize(output).tolist()):
        pairs = zip(*(factor[element].tolist() for factor in factors), strict=True)
        assert found == exact.compute_element(operation, [(*pair, a, b) for pair in pairs])


@pytest.mark.parametrize("moves", [False, True])
def test_selected_sums_are_those_of_the_slow_rules(moves: bool) -> None:
    """Of one index for all rows, and of an index for each row."""
    chance, rows, columns = np.random.default_rng(4), 7, 40
    index = chance.integers(0, rows + 2, (rows if moves else 1) * TERMS)
    values = draw(chance, columns * TERMS)
    places = (Access(0, 0, (0, TERMS if moves else 0, 1)), Access(1, 0, (TERMS, 0, 1)))
    sizes = (columns, rows, TERMS)
    node = Node(Operation.SELECTED_SUM, sizes, 1, Access(2, 0, (rows, 1)), places, selected=1)
    output = np.zeros(columns * rows, np.float32)
    with np.errstate(all="ignore"):
        numpy_exact.run_node(node, [index, values.view(np.float32), output])
    for element, found in enumerate(canonicalize(output).tolist()):
        column, row = divmod(element, rows)
        chosen = index.reshape(-1, TERMS)[row if moves else 0] == row
        terms = values.reshape(columns, TERMS)[column, chosen].tolist()
        assert found == exact.compute_element(Operation.SELECTED_SUM, [(term,) for term in terms])
