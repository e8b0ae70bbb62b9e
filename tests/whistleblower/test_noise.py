"""Noise of this machine in a few elements excuses no others.

The start is boundary 0 of a usual round, and training is real. In the first step of a round the moments are
zero, so W moves by the sign of a gradient, however small that is: a few elements wander with the last bit of
the weights, all others stay within a third of a limit. A claim with every *other* element off is disputed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kit.nodes import change_spec
from tests.node.merging.stage import open_stage
from touchstone.node.models.own_openings import get_finished
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.compute.tolerance.compare import Verdict, compute_allowances, compute_excess
from touchstone.protocol.compute.tolerance.shaking import shake, unshake
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.task_spec import Limits
from touchstone.whistleblower.step_judging import Claimed, find_false_step

SHIPPED = Limits(
    *(int(tau * 2**64) if is_tau else int(tau * 2.0**149) for tau, is_tau in (
        (1.9e-4, True), (1e-5, False), (8.4e-4, True), (7.2e-15, False), (3.1e-4, True), (1.2e-7, True)))
)  # fmt: skip
"""Those of scripts/task.toml."""


@pytest.mark.parametrize(("limits", "off"), [(None, 30), (SHIPPED, 4)])
async def test_noise_in_one_element_excuses_no_other_one(
    tmp_path: Path, limits: Limits | None, off: float
) -> None:
    """30 limits: `learning rate x 0.999` and `weight decay x 1.1` lie 33 off in the attack suite (0016)."""
    async with open_stage(tmp_path, 1) as stage:
        await stage.commit(1)
        node, slot = stage.nodes[1], stage.get_slot(1)
        terms = replace(node.task.spec.terms, limits=limits or node.task.spec.terms.limits)
        change_spec(node, replace(node.task.spec, terms=terms))
        spec, header = node.task.spec, get_finished(node.get_view(), 0).boundaries[0]
        start, batches = node.rooms.tools.states.load(header), node.rooms.segments.get_batches(0, slot)
        own = train_segment(start, spec.training, batches, 0, 1)[0]
        place = (header.global_step, 1, spec.terms.inner_steps)
        rate_sum = compute_learning_rate_sum(spec.training.schedule, *place)
        noise = torch.zeros(own.elements, dtype=torch.float64)
        for seed in range(8):
            shaken = train_segment(shake(start, seed), spec.training, batches, 0, 1)[0]
            found = compute_excess(unshake(shaken, start, seed), own, rate_sum, spec.terms.limits)
            noise = torch.maximum(noise, found)
        calm = noise < 0.3
        assert calm.double().mean() > 0.98, "nearly all elements are judged well by the limits"

        # Every calm weight a little off, all the same way; the rest is honest.
        room = compute_allowances(own, rate_sum, spec.terms.limits)[0]
        moved = own.weights.double() + torch.where(calm, off * room, torch.zeros_like(room))
        claimed = replace(own, weights=moved.float())
        found_list: list[Verdict] = []
        claim = Claimed(Peer(node.account, "https://127.0.0.1:1", bytes(32)), 0, slot, 0)
        await node.list_challenges().step_judging.judge_steps(
            claim, [header, node.rooms.tools.states.keep(claimed)], found_list
        )
        assert found_list[0].excess == pytest.approx(off, rel=0.1)
        assert find_false_step(found_list) == 0, "all but a few weights are thirty limits off: not disputed"


async def test_elements_that_wander_excuse_no_others_at_another_place(tmp_path: Path) -> None:
    """The elements that wander are right to the bit in the claim. As many elements that this machine knows to
    a tenth of a limit are off by five times what the others wander."""
    async with open_stage(tmp_path, 1) as stage:
        await stage.commit(1)
        node, slot = stage.nodes[1], stage.get_slot(1)
        spec, header = node.task.spec, get_finished(node.get_view(), 0).boundaries[0]
        start, batches = node.rooms.tools.states.load(header), node.rooms.segments.get_batches(0, slot)
        own = train_segment(start, spec.training, batches, 0, 1)[0]
        rate = compute_learning_rate_sum(
            spec.training.schedule, header.global_step, 1, spec.terms.inner_steps
        )
        noises, limits = [], spec.terms.limits
        for seed in range(4):
            shaken = train_segment(shake(start, seed), spec.training, batches, 0, 1)[0]
            noises.append(compute_excess(unshake(shaken, start, seed), own, rate, limits))
        noise = torch.stack(noises).amax(0)
        calm = (noise < 0.05).nonzero().flatten()
        # A cheat does not know the node's seeds: it takes half of what its own shakes show.
        size = (5 * noise.sort(descending=True).values)[: len(calm)].clamp(max=90)
        count = int((size > 1.5).sum())
        # A row of its choice: the calm elements with the lowest numbers (of one matrix).
        chosen, off = calm[:count], size[:count]
        assert count > 0
        room = compute_allowances(own, rate, limits)[0]
        moved = own.weights.double()
        moved[chosen] += off * room[chosen]
        claimed = replace(own, weights=moved.float())
        found: list[Any] = []
        claim = Claimed(Peer(node.account, "https://127.0.0.1:1", bytes(32)), 0, slot, 0)
        await node.list_challenges().step_judging.judge_steps(
            claim, [header, node.rooms.tools.states.keep(claimed)], found
        )
        assert found[0].excess > 1.4
        assert find_false_step(found) == 0
