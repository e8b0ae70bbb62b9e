"""Measures the model that a round would have given with the claims that were left out of it."""

import asyncio
from dataclasses import dataclass

from touchstone.node.loop.node import Node
from touchstone.node.models.expected_merge import make_key
from touchstone.node.serving.heldout_reports import count_batches, make_evaluator
from touchstone.protocol.compute.batches import list_heldout_starts, read_known_rows
from touchstone.protocol.spec.game.state import GameRound


@dataclass(frozen=True)
class WithCheat:
    """The held-out loss after a round if the claims that were left out had been merged."""

    round: int
    loss: float


async def measure_with_all(node: Node, game_round: GameRound) -> WithCheat:
    """Merges all claims of a round, also those that were rejected, and measures the model on the rows of the
    task's own measurements. Raises ProtocolFault or EnvironmentFault if the bytes are not available."""
    training, inner_steps = node.task.spec.training, node.task.spec.terms.inner_steps
    slots = tuple(sorted(game_round.claims))
    made = await node.rooms.outer_steps.compute_merge(make_key(game_round, slots))
    starts = list_heldout_starts(training, count_batches(inner_steps) * training.sequences_per_step)
    corpus = node.rooms.tools.corpus
    await corpus.prepare(starts, training.sequence_tokens + 1)
    rows = await asyncio.to_thread(read_known_rows, corpus, training, starts)
    evaluator = make_evaluator(node.task.spec)
    found = await asyncio.to_thread(evaluator.measure, made.weights, rows.unbind())
    return WithCheat(game_round.index, found.loss)
