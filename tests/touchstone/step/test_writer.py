"""Results are written where they end: pieces in their whole, copies in their order, each element once."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.programs import Bench, require_single_writers
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Node, Outputs, Program
from touchstone.protocol.spec.program_addressing import lay_row_major
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.program_rules import find_early_reader
from touchstone.step.builder import Builder
from touchstone.step.pending import Pieces, Product
from touchstone.step.recordings import Call
from touchstone.step.views import View, make_contiguous, reshape
from touchstone.step.writer import Writer, get_cat_dimension, get_only_stride, require_form, swap

Function = Callable[..., Sequence[Tensor]]
A = torch.arange(12.0).reshape(4, 3) * 7 % 11 - 4.5
B = torch.arange(18.0).reshape(3, 6) * 5 % 13 - 6.25
"""A product of both is exact in float32, in any order."""
OTHER = torch.arange(24.0) - 11


def lower(function: Function, *inputs: Tensor) -> tuple[list[Node], tuple[View, ...]]:
    """The nodes of `function`, and where its results lie. They are PyTorch's, each element written once, and
    none is read before its tensor is complete."""
    for shares_pieces in (True, False):
        bench = Bench(shares_pieces=shares_pieces)
        views = bench.lower(function, *inputs)
        nodes = list(bench.nodes)
        buffers = tuple(bench.builder.buffers)
        if find_early_reader(Program(128, buffers, tuple(nodes), Outputs(0, 0, 0, 0))) is None:
            break
    require_single_writers(bench.finish()[0])
    for ours, expected in zip(bench.read(*views), function(*inputs), strict=True):
        assert ours.shape == expected.shape and torch.equal(ours, expected)
    return nodes, views


def list_operations(function: Function, *inputs: Tensor) -> list[str]:
    return [node.operation.name for node in lower(function, *inputs)[0]]


RENAMED: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda z: z,
    "transposed": lambda z: z.t(),
    "viewed": lambda z: z.view(2, 2, 6),
    "cut and turned": lambda z: z.view(2, 2, 3, 2).transpose(0, 3).transpose(1, -2),
    "turned and viewed": lambda z: z.t().view(3, 2, 4),
    "detached": lambda z: z.detach().view(2, 12).detach().t(),
}


@pytest.mark.parametrize("name", RENAMED)
@pytest.mark.parametrize("is_last", [False, True])
def test_a_piece_under_any_name_is_written_into_its_whole(name: str, is_last: bool) -> None:
    """The product is computed in place and not copied; so is the other piece, of the same shape."""

    def function(a: Tensor, b: Tensor, other: Tensor) -> Sequence[Tensor]:
        piece = RENAMED[name](a @ b)
        pieces = [piece, other.view(piece.shape) * 2]
        return (torch.cat(pieces[::-1] if is_last else pieces, -1),)

    assert sorted(list_operations(function, A, B, OTHER)) == ["MULTIPLY", "PRODUCT_SUM"]


def test_a_piece_that_belongs_elsewhere_is_copied_once() -> None:
    """An input has its own buffer; a copy and a whole have their own. A result lies in one whole at most, and
    in none where somebody reads it before the whole is complete."""
    assert list_operations(lambda a: (torch.cat([a, a + 1]),), A) == ["ADD", "COPY"]
    twice = list_operations(lambda a: (torch.cat([z := a + 1, a * 2]), torch.cat([z, a * 3])), A)
    assert sorted(twice) == ["ADD", "COPY", "COPY", "MULTIPLY", "MULTIPLY"]
    nested = list_operations(lambda a: (torch.cat([torch.cat([a + 1, a * 2]), a - 3], 0),), A)
    assert sorted(nested) == ["ADD", "MULTIPLY", "SUBTRACT"], "a whole that is itself a piece"
    copied = list_operations(lambda a, b: (torch.cat([(a @ b).t().contiguous(), b.t() * 2], 1),), A, B)
    assert sorted(copied) == ["COPY", "MULTIPLY", "PRODUCT_SUM"]
    read = list_operations(lambda a: (torch.cat([z := a + 1, a * 2], 1), z.t() @ z), A)
    assert sorted(read) == ["ADD", "MULTIPLY", "PRODUCT_SUM"]


@pytest.mark.parametrize("is_turned", [False, True])
def test_both_slices_of_a_gradient_are_written_into_it(is_turned: bool) -> None:
    def pad(piece: Tensor, start: int) -> Tensor:
        padded: Tensor = torch.ops.aten.slice_backward(piece, [4, 8], 1, start, start + piece.shape[1], 1)
        return padded

    def function(a: Tensor, b: Tensor) -> Sequence[Tensor]:
        first, second = pad(a * 2, 0), pad((a @ b)[:, :5] * 1.5, 3)
        return (second + first,) if is_turned else (first + second,)

    nodes, _ = lower(function, A, B)
    written = [node.output for node in nodes if node.operation is Operation.MULTIPLY]
    assert sorted(output.offset for output in written) == [0, 3]
    assert len({output.buffer for output in written}) == 1 and len(nodes) == 3


def is_row_major(view: View) -> bool:
    return view == make_contiguous(view.buffer, view.offset, view.shape)


@pytest.mark.parametrize("make", [
    lambda a, b: a @ b,
    lambda a, b: (a @ b) + 1,
    lambda a, b: torch.bmm(a.view(1, 4, 3), b.view(1, 3, 6)).view(4, 6),
])  # fmt: skip
def test_a_result_that_is_only_copied_is_written_in_the_order_of_its_copy(
    make: Callable[[Tensor, Tensor], Tensor],
) -> None:
    nodes, (view,) = lower(lambda a, b: (make(a, b).t().contiguous(),), A, B)
    assert is_row_major(view) and nodes[-1].output.buffer == view.buffer
    assert nodes[-1].output.strides != lay_row_major(nodes[-1].output_sizes)
    assert all(node.operation is not Operation.COPY for node in nodes)


def test_a_result_with_other_readers_stays_in_its_own_order() -> None:
    """The copy is another name of it."""
    nodes, (copy, other) = lower(lambda a, b: ((z := a @ b).t().contiguous(), z.t() @ z), A, B)
    assert not is_row_major(copy) and nodes[0].output.buffer == copy.buffer
    assert [node.operation for node in nodes] == [Operation.PRODUCT_SUM] * 2
    assert is_row_major(other)
    nodes, (copy, _) = lower(lambda a, b: ((y := (a @ b).t()).contiguous(), y @ a), A, B)
    assert not is_row_major(copy) and len(nodes) == 2, "a reader of another name is a reader"
    nodes, (copy,) = lower(lambda a: ((a * 2).t().contiguous(),), A)
    assert not is_row_major(copy) and len(nodes) == 1, "only products and sums are turned"


def test_numbers_share_a_constant_and_pending_products_are_computed_when_read() -> None:
    bench = Bench()
    writer, a = Writer(bench.builder), bench.add(A)
    assert writer.view(a) is a
    tenth, again, one = writer.view(0.1), writer.view(0.1), writer.view(1)
    assert tenth == again and (tenth.shape, one.shape) == ((), ()) and tenth.offset != one.offset
    product = writer.view(Product(a, a))
    call = Call("aten.add.Tensor", (), (4, 3))
    total = writer.map(call, Operation.ADD, Product(a, a), 0.1)
    assert [node.operation.name for node in bench.nodes] == ["MULTIPLY", "ADD"]
    squares, sums = bench.read(product, total)
    assert torch.equal(squares, A * A) and torch.equal(sums, A * A + 0.1)
    assert bench.builder.numbers == [float(torch.tensor(0.1)), 1.0] and writer.place_of(call) is None


def test_what_is_no_tensor_is_no_operand() -> None:
    writer = Writer(Builder(128))
    a = writer.builder.add_tensor((4, 3))
    for value in ((a, a), None, "a"):
        with pytest.raises(InvalidInput, match="neither a tensor nor a number"):
            writer.view(value)
    assert not writer.builder.nodes


def test_pieces_are_put_together_only_where_they_are_apart() -> None:
    builder = Builder(128)
    low, high = (Pieces(0, 8, ((start, builder.add_tensor((4, 3))),)) for start in (0, 4))
    both = low.join(high)
    assert both is not None and both.is_whole and not low.is_whole and high.join(low) == both
    assert low.join(Pieces(0, 8, ((2, builder.add_tensor((4, 3))),))) is None, "they overlap"
    assert low.join(Pieces(1, 8, high.parts)) is None, "cut along another dimension"


def test_forms_and_dimensions_are_read_as_pytorch_means_them() -> None:
    call = Call("aten.cat.default", ((), -2), (2, 3, 4))
    assert [get_cat_dimension(Call(call.name, args, call.shape)) for args in (((),), ((), 2), call.args)] == [
        0,
        2,
        1,
    ]
    assert swap(4, 1, -1) == [0, 3, 2, 1] and swap(3, 2, 2) == [0, 1, 2]
    require_form(call, "a form", True)
    with pytest.raises(InvalidInput, match=r"expected a form, got aten\.cat\.default of \(\(\), -2\)"):
        require_form(call, "a form", False)
    rows = make_contiguous(1, 0, (4, 3, 2))
    assert [get_only_stride(rows, dimension) for dimension in range(3)] == [6, 2, 1]
    turned = Bench().lower(lambda x: (x.transpose(0, 1),), torch.zeros(4, 3))[0]
    assert get_only_stride(turned, 0) == 1
    with pytest.raises(InvalidInput, match="not one loop"):
        get_only_stride(reshape(turned, (12,)), 0)
