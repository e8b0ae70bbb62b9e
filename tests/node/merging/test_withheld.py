"""A pseudo-gradient that its solver withholds from the other solvers: it is had from an auditor, or the round
goes on without it."""

from pathlib import Path
from typing import Any

from tests.kit.nodes import TASK, get_account, get_told
from tests.node.merging.stage import open_stage
from touchstone.node.models.outer_step import FetchDelta
from touchstone.node.models.own_openings import open_work
from touchstone.protocol.adapters.store.blobs import refer_delta
from touchstone.protocol.adapters.wire.peer import Peer

AUDITOR = 11


async def test_an_auditor_shows_what_it_was_shown(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, AUDITOR) as stage:
        made, other = (await stage.commit(1))[0], stage.nodes[2]
        solver, auditor = stage.nodes[1], stage.nodes[AUDITOR]
        game_round = stage.draw()
        ref = refer_delta(made.delta_root, solver.task.spec.terms.parameter_count)
        auditor.store.put(ref, solver.store.get(ref))
        get_told(auditor).works[made.claim_root] = open_work(solver.get_view(), 0)
        for node in stage.nodes.values():
            del node.state.network.peers[solver.account]
        await FetchDelta(0, stage.get_slot(1), made.claim_root).perform(other.rooms.outer_steps)
        assert other.store.has(ref)
        assert not auditor.rooms.tools.claims.proofs, "what it shows it knows from its audit"
        assert (
            await other.rooms.claim_data.find_work(game_round, game_round.claims[stage.get_slot(1)])
        ).delta_root


async def test_members_are_asked_before_strangers(tmp_path: Path) -> None:
    """An endpoint costs a call: whoever announces a hundred and answers slowly at each must not be asked
    first."""
    async with open_stage(tmp_path, 1, 2) as stage:
        node, peers = stage.nodes[1], stage.nodes[1].state.network.peers
        member = peers.pop(get_account(2))
        for seed in range(100, 110):
            stranger = Peer(get_account(seed), "https://10.0.0.1", bytes(32))
            peers[stranger.account] = stranger
        peers[member.account] = member
        seated: Any = node.state
        seated.is_member = lambda account, task: task == TASK and account == member.account
        assert node.rooms.tools.peers.list()[0] == member
        assert len(node.rooms.tools.peers.list()) == 11
