"""A step that is trained in tiles, by several threads, has the bits of one that is traced.

Libraries compute whole vectors of a processor in one way and what is left over in another.
"""

from collections.abc import Iterator

import pytest
import torch

from tests.protocol.compute.program.hand_written import (
    SCALARS,
    HandWritten,
    M,
    V,
    W,
    draw_rows,
    draw_vectors,
    judge,
)
from touchstone.protocol.compute.bounds.live_parameters import require_live_parameters
from touchstone.protocol.compute.bounds.rehearsal import rehearse
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.program_operations import Operation
from touchstone.scripts.tasks.decoder_table import record_decoder
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.record_step import Shape

STEPS = 6


@pytest.fixture(params=[(2, 70_000), (3, 236_608), (4, 70_000)])
def size(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param[0])
    yield request.param[1]
    torch.set_num_threads(before)


def write(size: int) -> tuple[HandWritten, Program]:
    written = HandWritten(size)
    late, zero, near, scale = (written.constant([x]) for x in (0.2, 0.0, 1e-3, 1.0))
    # 0 in the first two steps of a round, when 1 - beta1^t is 0.1 and 0.19.
    gate = written.flat(Operation.SUBTRACT, (SCALARS, 1), (late, 0), size=1)
    gate = written.flat(Operation.MAXIMUM, gate, (zero, 0), size=1)
    first = written.flat(Operation.SIGMOID, W)
    gated = written.flat(Operation.MULTIPLY, first, (gate, 0))
    kept = written.flat(Operation.MULTIPLY, W, (scale, 0))
    new_w = written.flat(Operation.ADD, kept, gated)
    return written, written.finish(new_w, *written.copies(M, V))


def test_what_is_trained_is_what_is_traced(size: int) -> None:
    written, program = write(size)
    judged, rows = judge(written, program, "float32"), draw_rows()
    weights = draw_vectors(size)[0] * 3
    require_live_parameters(judged.step, judged.training, weights, rows)
    # What a node does before it stakes looks at two steps.
    rehearse(begin_round(weights, 0), judged.training, rows, bytes(32))
    end, _ = train_segment(begin_round(weights, 0), judged.training, lambda _: rows, 0, STEPS)
    state = begin_round(weights, 0)
    for step in range(STEPS):
        state = retrace(state, judged.training, lambda _: rows, step).end
    differing = (end.weights.view(torch.int32) != state.weights.view(torch.int32)).sum()
    assert int(differing) == 0, f"{int(differing)} weights of an honest claim are not those of its trace"


@pytest.mark.parametrize("threads", [3, 4])
def test_a_plain_decoder_is_trained_as_it_is_traced(threads: int) -> None:
    """Few numbers were concerned, and not with all values: a rehearsal may pass."""
    before = torch.get_num_threads()
    model = DecoderConfig(64, 48, 131, 1, 2, 2, 128)
    step = record_decoder(model, AdamW(), Shape(4, 128, "float32", 512))
    program, count = step.built.program, step.built.program.buffers[0].size
    chance = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 64, (2, 4, 128), generator=chance)
    vectors = step.weights * 3, torch.zeros(count), torch.zeros(count)
    torch.set_num_threads(threads)
    try:
        trained, traced = (
            Interpreter(program, step.built.constants, is_traced=how).run(
                vectors, rows[0], rows[1], torch.tensor([1e-3, 0.1, 0.05])
            )
            for how in (False, True)
        )
    finally:
        torch.set_num_threads(before)
    differing = sum(
        int((one.view(torch.int32) != other.view(torch.int32)).sum())
        for one, other in zip(trained[:3], traced[:3], strict=True)
    )
    assert not differing, f"{differing} numbers of a state"
