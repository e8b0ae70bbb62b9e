"""How a false end is grafted onto an honest trace: the trace of a false step is that of an honest one up to
the end, where the claimed weights and moments stand instead of the computed ones."""

from collections.abc import Mapping

from torch import Tensor

from touchstone.node.records.compute import Compute, Train
from touchstone.protocol.compute.bounds.retrace import Retraced, Show, ignore, retrace
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.merkle import Levels, compute_levels
from touchstone.protocol.spec.task_spec import TrainingSpec


def make_grafting_compute(train: Train) -> Compute:
    """Claims what `train` gives, and grafts it onto honest traces."""

    def retrace_grafted(
        start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
    ) -> Retraced:
        end, _ = train(start, spec, get_batch, inner_step, 1)
        outputs = get_program(spec).program.outputs
        results = (outputs.weights, outputs.first_moment, outputs.second_moment)
        grafts = dict(zip(results, end.vectors, strict=True))
        return graft(grafts, end, start, spec, get_batch, inner_step, show)

    return Compute(train, retrace_grafted)


def graft(
    grafts: Mapping[int, Tensor],
    end: TrainingState,
    start: TrainingState,
    spec: TrainingSpec,
    get_batch: GetBatch,
    inner_step: int,
    show: Show,
) -> Retraced:
    """An honest trace but for the buffers `grafts`."""

    def show_honest(number: int, data: memoryview, levels: Levels) -> None:
        if number not in grafts:
            show(number, data, levels)

    honest = retrace(start, spec, get_batch, inner_step, show_honest).tree

    def get(buffer: int) -> Tensor:
        return grafts[buffer] if buffer in grafts else honest.get(buffer)

    roots = list(honest.roots)
    for buffer in grafts:
        tree = build_buffer_tree(honest.program, get, buffer)
        roots[buffer] = tree.root
        show(buffer, tree.data, tree.levels)
    return Retraced(TraceTree(honest.program, compute_levels(roots), get), end)
