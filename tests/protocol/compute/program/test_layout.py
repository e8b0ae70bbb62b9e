"""Views: whatever is done to one, its elements are those that PyTorch's tensor has after the same."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.layout import (
    LayoutError,
    View,
    compose,
    count,
    divide,
    expand,
    find_foldable,
    fold,
    insert,
    join,
    make_contiguous,
    narrow,
    permute,
    refine,
    remove,
    reshape,
    simplify,
    split,
    straighten,
)
from protocol.compute.program.task_program import ProgramConfig, build_program
from protocol.spec.containers import OptimizerConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.program import (
    REDUCTIONS,
    Access,
    Buffer,
    Node,
    Operation,
    Outputs,
    Program,
    Role,
    is_run,
    lay_row_major,
    locate,
    require_valid,
    unravel,
)
from tests.protocol.compute.conftest import TINY
from tests.protocol.compute.programs import NO_INDEX, NOTHING, Bench, read_view

OFFSET = 3
Pair = tuple[View, Tensor]
"""A view of a buffer of consecutive numbers, and the tensor that it should look like."""


def start(shape: list[int]) -> Pair:
    size = prod(shape)
    return make_contiguous(0, OFFSET, shape), torch.arange(OFFSET, OFFSET + size).reshape(shape)


def draw_factors(data: st.DataObject, total: int) -> list[int]:
    """Sizes whose product is `total`."""
    sizes: list[int] = []
    while total > 1 and len(sizes) < 3:
        sizes.append(data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0])))
        total //= sizes[-1]
    return [*sizes, total]


def draw_dimension(data: st.DataObject, tensor: Tensor) -> int:
    return data.draw(st.integers(0, tensor.dim() - 1))


def do_permute(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    order = data.draw(st.permutations(range(tensor.dim())))
    return permute(view, order), tensor.permute(order)


def do_reshape(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    shape = draw_factors(data, tensor.numel())
    return reshape(view, shape), tensor.reshape(shape)


def do_expand(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    shape = [data.draw(st.integers(1, 3)) if size == 1 else size for size in tensor.shape]
    shape = data.draw(st.lists(st.integers(1, 2), max_size=1)) + shape
    return expand(view, shape), tensor.expand(shape)


def do_narrow(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    dimension = draw_dimension(data, tensor)
    first = data.draw(st.integers(0, tensor.shape[dimension] - 1))
    length = data.draw(st.integers(1, tensor.shape[dimension] - first))
    return narrow(view, dimension, first, length), tensor.narrow(dimension, first, length)


def do_insert(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    dimension = data.draw(st.integers(0, tensor.dim()))
    return insert(view, dimension), tensor.unsqueeze(dimension)


def do_divide(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    dimension = draw_dimension(data, tensor)
    sizes = draw_factors(data, tensor.shape[dimension])
    return divide(view, dimension, sizes), tensor.reshape(
        *tensor.shape[:dimension], *sizes, *tensor.shape[dimension + 1 :]
    )


def do_join(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    first, last = sorted((draw_dimension(data, tensor), draw_dimension(data, tensor)))
    return join(view, first, last), tensor.flatten(first, last)


STEPS: list[Callable[[st.DataObject, View, Tensor], Pair]] = [
    do_permute, do_reshape, do_expand, do_narrow, do_insert, do_divide, do_join,
]  # fmt: skip


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_a_view_looks_like_the_tensor(shape: list[int], data: st.DataObject) -> None:
    buffer = torch.arange(OFFSET + prod(shape))
    view, tensor = start(shape)
    for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=6)):
        assume(tensor.numel() < 2000 and tensor.dim() < 7)
        try:
            view, tensor = step(data, view, tensor)
        except LayoutError:  # no strides describe it
            continue
        assert view.shape == tuple(tensor.shape)
        assert torch.equal(read_view(view, buffer), tensor)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_a_row_major_tensor_can_be_reshaped_and_permuted_in_any_way(
    shape: list[int], data: st.DataObject
) -> None:
    """Of a row-major tensor nothing is refused, and what a permutation and a merge lead to is not either."""
    view, tensor = do_permute(data, *do_reshape(data, *start(shape)))
    merged = reshape(view, (tensor.numel(),))
    assert torch.equal(read_view(merged, torch.arange(OFFSET + prod(shape))), tensor.reshape(-1))


# --- Examples -----------------------------------------------------------------------------------------------
def test_simplify_drops_single_steps_and_joins_what_follows() -> None:
    assert simplify([(2, 12), (1, 99), (3, 4), (4, 1)]) == ((24, 1),)
    assert simplify([(2, 0), (3, 0)]) == ((6, 0),)
    assert simplify([(2, 1), (3, 2)]) == ((2, 1), (3, 2))
    assert simplify([(1, 5)]) == ()


def test_a_dimension_is_split_from_the_inside() -> None:
    assert split(((6, 10), (4, 1)), (3, 2, 4)) == (((3, 20),), ((2, 10),), ((4, 1),))
    assert split(((6, 10), (4, 1)), (2, 12)) == (((2, 30),), ((3, 10), (4, 1)))


@pytest.mark.parametrize("sizes", [(6, 4), (23,), (12,), (5, 5), (48,)])
def test_an_uneven_split_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError):
        split(((4, 7), (6, 1)), sizes)


def test_narrow_takes_whole_outer_steps_only() -> None:
    view = View(0, 0, (((3, 100), (4, 7)),))
    assert narrow(view, 0, 4, 8) == View(0, 100, (((2, 100), (4, 7)),))
    for first, length in ((2, 4), (4, 6)):
        with pytest.raises(LayoutError, match="cuts through"):
            narrow(view, 0, first, length)


@pytest.mark.parametrize("first, length", [(-1, 2), (2, 2), (0, 4)])
def test_narrow_stays_inside(first: int, length: int) -> None:
    with pytest.raises(LayoutError):
        narrow(make_contiguous(0, 0, (3,)), 0, first, length)


def test_only_dimensions_of_one_element_are_removed_or_repeated() -> None:
    view = make_contiguous(0, 0, (2, 1))
    assert remove(view, 1).shape == (2,) and expand(view, (2, 5)).shape == (2, 5)
    with pytest.raises(LayoutError):
        remove(view, 0)
    with pytest.raises(LayoutError):
        expand(view, (4, 1))


def test_refinement_cuts_all_views_at_the_same_places() -> None:
    sizes, strides = refine([((24, 1),), ((6, 10), (4, 1)), ((2, 0), (12, 5))])
    assert sizes == (2, 3, 4)
    assert strides == [(12, 4, 1), (30, 10, 1), (0, 20, 5)]
    assert refine([(), ()]) == ((), [(), ()])


def test_refinement_is_refused_where_there_is_none() -> None:
    with pytest.raises(LayoutError, match="do not match"):
        refine([((4, 1),), ((6, 1),)])
    with pytest.raises(LayoutError, match="no common refinement"):
        refine([((2, 3), (3, 1)), ((3, 2), (2, 1))])


@given(st.data())
def test_refined_loops_reach_the_same_elements(data: st.DataObject) -> None:
    total = data.draw(st.sampled_from([1, 8, 12, 24]))
    dimensions = []
    for _ in range(3):
        sizes = draw_factors(data, total)
        dimensions.append(simplify([(size, data.draw(st.integers(0, 50))) for size in sizes]))
    try:
        loops, strides = refine(dimensions)
    except LayoutError:
        return
    buffer = torch.arange(50 * total * 4)
    for dimension, own in zip(dimensions, strides, strict=True):
        reached = buffer.as_strided(loops, own).reshape(-1)
        assert count(dimension) == total
        assert torch.equal(reached, read_view(View(0, 0, (dimension,)), buffer))


CONFIG = ProgramConfig(TINY, OptimizerConfig(), 4, 16, 128)
SOURCE, SUMS, MORE, COPIED = range(4)


def make_program(*nodes: Node, size: int = 24) -> Program:
    """Nodes over a source and two outputs; not valid by itself, for it has no inputs."""
    buffers = tuple(Buffer(Role.TENSOR, size) for _ in range(3))
    return Program(128, buffers, nodes, Outputs(SUMS, SUMS, SUMS, SUMS))


def add_rows(offset: int, *strides: int, output: int = SUMS, sizes: tuple[int, ...] = (2, 3)) -> Node:
    """Sums over the last loop."""
    target = Access(output, 0, lay_row_major(sizes[:-1]))
    return Node(Operation.SUM, sizes, 1, target, (Access(SOURCE, offset, strides),))


# --- Where copies stand -------------------------------------------------------------------------------------
def test_scattered_terms_are_copied_before_their_reader() -> None:
    other = add_rows(0, 3, 1)
    program = straighten(make_program(other, add_rows(5, 1, 7)))
    copy = Node(Operation.COPY, (2, 3), 0, Access(COPIED, 0, (3, 1)), (Access(SOURCE, 5, (1, 7)),))
    reader = replace(add_rows(0, 3, 1), operands=(Access(COPIED, 0, (3, 1)),))
    assert program.nodes == (other, copy, reader) and program.buffers[COPIED] == Buffer(Role.TENSOR, 6)


@pytest.mark.parametrize("strides", [(3, 1), (1, 1), (0, 1), (1, 0), (-3, 1)])
def test_runs_stay_where_they_are(strides: tuple[int, int]) -> None:
    program = make_program(add_rows(3, *strides))
    assert straighten(program) == program


def test_only_loops_that_move_the_operand_are_copied() -> None:
    """The sum over pairs (t, u) of rows s, repeated along r."""
    node = Node(
        Operation.SUM, (2, 3, 2, 2), 2, Access(SUMS, 0, (3, 1)), (Access(SOURCE, 0, (0, 1, 6, 3)),)
    )  # fmt: skip
    copy, reader = straighten(make_program(node)).nodes
    assert (copy.sizes, copy.operands[0].strides) == ((3, 2, 2), (1, 6, 3))
    assert reader.operands[0] == Access(COPIED, 0, (0, 4, 2, 1))


def test_terms_that_repeat_in_part_are_copied_out() -> None:
    node = Node(Operation.SUM, (2, 3), 2, Access(SUMS, 0, ()), (Access(SOURCE, 0, (0, 1)),))
    copy, reader = straighten(make_program(node)).nodes
    assert (copy.sizes, copy.operands[0].strides, reader.operands[0].strides) == ((2, 3), (0, 1), (3, 1))


def test_equal_elements_share_a_copy() -> None:
    same = add_rows(0, 0, 1, 7, sizes=(4, 2, 3))
    nodes = straighten(make_program(add_rows(0, 1, 7), same, add_rows(1, 1, 7), add_rows(0, 1, 7))).nodes
    copied = [node.output.buffer for node in nodes if node.operation is Operation.COPY]
    assert copied == [COPIED, COPIED + 1]
    assert [n.operands[0].buffer for n in nodes if n.operation is Operation.SUM] == [
        COPIED, COPIED, COPIED + 1, COPIED,
    ]  # fmt: skip


def test_elementwise_operands_may_lie_anywhere() -> None:
    node = Node(Operation.SQUARE_ROOT, (2, 3), 0, Access(SUMS, 0, (3, 1)), (Access(SOURCE, 0, (1, 7)),))
    program = make_program(node)
    assert straighten(program) == program


def test_an_index_is_not_copied() -> None:
    operands = (Access(SOURCE, 0, (0, 2)), Access(MORE, 0, (0, 1)))
    node = Node(Operation.SELECTED_SUM, (2, 3), 1, Access(SUMS, 0, (1,)), operands)
    program = make_program(node)
    indexed = replace(program, buffers=(Buffer(Role.LABELS, 24), *program.buffers[1:]))
    with pytest.raises(InvalidInput, match="indices of a sum.*at buffer 0"):
        straighten(indexed)


def test_every_sum_of_a_step_reads_runs_and_every_copy_is_read() -> None:
    program = build_program(CONFIG).program
    require_valid(program)
    reduced = [node for node in program.nodes if node.reduced]
    assert all(node.operation in REDUCTIONS for node in reduced) and len(reduced) > 50
    for node in reduced:
        for operand in node.operands:
            assert is_run(operand.strides[len(node.output_sizes) :], node.reduced_sizes)
    copies = {node.output.buffer for node in program.nodes if node.operation is Operation.COPY}
    assert copies == find_foldable(program).keys() and len(copies) > 50


# --- Doing without them -------------------------------------------------------------------------------------
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


def test_no_copy_of_a_step_is_run_or_has_memory_but_in_traces() -> None:
    built = build_program(CONFIG)
    copies = find_foldable(built.program).keys()
    trained, traced = (Interpreter(built.program, built.constants, is_traced) for is_traced in (False, True))
    assert not copies & trained.tensors.keys() and copies <= traced.tensors.keys()
    folded = fold(built.program, keeps_copies=False)
    assert Operation.COPY not in {node.operation for node in folded.nodes}
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
