"""After an older root fell the next claim goes on from moments that were pruned: they are trained again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.node.merging.stage import finish, open_stage
from tests.node.upkeep.test_pruning import list_due
from tests.node.upkeep.veteran import lengthen
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.models.own_openings import get_finished
from touchstone.node.training.claims import find_carried
from touchstone.node.upkeep.pruning import Prune
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.timing import REORG_BLOCKS

ROUNDS = 4


async def test_after_a_fall_the_next_claim_can_be_trained(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, late_chance=0, rounds=ROUNDS + 4) as stage:
        node = stage.nodes[1]
        lengthen(node, ROUNDS + 4)
        await stage.commit(1)
        stage.draw()
        world, slot = stage.world, stage.get_slot(1)
        first, done, root = world.state.rounds[0], dict[int, Any](), world.state.rounds[0].base_root
        until = (first.closed or 0) + world.state.terms.windows.dispute
        for index in range(ROUNDS):
            beacon = make_word("b", index) if index else first.beacon
            one = replace(first, index=index, base_root=root, beacon=beacon, merged=())
            world.state = replace(world.state, rounds=done | {index: one})
            stage.sync()
            claim = await finish(node, index)
            one = replace(one, claims={slot: replace(first.claims[slot], claim_root=claim.claim_root)})
            world.state = replace(world.state, rounds=done | {index: one})
            stage.sync()
            root = get_root(await node.rooms.outer_steps.merge_claims(make_key(one, (slot,))))
            done[index] = replace(one, phase=RoundPhase.POSTED, root=root, merged=(slot,), root_until=until)
        # All four are posted; the node prunes as it always does.
        world.state = replace(world.state, rounds=done, next_round=ROUNDS, root=root)
        world.jump((first.closed or 0) + 3 * world.state.terms.windows.audit_max + REORG_BLOCKS + 2)
        stage.sync()
        (prune,) = [one for one in list_due(node) if isinstance(one, Prune)]
        await prune.perform(node.rooms.pruning)
        # Round 1 falls within its window. It stands or is posted again without this claim; rounds 2 and 3 are
        # undone, and the task is started again: round 4 goes on from the moments of the claim of round 0.
        fallen = replace(done[1], phase=RoundPhase.STANDING, root=None, merged=(), signers=())
        undone = {index: replace(done[index], phase=RoundPhase.UNDONE) for index in (2, 3)}
        base = done[1].base_root
        new = replace(first, index=ROUNDS, base_root=base, beacon=make_word("new"), claims={}, merged=(),
                      phase=RoundPhase.RUNNING, closed=None, seed=None)  # fmt: skip
        rounds = {0: done[0], 1: fallen, **undone, ROUNDS: new}
        world.state = replace(world.state, rounds=rounds, next_round=ROUNDS + 1, root=base)
        stage.sync()
        carried = find_carried(node.get_view(), node.game, ROUNDS)
        ends = get_finished(node.get_view(), 0).boundaries
        assert carried == ends[max(ends)] and not node.rooms.tools.states.has(carried), "it was pruned"
        for due in list_due(node):
            await due.perform(node.rooms.pruning)
        await finish(node, ROUNDS)
