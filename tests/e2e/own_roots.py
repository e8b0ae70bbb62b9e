"""The outer roots of a task, trained and merged again by the test itself."""

from collections.abc import Collection, Sequence
from functools import partial

from tests.task_models import draw_first
from touchstone.node.loop.joined import Joined
from touchstone.node.records.round_seats import get_shards
from touchstone.protocol.compute.batches import get_batch
from touchstone.protocol.compute.digest import outer_header
from touchstone.protocol.compute.outer.nesterov_step import begin_outer, merge
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.step import begin_round, replay_segment
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.game.state import GameRound


def compute_roots(task: Joined, rounds: Sequence[GameRound], left_out: Collection[int] = ()) -> list[bytes]:
    """The outer root after each of the first rounds of a task, where all claims are honest and merged, but
    those of seats that are left out; moments carry over."""
    training, terms, roots = task.spec.training, task.spec.terms, list[bytes]()
    outer = begin_outer(draw_first(training))
    carried: dict[int, TrainingState] = {}
    for game_round in rounds:
        shards, deltas = get_shards(game_round), dict[int, bytes]()
        for slot, seat in enumerate(game_round.pool.solvers):
            start = begin_round(outer.weights, game_round.index * terms.inner_steps, carried.get(seat))
            carried[seat] = _train(task, game_round, start, shards[slot])
            if seat not in left_out:
                deltas[shards[slot]] = encode_delta(outer.weights, carried[seat].weights)
        ordered = [deltas[shard] for shard in sorted(deltas)]
        outer = merge(outer, ordered, terms.outer_learning_rate, terms.outer_momentum)
        roots.append(compute_outer_root(outer_header(outer.weights, outer.momentum)))
    return roots


def _train(task: Joined, game_round: GameRound, start: TrainingState, shard: int) -> TrainingState:
    """The state at the end of one shard's round."""
    assert game_round.beacon is not None
    batches = partial(get_batch, task.rooms.tools.corpus, task.spec.training, game_round.beacon, shard)
    end, _ = replay_segment(start, task.spec.training, batches, 0, task.spec.terms.inner_steps)
    return end
