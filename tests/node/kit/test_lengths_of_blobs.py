"""Two lengths under one root: a root says nothing of zeros at the end of the last leaf.

One task may name a blob that another names with zeros behind. Neither takes it from the other.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.node.specs import get_spec
from tests.protocol.compute.program.hand_written import HandWritten, M, V, W, draw_rows, judge
from touchstone.node.kit.stored_step import keep_step, list_constants, open_step, refer_named
from touchstone.node.kit.trace_storage import TraceKeeper, describe_layout, load_buffer
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.program import known_steps
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.protocol.spec.program_codec import encode_program
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import NamedBytes
from touchstone.protocol.spec.weights_layout import encode_layout

SPEC = get_spec()
STEP = get_step(SPEC.training)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(known_steps, "_known", {})
    yield


def list_blobs() -> dict[str, bytes]:
    constants = [values.numpy().tobytes() for values in STEP.built.constants.values()]
    short = next(one for one in constants if len(one) % 1024)
    return {
        "program": encode_program(STEP.built.program),
        "layout": encode_layout(STEP.layout),
        "a constant": short,
    }


@pytest.mark.parametrize("name", ["program", "layout", "a constant"])
def test_a_strangers_task_takes_no_blob_from_another(name: str, tmp_path: Path) -> None:
    store = BlobStore(tmp_path, is_durable=False)
    keep_step(store, SPEC.training, STEP)
    honest = list_blobs()[name]
    longer = honest + bytes(4)
    named = NamedBytes(compute_data_root(longer), len(longer))
    assert named.root == compute_data_root(honest)
    ref = refer_named(named)
    if not store.has(ref):
        store.put(ref, longer)
    # As a replay process, a worker, or the node after a restart.
    found = open_step(store, SPEC.training, SPEC.terms.parameter_count)
    assert found.built.program == STEP.built.program


def test_one_task_with_two_constants_of_one_root(tmp_path: Path) -> None:
    """Of 1 and of 2 elements: both are had, and neither is fetched again."""
    written = HandWritten(8)
    one, two = written.constant([1.0]), written.constant([1.0, 0.0])
    new_w = written.flat(Operation.MULTIPLY, W, (one, 0))
    new_w = written.flat(Operation.ADD, new_w, (two, 1))
    program = written.finish(new_w, *written.copies(M, V))
    judged = judge(written, program, "float32")
    store = BlobStore(tmp_path, is_durable=False)
    known_steps._known.clear()
    for _ in range(3):
        for number, ref in list_constants(program).items():
            if not store.has(ref):
                store.put(ref, written.constants[number].numpy().tobytes())
    store.put(refer_named(judged.training.program), encode_program(program))
    store.put(refer_named(judged.training.layout), encode_layout(judged.step.layout))
    assert open_step(store, judged.training, 8)


def test_a_trace_is_kept_whole(tmp_path: Path) -> None:
    """Two tensors of one trace with one root, of 1 and of 2 zeros: an honest claimant shows both."""
    written = HandWritten(8)
    one = written.flat(Operation.SUBTRACT, (W, 0), (W, 0), size=1)
    two = written.flat(Operation.SUBTRACT, (W, 0), (W, 0), size=2)
    new_w = written.flat(Operation.ADD, written.flat(Operation.ADD, W, (one, 0)), (two, 1))
    program = written.finish(new_w, *written.copies(M, V))
    judged = judge(written, program, "exact15")
    layout, store = describe_layout(program), BlobStore(tmp_path, is_durable=False)
    keeper = TraceKeeper(store, layout, get_constant_roots(program))
    traced = retrace(begin_round(torch.ones(8), 0), judged.training, lambda _: draw_rows(), 0, keeper.keep)
    keeper.finish()
    for buffer in (one, two):
        load_buffer(store, traced.tree.roots[buffer], layout[buffer])
