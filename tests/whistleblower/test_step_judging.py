"""A step beyond the limits is disputed, unless this machine's own noise in that step covers it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.node.merging.stage import open_stage
from touchstone.node.kit.states import StateStore
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.compute import Compute
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import Verdict, judge_state
from touchstone.protocol.compute.tolerance.within_limits import SHAKES
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.whistleblower.step_judging import Claimed, find_false_step


@pytest.mark.parametrize("chaotic", [None, 1, SHAKES])
async def test_a_step_that_a_shaken_bit_moves_as_far_is_drift(tmp_path: Path, chaotic: int | None) -> None:
    """chaotic: which of the node's own results lies as far off as the claim; the others lie close by."""
    async with open_stage(tmp_path, 1) as stage:
        await stage.commit(1)
        node, slot = stage.nodes[1], stage.get_slot(1)
        training, header = node.task.spec.training, get_finished(node.get_view(), 0).boundaries[1]
        start, batches = node.rooms.tools.states.load(header), node.rooms.segments.get_batches(0, slot)
        end = train_segment(start, training, batches, node.task.spec.terms.segment_steps, 1)[0]
        limits, terms = node.task.spec.terms.limits, node.task.spec.terms
        rate_sum = compute_learning_rate_sum(training.schedule, header.global_step, 1, terms.inner_steps)

        def move(part: float) -> TrainingState:
            return replace(end, weights=end.weights * (1 + part))

        # Five limits off: the distance grows with what the weights are moved by.
        claimed = move(5e-3 / judge_state(move(1e-3), end, rate_sum, limits).excess)

        shakes = 0

        def train(state: Any, *arguments: Any) -> Any:
            nonlocal shakes
            result, losses = train_segment(state, *arguments)
            shakes += not torch.equal(state.weights, start.weights)
            return (replace(result, weights=claimed.weights) if shakes == chaotic else result), losses

        node.rooms.tools.cases.compute = Compute(train=train)
        place = Claimed(Peer(node.account, "https://127.0.0.1:1", bytes(32)), 0, slot, 1)
        found: list[Verdict] = []
        await node.list_challenges().step_judging.judge_steps(
            place, [header, node.rooms.tools.states.keep(claimed)], found
        )
        assert found[0].excess == pytest.approx(5, rel=0.1)
        assert find_false_step(found) == (0 if chaotic is None else None)
        assert shakes == (chaotic or SHAKES), "it stops where it is explained"


async def test_what_one_look_has_fetched_stays_until_the_last_look_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a segment is the start of the next one, and both may be judged at once."""
    async with open_stage(tmp_path, 1, 2) as stage:
        await stage.commit(1)
        owner, node = stage.nodes[1], stage.nodes[2]
        header = get_finished(owner.get_view(), 0).boundaries[1]
        claimed = Claimed(Peer(owner.account, "https://127.0.0.1:1", bytes(32)), 0, 0, 0)

        async def fetch(*_: Any) -> None:
            node.rooms.tools.states.keep(owner.rooms.tools.states.load(header))

        monkeypatch.setattr(StateStore, "fetch", fetch)
        first, second = (
            node.list_challenges().step_judging.borrow_state(claimed, header),
            node.list_challenges().step_judging.borrow_state(claimed, header),
        )
        await first.__aenter__()
        await second.__aenter__()
        await first.__aexit__(None, None, None)
        assert node.rooms.tools.states.has(header), "the second look still needs it"
        await second.__aexit__(None, None, None)
        assert not node.rooms.tools.states.has(header) and not node.rooms.tools.cases.borrowed
