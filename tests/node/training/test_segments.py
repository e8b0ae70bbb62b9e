"""Segments of a node's own claim and votes, computed again: from where, with which data, and how little."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.kit.nodes import TASK, get_told
from tests.node.merging.stage import deal_anew
from tests.node.upkeep.test_pruning import SEGMENTS, list_here, open_dispute, open_solver
from tests.node.upkeep.veteran import count_steps
from tests.whistleblower.stage import (
    OTHER_ONLOOKER,
    get_solver,
    make_boundary,
    make_header,
    make_vote,
    open_onlooker,
)
from touchstone.node.kit.states import StateStore
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.heard_statements import OwnReplay
from touchstone.node.training.segments import (
    list_disputed,
)
from touchstone.protocol.adapters.store.blobs import refer_state
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.batches import get_batch
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerBook, InnerDispute
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.scripts.roles.role_nodes import Member

STEPS = 2
"""Of a segment."""


async def test_every_segment_is_computed_to_the_roots_that_were_committed(tmp_path: Path) -> None:
    """From the boundary before it, and with the data that the beacon deals to the slot."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        boundaries, place = get_finished(node.get_view(), 0).boundaries, (0, stage.get_slot(1))
        for segment in range(SEGMENTS):
            roots = node.rooms.segments.compute_roots(place, segment, boundaries[segment])
            ends = [compute_state_root(boundaries[one]) for one in (segment, segment + 1)]
            assert [roots[0], roots[-1]] == ends and len(roots) == STEPS + 1
            inner = node.rooms.segments.compute_state(place, segment, boundaries[segment], 1)
            assert compute_state_root(state_header(inner)) == roots[1]
        stage.world.state = deal_anew(stage.world.state)
        stage.sync()
        beacon, training = node.game.rounds[0].beacon or b"", node.task.spec.training
        shards = assign_shards(beacon, 3)
        for slot, shard in enumerate(shards):
            dealt = get_batch(node.rooms.tools.corpus, training, beacon, shard, 5)
            assert torch.equal(node.rooms.segments.get_batches(0, slot)(5).tokens_BT, dealt.tokens_BT)
        assert shards != (0, 1, 2)


async def test_of_a_pruned_claim_no_more_is_trained_than_from_the_last_boundary_there_is(
    tmp_path: Path,
) -> None:
    """On the way, the start of another disputed segment is kept: its answer is due as well."""
    async with open_solver(tmp_path) as (stage, node):
        trained, boundaries = count_steps(node), get_finished(node.get_view(), 0).boundaries
        dispute = open_dispute(stage, node, segment=2)
        assert await node.rooms.segments.restore_boundary(0, 3) == boundaries[3]
        assert (trained, list_here(node)) == ([STEPS] * 3, [0, 2, 3])
        await node.rooms.segments.restore_boundary(0, 4)
        assert (trained, list_here(node)) == ([STEPS] * 4, [0, 2, 3, 4])
        assert await node.rooms.segments.restore_own_start(dispute) == boundaries[2]
        assert len(trained) == 4, "it is there"


async def test_a_claim_of_which_nothing_is_left_begins_at_the_base_root(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (_, node):
        first = get_finished(node.get_view(), 0).boundaries[0]
        for ref in refer_state(first, node.task.spec.terms.parameter_count):
            node.store.delete(ref.key)
        assert list_here(node) == []
        assert (
            await node.rooms.segments.restore_boundary(0, 1) == get_finished(node.get_view(), 0).boundaries[1]
        )
        assert list_here(node) == [0, 1]


async def test_only_open_disputes_on_the_own_claim_are_answered(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node):
        own = open_dispute(stage, node, segment=2)
        others: list[InnerDispute] = [
            replace(own, segment=1, stage=DisputeStage.CLEARED),
            replace(own, segment=1, statement=StatementRef(0, own.statement.slot, 0, 0)),
            replace(own, segment=1, statement=StatementRef(0, own.statement.slot + 1)),
        ]
        found = {bytes([number]): one for number, one in enumerate([own, *others])}
        node.state.inner[TASK] = InnerBook(10, found)
        assert list_disputed(node.get_view(), 0) == {2}


# Of a vote
def dispute_vote(node: Member) -> InnerDispute:
    """A dispute of another whistleblower on a vote of this account."""
    vote = make_vote().vote
    ref, seat = StatementRef(0, 0, 0, vote.rank), node.game.rounds[0].claims[0].seat
    return InnerDispute(b"d" * 32, seat, ref, vote.segment, OTHER_ONLOOKER, 999)


@pytest.mark.parametrize("is_solver_there", [False, True])
async def test_the_start_of_a_replay_comes_from_the_solver_or_from_who_disputes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_solver_there: bool
) -> None:
    """A liar that claimed the start is silent. Who opened the dispute has replayed the segment too."""
    asked: list[tuple[list[str], StateHeader]] = []

    async def fetch(states: StateStore, client: BlobClient, peers: list[Peer], header: StateHeader) -> None:
        asked.append(([peer.account for peer in peers], header))

    monkeypatch.setattr(StateStore, "fetch", fetch)
    with open_onlooker(tmp_path, make_vote().auditor) as node:
        dispute, start = dispute_vote(node), make_boundary("start")
        ref, own = dispute.statement, make_header("own")
        get_told(node).replays = [OwnReplay(ref, dispute.segment, start, own, None, None, b"s" * 32)]
        if not is_solver_there:
            del node.state.network.peers[get_solver()]
        assert await node.rooms.segments.restore_own_start(dispute) == start.header
    accounts = [get_solver(), OTHER_ONLOOKER] if is_solver_there else [OTHER_ONLOOKER]
    assert asked == [(accounts, start.header)]


async def test_a_home_without_the_replay_is_told_to_bring_back_the_one_that_has_it(tmp_path: Path) -> None:
    """Two homes with one key: the other one has voted."""
    with (
        open_onlooker(tmp_path, make_vote().auditor) as node,
        pytest.raises(EnvironmentFault, match="lacks the replay"),
    ):
        await node.rooms.segments.restore_own_start(dispute_vote(node))
