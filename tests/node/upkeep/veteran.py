"""A solver with claims of many pruned rounds, all of which can still be disputed and asked about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.kit.nodes import TASK, change_spec
from tests.node.merging.stage import Stage, finish, open_stage
from tests.node.upkeep.test_pruning import list_due
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.compute import Compute
from touchstone.node.upkeep.pruning import Prune
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.scripts.roles.role_nodes import Member

SEGMENTS = 4


def lengthen(node: Member, rounds: int) -> None:
    """The task of a node has so many rounds."""
    training = node.task.spec.training
    longer = replace(training, schedule=replace(training.schedule, total_steps=8 * rounds))
    change_spec(node, replace(node.task.spec, training=longer))


@asynccontextmanager
async def open_veteran(folder: Path, rounds: int) -> AsyncIterator[tuple[Stage, Member]]:
    """`rounds` older rounds: trained, posted, pruned to boundary 0, inside of their dispute window."""
    async with open_stage(folder, 1, late_chance=0, rounds=rounds + 4) as stage:
        node = stage.nodes[1]
        lengthen(node, rounds + 4)
        await stage.commit(1)
        stage.draw()
        node.state._seated._members[node.account, TASK] += 1
        first = stage.world.state.rounds[0]
        slot, until = stage.get_slot(1), (first.closed or 0) + stage.world.state.terms.windows.dispute
        all_of_them = {}
        for index in range(rounds):
            one = replace(first, index=index, beacon=first.beacon if not index else make_word("b", index))
            stage.world.state = replace(stage.world.state, rounds={index: one})
            stage.sync()
            claim = await finish(node, index)
            claims = {slot: replace(first.claims[slot], claim_root=claim.claim_root)}
            words = {"phase": RoundPhase.POSTED, "root": one.base_root, "root_until": until}
            all_of_them[index] = replace(one, claims=claims, **words)  # type: ignore[arg-type]
        stage.world.state = replace(stage.world.state, rounds=all_of_them, next_round=rounds + 2)
        windows = stage.world.state.terms.windows
        stage.world.jump((first.closed or 0) + 3 * windows.audit_max + REORG_BLOCKS + 2)
        stage.sync()
        (prune,) = [one for one in list_due(node) if isinstance(one, Prune)]
        await prune.perform(node.rooms.pruning)
        for index in range(rounds):
            kept = [
                n
                for n, h in get_finished(node.get_view(), index).boundaries.items()
                if node.rooms.tools.states.has(h)
            ]
            assert kept == [0], "only the start is left of an older round"
        yield stage, node


def count_steps(node: Member) -> list[int]:
    """Steps that are trained from now on, one entry a call."""
    trained: list[int] = []

    def train(state: Any, spec: Any, batches: Any, step: int, steps: int) -> Any:
        trained.append(steps)
        return train_segment(state, spec, batches, step, steps)

    node.rooms.tools.cases.compute = Compute(train=train)
    return trained
