"""Work that was done already, by others, for another task or for an earlier segment, and the best of several
runs. The contract binds a claim to task, round, solver and segment; here is what a replay says of its
content.
"""

from tests.attacks.data import FAR
from tests.attacks.frame import Attack, count, share, whole
from tests.task_models import draw_first, get_model
from tests.training_setting import compute_heldout_loss
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec

SHARD_BEGINS = 3 * FAR
"""Data of another shard, which nobody has dealt to this solver."""
RUNS = 3


def _deal_elsewhere(batches: GetBatch, shift: int) -> GetBatch:
    def get(step: int) -> Batch:
        return batches(step + shift)

    return get


def claim_other_shard(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """What another solver made of the same start on its own shard, under this one's name."""
    return train_segment(state, spec, _deal_elsewhere(batches, SHARD_BEGINS), inner_step, steps)[0]


def claim_start(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """The state that the segment before ended in, once more."""
    return count(state, steps=steps)


def claim_other_task(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """A state of a task with another seed, trained as long as its own schedule allows."""
    fresh = begin_round(draw_first(spec, spec.initial_seed + 1), 0)
    end, _ = train_segment(fresh, spec, batches, 0, steps)
    return TrainingState(
        end.weights,
        end.first_moment,
        end.second_moment,
        state.local_step + steps,
        state.global_step + steps,
    )


def claim_best(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """Several runs on other orders of the data, of which the one that learned most is claimed."""
    trial = batches(inner_step)
    ends = [
        train_segment(state, spec, _deal_elsewhere(batches, run * FAR), inner_step, steps)[0]
        for run in range(1, RUNS + 1)
    ]
    return min(ends, key=lambda end: compute_heldout_loss(end.weights, trial, get_model(spec)))


ATTACKS = (
    Attack("15", "another solver's work", whole(claim_other_shard), share(1.0)),
    Attack("16", "old work again", whole(claim_start), share(1.0)),
    Attack("16", "another task's work", whole(claim_other_task), share(1.0)),
    Attack("17", "best of several runs", whole(claim_best)),
)
