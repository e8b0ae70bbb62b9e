"""Results are written where they end: pieces in their whole, copies in their order, each element once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.model.position_tables import Tables
from protocol.compute.model.reference_model import build_tables, init_parameters
from protocol.compute.model.reference_step import plain_step
from protocol.compute.program.builder import Builder
from protocol.compute.program.layout import View, make_contiguous, reshape
from protocol.compute.program.step import compute_scalars
from protocol.compute.program.writer import (
    Absolute,
    Below,
    Call,
    LossGradient,
    Piece,
    Product,
    Writer,
    get_cat_dimension,
    get_only_stride,
    record,
    require_form,
    swap,
)
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Node, Operation, lay_row_major
from tests.protocol.compute.model.family_models import FAMILIES
from tests.protocol.compute.programs import Bench, require_single_writers

Function = Callable[..., Sequence[Tensor]]
A = torch.arange(12.0).reshape(4, 3) * 7 % 11 - 4.5
B = torch.arange(18.0).reshape(3, 6) * 5 % 13 - 6.25
"""A product of both is exact in float32, in any order."""
OTHER = torch.arange(24.0) - 11


def lower(function: Function, *inputs: Tensor) -> tuple[list[Node], tuple[View, ...]]:
    """The nodes of `function`, and where its results lie. They are PyTorch's, each element written once."""
    bench = Bench()
    views = bench.lower(function, *inputs)
    nodes = list(bench.nodes)
    require_single_writers(bench.finish()[0])
    for ours, expected in zip(bench.read(*views), function(*inputs), strict=True):
        assert ours.shape == expected.shape and torch.equal(ours, expected)
    return nodes, views


def list_operations(function: Function, *inputs: Tensor) -> list[str]:
    return [node.operation.name for node in lower(function, *inputs)[0]]


# --- Pieces -------------------------------------------------------------------------------------------------
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
    """An input has its own buffer; a result has one place, its first; a copy and a whole have their own."""
    assert list_operations(lambda a: (torch.cat([a, a + 1]),), A) == ["ADD", "COPY"]
    twice = list_operations(lambda a: (torch.cat([z := a + 1, a * 2]), torch.cat([z, a * 3])), A)
    assert sorted(twice) == ["ADD", "COPY", "MULTIPLY", "MULTIPLY"]
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


# --- Copies in another order --------------------------------------------------------------------------------
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


# --- Operands -----------------------------------------------------------------------------------------------
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


def test_pending_forms_without_values_are_no_operands() -> None:
    writer = Writer(Builder(128))
    a = writer.builder.add_tensor((4, 3))
    for pending in (Absolute(a), Below(a, 1.0), Piece(a, 0, 0, 8), LossGradient(a, 0.5), (a, a), None):
        with pytest.raises(InvalidInput, match="does not have|do not have as a tensor"):
            writer.view(pending)
    assert not writer.builder.nodes


def test_forms_and_dimensions_are_read_as_pytorch_means_them() -> None:
    call = Call("aten.cat.default", ((), -2), (2, 3, 4))
    assert [get_cat_dimension(Call(call.name, args, call.shape)) for args in (((),), ((), 2), call.args)] == [
        0,
        2,
        1,
    ]
    assert swap(4, 1, -1) == [0, 3, 2, 1] and swap(3, 2, 2) == [0, 1, 2]
    require_form(call, "a form", True)
    with pytest.raises(InvalidInput, match=r"aten\.cat\.default.*expected a form, got \(\(\), -2\)"):
        require_form(call, "a form", False)
    rows = make_contiguous(1, 0, (4, 3, 2))
    assert [get_only_stride(rows, dimension) for dimension in range(3)] == [6, 2, 1]
    turned = Bench().lower(lambda x: (x.transpose(0, 1),), torch.zeros(4, 3))[0]
    assert get_only_stride(turned, 0) == 1
    with pytest.raises(InvalidInput, match="not one loop"):
        get_only_stride(reshape(turned, (12,)), 0)


Line = tuple[str, tuple[int, ...] | None]
"""Name and shape; calls with several results have no shape."""


def list_graph(graph: GraphModule) -> list[Line]:
    lines: list[Line] = []
    for node in graph.graph.nodes:
        if node.op == "call_function":
            name = "getitem" if "getitem" in str(node.target) else str(node.target)
            lines.append((name, read_shape(node)))
    return lines


def read_shape(node: fx.Node) -> tuple[int, ...] | None:
    meta: Any = node.meta["tensor_meta"] if "tensor_meta" in node.meta else node.meta["val"]
    return tuple(meta.shape) if hasattr(meta, "shape") else None


@pytest.mark.parametrize("name", FAMILIES)
def test_the_record_is_what_make_fx_records(corpus: Corpus, spec: TrainingSpec, name: str) -> None:
    spec = replace(spec, model=FAMILIES[name], sequence_tokens=12)
    tables = build_tables(spec.model, 12)
    batch = get_batch(corpus, spec, bytes(32), 0, 0)
    weights = init_parameters(spec.model, 1)
    inputs = (
        weights, torch.zeros_like(weights), torch.zeros_like(weights), *batch, compute_scalars(spec, 0, 0),
        tables.cos_TN, tables.sin_TN, tables.mask_TS,
    )  # fmt: skip

    def step(*tensors: Tensor) -> tuple[Tensor, ...]:
        w, m, v, tokens, labels, scalars, *rest = tensors
        return tuple(plain_step(w, m, v, tokens, labels, scalars, Tables(*rest), spec.model, spec.optimizer))

    graph = make_fx(step, tracing_mode="real", decomposition_table={})(*inputs)
    recorded = record(step, inputs)
    has_parts = {call.args[0] for call in recorded.calls if call.name == "getitem"}
    ours = [(call.name, None if call in has_parts else call.shape) for call in recorded.calls]
    assert ours == list_graph(graph)
    assert len(recorded.inputs) == len(inputs) and len(recorded.outputs) == 4


def test_calls_are_joined_by_the_tensors_that_they_hand_on() -> None:
    def function(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        first, _ = (a @ b).unbind()
        return (torch.cat([first, first]), a)

    recorded = record(function, (torch.ones(2, 3), torch.ones(3, 4)))
    a, b = recorded.inputs
    product, unbind, first, second, joined = recorded.calls
    assert [call.name for call in recorded.calls] == [
        "aten.mm.default", "aten.unbind.int", "getitem", "getitem", "aten.cat.default",
    ]  # fmt: skip
    assert product.args == (a, b) and (product.shape, product.dtype) == ((2, 4), torch.float32)
    assert first.args == (unbind, 0) and second.args == (unbind, 1) and joined.args[0] == (first, first)
    assert recorded.outputs == (joined, a)
    assert a.users == b.users == [product] and product.users == [unbind] and second.users == []
    assert unbind.users == [first, second] and first.users == [joined, joined]
    assert isinstance(a, Call) and (a.name, a.shape) == ("input", (2, 3))


def test_what_lies_below_autograd_is_recorded() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            y = (leaf * leaf).sum()
        return torch.autograd.grad(y, [leaf])

    names = [call.name for call in record(function, (torch.ones(3),)).calls]
    assert names.count("aten.mul.Tensor") == 3 and "aten.expand.default" in names


def test_recording_changes_no_input() -> None:
    x = torch.arange(3.0)
    record(lambda t: (t * 2,), (x,))
    assert x.tolist() == [0, 1, 2]


def test_a_tensor_from_nowhere_is_not_taken_for_an_input() -> None:
    outside = torch.ones(3)
    with pytest.raises(KeyError):
        record(lambda t: (t + outside,), (torch.ones(3),))


def test_a_factor_among_the_keywords_is_refused() -> None:
    """a + 2 b must not become a + b."""
    with pytest.raises(InvalidInput, match="alpha"):
        record(lambda a, b: (torch.add(a, b, alpha=2),), (torch.ones(3), torch.ones(3)))
