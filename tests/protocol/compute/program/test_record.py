"""The record of a step is what make_fx records, who made and who uses a tensor is known, and nothing of a
call is lost."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.model.position_tables import Tables
from protocol.compute.model.reference_model import build_tables, init_parameters
from protocol.compute.model.reference_step import plain_step
from protocol.compute.program.record import Call, record
from protocol.compute.program.step import compute_scalars
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from tests.protocol.compute.model.family_models import FAMILIES

Line = tuple[str, tuple[int, ...] | None]
"""Name and shape; calls with several results have no shape."""


def list_graph(graph: GraphModule) -> list[Line]:
    lines: list[Line] = []
    for node in graph.graph.nodes:
        if node.op == "call_function":
            name = "getitem" if "getitem" in str(node.target) else str(node.target)
            lines.append((name, read_shape(node)))
    return lines


def read_shape(node: Node) -> tuple[int, ...] | None:
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
