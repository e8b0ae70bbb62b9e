"""After pruning, a reorg, a fall or a restart a node has what it needs to defend a root that it signed."""

from pathlib import Path

from tests.kit.views import rooms_of, view_of
from tests.node.merging.stage import Stage, open_stage
from touchstone.node.models.claim_openings import is_fetched
from touchstone.node.models.expected_merge import make_key
from touchstone.node.models.outer_step import FetchDelta
from touchstone.protocol.adapters.store.blobs import refer_tensor

ALL = (0, 1, 2)


def drop_merge(stage: Stage, seed: int, slots: tuple[int, ...]) -> list[bool]:
    """Delete the tensors of a node's merge, as pruning does; whether they were there."""
    party = stage.parties[seed]
    made = party.task.claims.merges[make_key(stage.world.state.rounds[0], slots)]
    count = party.task.spec.terms.parameter_count
    refs = [refer_tensor(root, count) for root in (made.weights_root, made.momentum_root)]
    found = [party.store.has(ref) for ref in refs]
    for ref in refs:
        party.store.delete(ref.key)
    return found


async def test_a_merge_whose_tensors_were_deleted_is_computed_again(tmp_path: Path) -> None:
    """The record alone trains nothing and answers no contest; after a fall or a reorg the same merge may be
    posted."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round = stage.draw()
        await stage.fetch_all(1)
        party, key = stage.parties[1], make_key(game_round, ALL)
        made = await rooms_of(party).outer_steps.merge_claims(key)
        records = len(list(party.journal.replay()))
        assert drop_merge(stage, 1, ALL) == [True, True]
        assert await rooms_of(party).outer_steps.merge_claims(key) == made
        assert drop_merge(stage, 1, ALL) == [True, True], "they are back"
        assert len(list(party.journal.replay())) == records, "and nothing is said twice"


async def test_a_work_leaf_outlives_a_restart(tmp_path: Path) -> None:
    """Its solver may not show it again, and without it the leaf of a right root cannot be brought."""
    async with open_stage(tmp_path, 2, 3) as stage:
        async with stage.open(1):
            await stage.commit(1, 2, 3)
            game_round = stage.draw()
            await stage.fetch_all(1)
            known = dict(stage.parties[1].task.claims.proofs)
        async with stage.open(1) as party:
            party.state.network.peers.clear()
            for slot in ALL:
                proof = await rooms_of(party).claim_data.find_work(game_round, game_round.claims[slot])
                assert proof in known.values() and not is_fetched(view_of(party), game_round, slot)
                await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(
                    rooms_of(party).outer_steps
                )
