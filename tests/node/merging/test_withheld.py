"""A pseudo-gradient that its solver withholds from the other solvers: it is had from an auditor, or the round
goes on without it."""

from pathlib import Path
from typing import Any

from tests.kit.views import rooms_of, view_of
from tests.node.merging.stage import TASK, get_account, open_stage
from touchstone.node.models.outer_step import FetchDelta
from touchstone.node.models.own_openings import open_work
from touchstone.protocol.adapters.store.blobs import refer_delta
from touchstone.protocol.adapters.wire.peer import Peer

AUDITOR = 11


async def test_an_auditor_shows_what_it_was_shown(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, AUDITOR) as stage:
        made, other = (await stage.commit(1))[0], stage.parties[2]
        solver, auditor = stage.parties[1], stage.parties[AUDITOR]
        game_round = stage.draw()
        ref = refer_delta(made.delta_root, solver.task.spec.terms.parameter_count)
        auditor.store.put(ref, solver.store.get(ref))
        audits: Any = auditor.task.audits
        audits.works[made.claim_root] = open_work(view_of(solver), 0)
        for party in stage.parties.values():
            del party.state.network.peers[solver.account]
        await FetchDelta(0, stage.get_slot(1), made.claim_root).perform(rooms_of(other).outer_steps)
        assert other.store.has(ref)
        assert not auditor.task.claims.proofs, "what it shows it knows from its audit"
        assert (
            await rooms_of(other).claim_data.find_work(game_round, game_round.claims[stage.get_slot(1)])
        ).delta_root


async def test_members_are_asked_before_strangers(tmp_path: Path) -> None:
    """An endpoint costs a call: whoever announces a hundred and answers slowly at each must not be asked
    first."""
    async with open_stage(tmp_path, 1, 2) as stage:
        party, peers = stage.parties[1], stage.parties[1].state.network.peers
        member = peers.pop(get_account(2))
        for seed in range(100, 110):
            stranger = Peer(get_account(seed), "https://10.0.0.1", bytes(32))
            peers[stranger.account] = stranger
        peers[member.account] = member
        seated: Any = party.state
        seated.is_member = lambda account, task: task == TASK and account == member.account
        assert party.peers.list()[0] == member
        assert len(party.peers.list()) == 11
