"""In an exact task a step of other bits is disputed, however near it lies: auditors reject such a segment,
and limits and noise mean nothing where honest machines have equal bits (docs/spec.md, 3 and 13.4)."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.kit.nodes import change_spec
from tests.node.merging.stage import open_stage
from tests.node.specs import get_spec
from touchstone.node.models.own_openings import get_finished
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.compute.tolerance.compare import Verdict, compute_allowances
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.whistleblower.step_judging import Claimed, find_false_step


@pytest.mark.parametrize(("off", "false_step"), [(0.5, 0), (30, 0), (0, None)])
async def test_a_step_of_other_bits_is_disputed(tmp_path: Path, off: float, false_step: int | None) -> None:
    async with open_stage(tmp_path, 1, is_exact=True) as stage:
        await stage.commit(1)
        node, slot = stage.nodes[1], stage.get_slot(1)
        change_spec(node, get_spec("exact15"))
        assert node.game.terms.is_exact
        spec, header = node.task.spec, get_finished(node.get_view(), 0).boundaries[0]
        start, batches = node.rooms.tools.states.load(header), node.rooms.segments.get_batches(0, slot)
        own = train_segment(start, spec.training, batches, 0, 1)[0]
        rate_sum = compute_learning_rate_sum(spec.training.schedule, 0, 1, spec.terms.inner_steps)
        room = compute_allowances(own, rate_sum, spec.terms.limits)[0]
        claimed = node.rooms.tools.states.keep(
            replace(own, weights=(own.weights.double() + off * room).float())
        )
        found: list[Verdict] = []
        claim = Claimed(Peer(node.account, "https://127.0.0.1:1", bytes(32)), 0, slot, 0)
        await node.list_challenges().step_judging.judge_steps(claim, [header, claimed], found)
        assert find_false_step(found) == false_step


async def test_a_step_that_leaves_the_finite_numbers_is_false_whatever_is_claimed(tmp_path: Path) -> None:
    """As in other tasks, where such a step is beyond all limits."""
    async with open_stage(tmp_path, 1, is_exact=True) as stage:
        await stage.commit(1)
        node, slot = stage.nodes[1], stage.get_slot(1)
        change_spec(node, get_spec("exact15"))
        start = node.rooms.tools.states.load(get_finished(node.get_view(), 0).boundaries[0])
        steep = replace(
            start,
            first_moment=torch.full_like(start.first_moment, 3e38),
            second_moment=torch.zeros_like(start.second_moment),
        )
        around = [
            node.rooms.tools.states.keep(state)
            for state in (steep, replace(steep, local_step=1, global_step=1))
        ]
        found: list[Verdict] = []
        claim = Claimed(Peer(node.account, "https://127.0.0.1:1", bytes(32)), 0, slot, 0)
        await node.list_challenges().step_judging.judge_steps(claim, around, found)
        assert find_false_step(found) == 0
