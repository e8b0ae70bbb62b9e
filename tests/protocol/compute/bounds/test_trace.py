"""The root of a step's trace, a tree of trees, any run of which can be shown; and a step run again."""

import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.program.hand_written import HandWritten, M, V, W
from tests.task_models import DecoderStep, build_program
from tests.training_setting import build_trace_tree
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.bounds import trace_layers
from touchstone.protocol.compute.bounds.retrace import Retraced, retrace
from touchstone.protocol.compute.bounds.trace_layers import ROUNDED_FREELY, Layer, list_layers
from touchstone.protocol.compute.bounds.trace_tree import TraceTree
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.planning.copy_folding import find_foldable
from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes
from touchstone.protocol.compute.program.step import advance, compute_scalars
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import compute_root, hash_leaf, verify_path
from touchstone.protocol.spec.merkle_ranges import is_valid_range
from touchstone.protocol.spec.program import COMPUTED_ROLES, INDEX_ROLES, INPUTS, Program, Role, leaf_bytes
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig

Trace = dict[int, Tensor]
BEACON = b"\5" * 32


@pytest.fixture
def built(spec: TrainingSpec) -> BuiltProgram:
    return get_program(spec)


@pytest.fixture
def trace(built: BuiltProgram, state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> Trace:
    """One honest step's buffers."""
    interpreter = Interpreter(built.program, built.constants, keeps_all=True)
    vectors = (state.weights, state.first_moment, state.second_moment)
    interpreter.run(vectors, *get_batch(corpus, spec, bytes(32), 0, 0), compute_scalars(spec, 0, 0))
    return {number: values.clone() for number, values in interpreter.tensors.items()}


def encode(values: Tensor) -> bytes:
    """float32 or uint32, one by one, little-endian."""
    code = "I" if values.dtype == torch.int64 else "f"
    return struct.pack(f"<{values.numel()}{code}", *values.tolist())


def cut(program: Program, number: int, values: Tensor) -> list[bytes]:
    data, size = encode(values), leaf_bytes(program, number)
    return [data[i : i + size].ljust(size, b"\0") for i in range(0, len(data), size)]


def test_the_root_is_a_tree_of_trees(built: BuiltProgram, trace: Trace) -> None:
    program = built.program
    roots = [
        compute_root([hash_leaf(leaf) for leaf in cut(program, number, trace[number])])
        for number in range(len(program.buffers))
    ]
    tree = build_trace_tree(program, trace.__getitem__)
    assert tree.roots == roots and tree.root == compute_root(roots)
    for number in (0, 5, len(roots) - 1):
        verify_path(tree.root, roots[number], number, len(roots), tree.open_root(number))


def test_states_and_constants_have_the_roots_by_which_they_are_known(
    built: BuiltProgram, trace: Trace, state: TrainingState
) -> None:
    program, tree = built.program, build_trace_tree(built.program, trace.__getitem__)
    outputs = program.outputs
    stepped = TrainingState(
        trace[outputs.weights], trace[outputs.first_moment], trace[outputs.second_moment], 1, 1
    )
    for header, numbers in (
        (state_header(state), (0, 1, 2)),
        (state_header(stepped), (outputs.weights, outputs.first_moment, outputs.second_moment)),
    ):
        roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
        assert roots == tuple(tree.roots[number] for number in numbers)
    for number, buffer in enumerate(program.buffers):
        if buffer.role is Role.CONSTANT:
            assert tree.roots[number] == buffer.constant_root


def require_run(tree: TraceTree, trace: Trace, number: int, first: int, count: int) -> None:
    """The opened leaves are whole ones of the buffer's tree, and hold the run."""
    size, values = leaf_bytes(tree.program, number), trace[number]
    leaves, path = tree.open_run(number, first, count)
    start = 4 * first // size
    hashes = [hash_leaf(leaves[i : i + size]) for i in range(0, len(leaves), size)]
    total = len(cut(tree.program, number, values))
    assert is_valid_range(tree.roots[number], hashes, start, total, path)
    inside = 4 * first - start * size
    assert leaves[inside : inside + 4 * count] == encode(values[first : first + count])


def test_any_run_opens(built: BuiltProgram, trace: Trace) -> None:
    tree = build_trace_tree(built.program, trace.__getitem__)
    for number, buffer in enumerate(built.program.buffers):
        size = buffer.size
        for first, count in {(0, 1), (size - 1, 1), (0, size), (size // 3, max(1, size // 2))}:
            require_run(tree, trace, number, first, count)


def test_the_terms_of_every_sum_open_as_two_leaves_at_most(built: BuiltProgram, trace: Trace) -> None:
    program, tree = built.program, build_trace_tree(built.program, trace.__getitem__)
    for node in (node for node in program.nodes if node.reduced):
        for operand in node.operands:
            is_still = not any(operand.strides[len(node.output_sizes) :])
            count = 1 if is_still else node.terms
            leaves, _ = tree.open_run(operand.buffer, operand.offset, count)
            if count <= program.chunk_terms and leaf_bytes(program, operand.buffer) >= 4 * count:
                assert len(leaves) <= 2 * leaf_bytes(program, operand.buffer)


def test_indices_are_four_bytes(built: BuiltProgram, trace: Trace) -> None:
    tree = build_trace_tree(built.program, trace.__getitem__)
    tokens = INPUTS.index(Role.TOKENS)
    leaves, _ = tree.open_run(tokens, 0, 3)
    assert struct.unpack("<3I", leaves[:12]) == tuple(trace[tokens][:3].tolist())
    for bad in (-1, 1 << 32):
        changed = trace[tokens].clone()
        changed[1] = bad
        with pytest.raises(InvalidInput, match="outside of its table"):
            build_trace_tree(built.program, {**trace, tokens: changed}.__getitem__)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_part_of_a_trace(built: BuiltProgram, trace: Trace, value: float) -> None:
    last = len(built.program.buffers) - 1
    changed = trace[last].clone()
    changed[-1] = value
    trees = [build_trace_tree(built.program, t.__getitem__) for t in (trace, {**trace, last: changed})]
    assert trees[0].root != trees[1].root and trees[0].roots[:-1] == trees[1].roots[:-1]
    require_run(trees[1], {**trace, last: changed}, last, changed.numel() - 1, 1)


def test_every_buffer_counts(built: BuiltProgram, trace: Trace) -> None:
    roots = {build_trace_tree(built.program, trace.__getitem__).root}
    computed = [n for n, buffer in enumerate(built.program.buffers) if buffer.role is not Role.CONSTANT]
    for number in computed[:: len(computed) // 12]:
        changed = trace[number].clone()
        changed[-1] += 1
        roots.add(build_trace_tree(built.program, {**trace, number: changed}.__getitem__).root)
    assert len(roots) == 1 + len(computed[:: len(computed) // 12])


BAD: list[Callable[[Tensor], Tensor]] = [lambda t: t[1:], lambda t: t.double(), lambda t: t.view(1, -1)]


@pytest.mark.parametrize("change", BAD, ids=["short", "wide", "not flat"])
def test_what_is_not_the_program_s_is_refused(
    built: BuiltProgram, trace: Trace, change: Callable[[Tensor], Tensor]
) -> None:
    last = len(built.program.buffers) - 1
    with pytest.raises(InvalidInput, match="not the program's"):
        build_trace_tree(built.program, {**trace, last: change(trace[last])}.__getitem__)


def test_runs_that_are_not_there_are_refused(built: BuiltProgram, trace: Trace) -> None:
    tree, size = build_trace_tree(built.program, trace.__getitem__), built.program.buffers[0].size
    for first, count in ((0, 0), (-1, 2), (0, size + 1), (size, 1), (size - 1, 2)):
        with pytest.raises(InvalidInput, match="no such run of elements"):
            tree.open_run(0, first, count)


def test_a_tensor_that_changed_since_is_not_opened(built: BuiltProgram, trace: Trace) -> None:
    tree = build_trace_tree(built.program, trace.__getitem__)
    constant = next(n for n, b in enumerate(built.program.buffers) if b.role is Role.CONSTANT)
    for number in (constant, len(trace) - 1):
        trace[number] = trace[number] + 1
        with pytest.raises(InvalidInput, match="has changed since"):
            tree.open_run(number, 0, 1)


def test_larger_leaves_for_longer_sums(built: BuiltProgram, trace: Trace) -> None:
    """Only states and constants keep their roots when the chunk length changes."""
    longer = replace(built.program, chunk_terms=4096)
    roots = [build_trace_tree(p, trace.__getitem__).roots for p in (built.program, longer)]
    outputs = longer.outputs
    kept = {0, 1, 2, outputs.weights, outputs.first_moment, outputs.second_moment}
    for number, (before, after) in enumerate(zip(*roots, strict=True)):
        role = longer.buffers[number].role
        assert (before == after) == (number in kept or role is Role.CONSTANT)
        assert role not in INDEX_ROLES or before != after


# A step run again: the bits of training, and the trace of a run that keeps everything
@pytest.fixture
def batch(spec: TrainingSpec, corpus: Corpus) -> Batch:
    return get_batch(corpus, spec, BEACON, 0, 3)


@pytest.fixture
def retraced(spec: TrainingSpec, state: TrainingState, batch: Batch) -> Retraced:
    return retrace(state, spec, lambda _: batch, 3)


def test_retrace_ends_in_the_bits_of_training(
    spec: TrainingSpec, state: TrainingState, batch: Batch, retraced: Retraced
) -> None:
    stepped, _ = advance(state, batch, spec)
    for name in ("weights", "first_moment", "second_moment"):
        assert torch.equal(getattr(retraced.end, name), getattr(stepped, name))
    assert (retraced.end.local_step, retraced.end.global_step) == (stepped.local_step, stepped.global_step)


def test_retrace_hashes_what_an_interpreter_that_keeps_all_has(
    spec: TrainingSpec, state: TrainingState, batch: Batch, retraced: Retraced
) -> None:
    built = get_program(spec)
    interpreter = Interpreter(built.program, built.constants, keeps_all=True)
    vectors = (state.weights, state.first_moment, state.second_moment)
    interpreter.run(vectors, *batch, compute_scalars(spec, state.local_step, state.global_step))
    expected = build_trace_tree(built.program, lambda buffer: interpreter.tensors[buffer].reshape(-1))
    assert retraced.tree.roots == expected.roots
    number = len(built.program.buffers) - 1
    for buffer in (0, 3, 5, number):
        assert retraced.tree.open_run(buffer, 0, 1) == expected.open_run(buffer, 0, 1)


PLAIN = DecoderConfig(256, 64, 192, 3, 4, 4, 128)
MODELS = {
    "plain": PLAIN,
    "grouped": replace(PLAIN, kv_head_count=2),
    "tied": replace(PLAIN, intermediate_size=256, tied=True),
}
"""0.2 million parameters each."""


@pytest.fixture(params=sorted(MODELS))
def program(request: pytest.FixtureRequest) -> Program:
    return build_program(DecoderStep(MODELS[request.param], AdamW(), 8, 128, 512)).program


def list_cuts(program: Program, layers: list[Layer]) -> set[int]:
    return {program.nodes[layer.target].output.buffer for layer in layers if layer.is_cut}


def test_every_node_is_in_a_layer(program: Program) -> None:
    layers = list_layers(program)
    assert frozenset[int]().union(*(one.nodes for one in layers)) == frozenset(range(len(program.nodes)))
    assert all(one.target == max(one.nodes) for one in layers)
    assert [one.target for one in layers] == sorted(one.target for one in layers)


def test_a_layer_needs_its_cuts_and_nothing_else(program: Program) -> None:
    """What its nodes read is a cut, comes with the step, or is written by earlier nodes of the layer; a cut
    is whole before it is read, and its own layer comes first."""
    lifetimes, layers = compute_lifetimes(program), list_layers(program)
    cuts = list_cuts(program, layers)
    for layer in layers:
        written = set[int]()
        for number in sorted(layer.nodes):
            for buffer in {one.buffer for one in program.nodes[number].operands}:
                if program.buffers[buffer].role in COMPUTED_ROLES and buffer not in layer.cuts:
                    assert buffer in written
                assert buffer not in layer.cuts or lifetimes[buffer].written < number
            written.add(program.nodes[number].output.buffer)
        assert layer.cuts <= cuts
        assert not layer.cuts & written


def test_every_writer_of_a_cut_is_a_target_and_no_cut_is_a_copy(program: Program) -> None:
    """A kernel reads what was copied, not the copy."""
    layers = list_layers(program)
    cuts = list_cuts(program, layers)
    writers = {number for number, node in enumerate(program.nodes) if node.output.buffer in cuts}
    assert writers == {one.target for one in layers if one.is_cut}
    assert not cuts & find_foldable(program).keys()


def test_the_price_of_a_layer_is_what_its_nodes_round_freely(program: Program) -> None:
    for layer in list_layers(program):
        nodes = (program.nodes[number] for number in layer.nodes)
        assert layer.price == 4 * sum(one.elements for one in nodes if one.operation in ROUNDED_FREELY)


def test_all_cuts_and_the_dearest_layer_are_a_tenth_of_the_trace(program: Program) -> None:
    layers, sizes = list_layers(program), [one.size for one in program.buffers]
    cuts = list_cuts(program, layers)
    assert len(cuts) > 2 * PLAIN.layer_count
    assert 4 * sum(sizes[cut] for cut in cuts) + max(one.price for one in layers) < 0.1 * 4 * sum(sizes)


def write_comb(count: int) -> Program:
    """A chain, each node of which has one beside it that nobody reads."""
    written, last = HandWritten(8), W
    for _ in range(count):
        last = written.flat(Operation.ADD, last, W)
        written.flat(Operation.SQUARE_ROOT, last)
    return written.finish(last, *written.copies(M, V))


def measure_peak(program: Program) -> int:
    """Bytes that `list_layers` holds at most."""
    tracemalloc.start()
    list_layers(program)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_layers_take_memory_as_their_program_is_long() -> None:
    """Though a layer reaches back to the first node."""
    few, many = (measure_peak(write_comb(count)) for count in (125, 500))
    assert many < 8 * few
    layers = list_layers(write_comb(500))
    assert max(len(one.nodes) for one in layers) > 500


def test_where_cuts_are_hard_to_find_there_are_none(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_layers, "MOST_STEPS", 0)
    layers = list_layers(program)
    assert not list_cuts(program, layers)
    assert frozenset[int]().union(*(one.nodes for one in layers)) == frozenset(range(len(program.nodes)))
