"""Programs without their copies: the same bits, and no memory for what is only copied."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.compute.conftest import TINY
from tests.protocol.compute.programs import NO_INDEX, NOTHING, Bench
from tests.task_models import DecoderStep, build_program
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.planning.copy_folding import compose, find_foldable, fold
from touchstone.protocol.spec.program import Access, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_addressing import lay_row_major, locate, unravel
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.optimizers import AdamW
from touchstone.step.views import (
    View,
    expand,
    insert,
    permute,
)

CONFIG = DecoderStep(TINY, AdamW(), 4, 16, 128)
SOURCE, SUMS, MORE, COPIED = range(4)


def make_program(*nodes: Node, size: int = 24) -> Program:
    """Nodes over a source and two outputs; not valid by itself, for it has no inputs."""
    buffers = tuple(Buffer(Role.TENSOR, size) for _ in range(3))
    return Program(128, buffers, nodes, Outputs(SUMS, SUMS, SUMS, SUMS))


def add_rows(offset: int, *strides: int, output: int = SUMS, sizes: tuple[int, ...] = (2, 3)) -> Node:
    """Sums over the last loop."""
    target = Access(output, 0, lay_row_major(sizes[:-1]))
    return Node(Operation.SUM, sizes, 1, target, (Access(SOURCE, offset, strides),))


def make_copy(sizes: tuple[int, ...], offset: int, *strides: int, target: int = COPIED) -> Node:
    output = Access(target, 0, lay_row_major(sizes))
    return Node(Operation.COPY, sizes, 0, output, (Access(SOURCE, offset, strides),))


@given(st.data())
def test_composed_accesses_name_what_was_copied(data: st.DataObject) -> None:
    """Element by element, for any loops over any part of a copy of anything."""
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    strides = [data.draw(st.sampled_from([0, 1, 2, 5, 9])) for _ in sizes]
    copy = make_copy(sizes, data.draw(st.integers(0, 3)), *strides)
    loops = data.draw(st.lists(st.integers(-1, len(sizes) - 1), max_size=4))
    starts = [data.draw(st.integers(0, size - 1)) for size in sizes]
    own = [0 if k < 0 else copy.output.strides[k] for k in loops]
    access = Access(COPIED, locate(copy.output, tuple(starts)), tuple(own))
    inner = tuple(data.draw(st.integers(1, 3 if k < 0 else sizes[k] - starts[k])) for k in loops)
    composed = compose(access, inner, copy)
    if composed is None:  # two loops along one dimension, further than it goes
        assert len({k for k in loops if k >= 0}) < sum(k >= 0 for k in loops)
        return
    copied = [locate(copy.operands[0], unravel(n, sizes)) for n in range(copy.elements)]
    for number in range(Node(Operation.SUM, inner, 0, composed, ()).elements):
        indices = unravel(number, inner)
        assert locate(composed, indices) == copied[locate(access, indices)]


@pytest.mark.parametrize(
    "access, sizes",
    [
        (Access(COPIED, 0, (1,)), (6,)),  # across rows
        (Access(COPIED, 0, (2,)), (2,)),
        (Access(COPIED, 0, (4,)), (2,)),
        (Access(COPIED, 1, (1,)), (3,)),
        (Access(COPIED, 3, (3,)), (2,)),
        (Access(COPIED, 5, (-1,)), (2,)),
        (Access(COPIED, 0, (1, 1)), (2, 3)),
    ],
)
def test_accesses_in_other_loops_are_not_composed(access: Access, sizes: tuple[int, ...]) -> None:
    assert compose(access, sizes, make_copy((2, 3), 0, 1, 7)) is None


READ = Node(Operation.SUM, (2, 3), 1, Access(SUMS, 0, (1,)), (Access(COPIED, 0, (3, 1)),))
WHOLE = make_copy((2, 3), 5, 1, 7)


def fold_of(*nodes: Node, copied: int = 6) -> tuple[Node, ...]:
    program = make_program(*nodes)
    return fold(replace(program, buffers=(*program.buffers, Buffer(Role.TENSOR, copied))), False).nodes


def test_readers_of_a_copy_read_what_was_copied() -> None:
    folded = replace(READ, operands=(Access(SOURCE, 5, (1, 7)),))
    assert fold_of(WHOLE, READ) == (folded,)
    program = replace(make_program(WHOLE, READ), buffers=(*make_program().buffers, Buffer(Role.TENSOR, 6)))
    assert fold(program, keeps_copies=True).nodes == (WHOLE, folded)


def test_a_copy_of_a_copy_is_looked_through() -> None:
    again = Node(Operation.COPY, (3, 2), 0, Access(MORE, 0, (2, 1)), (Access(COPIED, 0, (1, 3)),))
    reader = replace(READ, sizes=(3, 2), operands=(Access(MORE, 0, (2, 1)),))
    program = make_program(WHOLE, again, reader)
    sized = (*program.buffers[:MORE], Buffer(Role.TENSOR, 6), Buffer(Role.TENSOR, 6))
    (folded,) = fold(replace(program, buffers=sized), keeps_copies=False).nodes
    assert folded.operands == (Access(SOURCE, 5, (7, 1)),)


@pytest.mark.parametrize(
    "nodes, copied",
    [
        ((replace(WHOLE, operation=Operation.SQUARE_ROOT), READ), 6),
        ((WHOLE, READ), 7),
        ((replace(WHOLE, output=Access(COPIED, 1, (3, 1))), READ), 7),
        ((replace(WHOLE, output=Access(COPIED, 0, (1, 2))), READ), 6),
        ((WHOLE, READ, replace(READ, sizes=(1, 6), operands=(Access(COPIED, 0, (0, 1)),))), 6),
        ((replace(WHOLE, output=Access(SUMS, 0, (3, 1))),), 6),
    ],
    ids=["another operation", "a piece", "from the middle", "columns first", "across rows", "a result"],
)  # fmt: skip
def test_other_copies_are_made(nodes: tuple[Node, ...], copied: int) -> None:
    assert fold_of(*nodes, copied=copied) == nodes


def test_a_table_is_not_looked_through() -> None:
    """Where a GATHER reads is not known before."""
    operands = (Access(MORE, 0, (1, 0)), Access(COPIED, 0, (0, 1)))
    gather = Node(Operation.GATHER, (2, 3), 0, Access(SUMS, 0, (3, 1)), operands, 3)
    assert fold_of(WHOLE, gather) == (WHOLE, gather)


def test_no_whole_copy_of_a_step_is_run_or_has_memory_but_in_traces() -> None:
    built = build_program(CONFIG)
    copies = find_foldable(built.program).keys()
    trained, traced = (Interpreter(built.program, built.constants, is_traced) for is_traced in (False, True))
    assert not copies & trained.tensors.keys() and copies <= traced.tensors.keys()
    folded = fold(built.program, keeps_copies=False)
    pieces = [node for node in folded.nodes if node.operation is Operation.COPY]
    assert all(node.elements < folded.buffers[node.output.buffer].size for node in pieces)
    # A half of what is turned by its position: of queries and of keys, forward and backward.
    assert len(pieces) == 4 * TINY.layer_count
    assert len(folded.nodes) == len(built.program.nodes) - len(copies)


def finish_products(bench: Bench, seed: int) -> tuple[View, torch.Tensor]:
    """A batch of products of transposed matrices, computed from computed ones."""
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(3, 20, size, generator=generator) for size in (7, 9))
    doubled = [bench.builder.map(Operation.ADD, view, view) for view in (bench.add(a), bench.add(b))]
    left, right = (permute(view, (0, 2, 1)) for view in doubled)
    operands = [expand(insert(left, 2), (3, 7, 9, 20)), expand(insert(right, 1), (3, 7, 9, 20))]
    return bench.builder.contract(Operation.PRODUCT_SUM, operands, 1), 4 * a.transpose(1, 2) @ b


def test_traces_and_training_give_the_same_bits_and_traces_show_the_copies() -> None:
    bench = Bench()
    product, expected = finish_products(bench, 0)
    program, constants = bench.finish([product])
    copies = [node for node in program.nodes if node.operation is Operation.COPY and node.elements > 1]
    assert [node.sizes for node in copies] == [(3, 7, 20), (3, 9, 20)]
    kept = Interpreter(program, constants, keeps_all=True)
    inputs = ((NOTHING,) * 3, NO_INDEX, NO_INDEX, NOTHING)
    results = [i.run(*inputs).weights for i in (kept, Interpreter(program, constants))]
    assert torch.equal(*results)
    torch.testing.assert_close(results[0].view(3, 7, 9), expected)
    for node in copies:
        copied, source = (
            kept.tensors[x.buffer].as_strided(
                node.sizes, x.strides, kept.tensors[x.buffer].storage_offset() + x.offset
            )
            for x in (node.output, node.operands[0])
        )
        assert torch.equal(copied, source) and copied.norm() > 0


def test_a_streamed_trace_holds_all_that_a_node_reads_by_the_program() -> None:
    """The copy, which its kernel does not read, and what was copied, which the program does not read."""
    bench = Bench()
    product, _ = finish_products(bench, 1)
    program, constants = bench.finish([product])
    whole, streamed = (
        Interpreter(program, constants, is_traced=True, keeps_all=keeps_all) for keeps_all in (True, False)
    )
    inputs = ((NOTHING,) * 3, NO_INDEX, NO_INDEX, NOTHING)
    whole.run(*inputs)
    for number in streamed.iterate(*inputs):
        node = program.nodes[number]
        for access in (*node.operands, node.output):
            assert torch.equal(streamed.tensors[access.buffer], whole.tensors[access.buffer])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(3)), st.permutations(range(3)))
def test_sums_over_any_order_are_the_same_sums(seed: int, order: list[int], other: list[int]) -> None:
    values = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(seed))
    bench = Bench()
    views = [permute(bench.add(values.permute(o).contiguous()), [o.index(i) for i in range(3)])
             for o in (order, other)]  # fmt: skip
    total = bench.builder.contract(Operation.PRODUCT_SUM, views, 2)
    torch.testing.assert_close(bench.read(total)[0], values.square().sum((1, 2)))
