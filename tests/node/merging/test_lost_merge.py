"""After pruning, a reorg, a fall or a restart a node has what it needs to defend a root that it signed."""

from pathlib import Path

from tests.node.merging.stage import Stage, open_stage
from touchstone.node.models.claim_openings import is_fetched
from touchstone.node.models.expected_merge import make_key
from touchstone.node.models.outer_step import FetchDelta
from touchstone.protocol.adapters.store.blobs import refer_tensor

ALL = (0, 1, 2)


def drop_merge(stage: Stage, seed: int, slots: tuple[int, ...]) -> list[bool]:
    """Delete the tensors of a node's merge, as pruning does; whether they were there."""
    node = stage.nodes[seed]
    made = node.rooms.tools.claims.merges[make_key(stage.world.state.rounds[0], slots)]
    count = node.task.spec.terms.parameter_count
    refs = [refer_tensor(root, count) for root in (made.weights_root, made.momentum_root)]
    found = [node.store.has(ref) for ref in refs]
    for ref in refs:
        node.store.delete(ref.key)
    return found


async def test_a_merge_whose_tensors_were_deleted_is_computed_again(tmp_path: Path) -> None:
    """The record alone trains nothing and answers no contest; after a fall or a reorg the same merge may be
    posted."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round = stage.draw()
        await stage.fetch_all(1)
        node, key = stage.nodes[1], make_key(game_round, ALL)
        made = await node.rooms.outer_steps.merge_claims(key)
        records = len(list(node.journal.replay()))
        assert drop_merge(stage, 1, ALL) == [True, True]
        assert await node.rooms.outer_steps.merge_claims(key) == made
        assert drop_merge(stage, 1, ALL) == [True, True], "they are back"
        assert len(list(node.journal.replay())) == records, "and nothing is said twice"


async def test_a_work_leaf_outlives_a_restart(tmp_path: Path) -> None:
    """Its solver may not show it again, and without it the leaf of a right root cannot be brought."""
    async with open_stage(tmp_path, 2, 3) as stage:
        async with stage.open(1):
            await stage.commit(1, 2, 3)
            game_round = stage.draw()
            await stage.fetch_all(1)
            known = dict(stage.nodes[1].rooms.tools.claims.proofs)
        async with stage.open(1) as node:
            node.state.network.peers.clear()
            for slot in ALL:
                proof = await node.rooms.claim_data.find_work(game_round, game_round.claims[slot])
                assert proof in known.values() and not is_fetched(node.get_view(), game_round, slot)
                await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(node.rooms.outer_steps)
