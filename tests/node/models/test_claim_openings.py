"""Work leaves and pseudo-gradients: when a node shows them, from whom it has them, and whose they are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK, get_account, get_told
from tests.node.merging.stage import Stage, ask_unjoined, deal_anew, open_stage
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.models.global_model import WORK, AskWork, WorkSaid
from touchstone.node.models.own_openings import OwnClaims, open_work
from touchstone.node.models.work_requests import may_read_delta
from touchstone.node.records.claim_records import ClaimFinished, WorkProof, WorkShown
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.store.blob_verifier import BlobVerifier
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.state import GameRound
from touchstone.scripts.roles.role_nodes import Member

COPIER = 3


async def notify(node: Member, slot: int, made: ClaimFinished, task: bytes = TASK) -> WorkSaid:
    """What a node answers about a claim."""
    question = encode_message(AskWork(task, 0, slot, made.claim_root))
    said: WorkSaid = await node.rooms.work_requests.answer_work("0x", question)
    return said


async def is_said(node: Member, slot: int, made: ClaimFinished, task: bytes = TASK) -> bool:
    """Whether it answers."""
    try:
        await notify(node, slot, made, task)
    except EnvironmentFault:
        return False
    return True


def count_shown(node: Member) -> int:
    """Work leaves of others that are in the journal."""
    return sum(isinstance(record, WorkShown) for record in node.journal.replay())


def copy_claim(stage: Stage, victim: int) -> GameRound:
    """A third account commits to the very root of another solver, and the round is drawn."""
    game_round = stage.world.state.rounds[0]
    claim = game_round.claims[stage.get_slot(victim)]
    words = (game_round.base_root, game_round.beacon or b"", claim.claim_root, claim.segments)
    stage.world.send(calls.CommitRound(0, *words), get_account(COPIER))
    return stage.draw()


async def test_work_is_shown_from_the_close_on_and_of_the_claims_on_chain_alone(tmp_path: Path) -> None:
    """Before the close another solver could hand it in as its own."""
    async with open_stage(tmp_path, 1) as stage:
        ((made,), node, slot) = await stage.commit(1), stage.nodes[1], stage.get_slot(1)
        assert not await is_said(node, slot, made) and not may_read_delta(node.get_view(), made.delta_root)
        stage.draw()
        own = open_work(node.get_view(), 0)
        assert await notify(node, slot, made) == WorkSaid(own.delta_root, own.carried_root, own.path)
        assert may_read_delta(node.get_view(), made.delta_root)
        assert not await is_said(node, slot, replace(made, claim_root=make_word("other claim")))
        assert not await is_said(node, slot + 1, made) and not await is_said(node, slot, made, b"o" * 32)
        with pytest.raises(EnvironmentFault, match="joined no task"):
            await ask_unjoined(node, WORK, AskWork(TASK, 0, slot, made.claim_root))


async def test_a_work_leaf_of_another_claim_is_asked_for_once_and_passed_on(tmp_path: Path) -> None:
    """Its solver may show it no second time. One's own is not written down: the claim is."""
    async with open_stage(tmp_path, 1, 2) as stage:
        first, second = await stage.commit(1, 2)
        game_round, node, slot = stage.draw(), stage.nodes[1], stage.get_slot(2)
        found = await node.rooms.claim_data.find_work(game_round, game_round.claims[slot])
        assert (found.delta_root, found.carried_root) == (second.delta_root, second.carried_root)
        data = await node.rooms.claim_data.fetch_delta(game_round, slot)
        node.state.network.peers.clear()
        assert await node.rooms.claim_data.find_work(game_round, game_round.claims[slot]) == found
        assert await node.rooms.claim_data.fetch_delta(game_round, slot) == data
        assert await notify(node, slot, second) == WorkSaid(*vars(found).values())
        assert may_read_delta(node.get_view(), second.delta_root)
        own = await node.rooms.claim_data.find_work(game_round, game_round.claims[stage.get_slot(1)])
        assert own.delta_root == first.delta_root and count_shown(node) == 1


async def test_what_a_node_knows_is_not_gone_through_for_each_request(tmp_path: Path) -> None:
    """Any account may ask for pseudo-gradients, and a node knows those of a thousand rounds."""

    class Works(dict[bytes, WorkProof]):
        looks = 0

        def values(self) -> Any:
            self.looks += 1
            return super().values()

    async with open_stage(tmp_path, 1) as stage:
        node, works = stage.nodes[1], Works()
        works[make_word("claim")] = WorkProof(make_word("delta"), make_word("carried"), ())
        get_told(node).works = works
        for number in range(20):
            assert may_read_delta(node.get_view(), make_word("delta"))
            assert not may_read_delta(node.get_view(), make_word("guess", number))
        assert works.looks == 1
        works[make_word("another")] = WorkProof(make_word("later"), make_word("carried"), ())
        assert may_read_delta(node.get_view(), make_word("later")) and works.looks == 2


async def test_what_has_just_arrived_is_hashed_no_second_time_unless_its_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The own pseudo-gradient neither. A damaged file goes, and the bytes come anew from a peer."""
    async with open_stage(tmp_path, 1, 2) as stage:
        await stage.commit(1, 2)
        game_round, node, slots = stage.draw(), stage.nodes[1], [stage.get_slot(seed) for seed in (1, 2)]
        refs = [await node.rooms.claim_data.have_delta(game_round, slot) for slot in slots]
        with monkeypatch.context() as patch:
            patch.setattr(BlobVerifier, "update", None)
            found = [bytes(await node.rooms.claim_data.fetch_delta(game_round, slot)) for slot in slots]
        assert found == [node.store.get(ref) for ref in refs]
        with node.store.get_path(refs[1].key).open("r+b") as file:
            file.write(bytes([found[1][0] ^ 1]))
        with pytest.raises(EnvironmentFault, match="damaged"):
            await node.rooms.claim_data.fetch_delta(game_round, slots[1])
        assert bytes(await node.rooms.claim_data.fetch_delta(game_round, slots[1])) == found[1]


async def test_a_work_leaf_is_that_of_its_solver_and_of_no_copier_of_the_claim(tmp_path: Path) -> None:
    """Not even from this node's own audit of the original. A merge with the copy would be a wrong root."""
    async with open_stage(tmp_path, 1, 2) as stage:
        await stage.commit(1, 2)
        game_round, node = copy_claim(stage, victim=2), stage.nodes[1]
        proof = open_work(stage.nodes[2].get_view(), 0)
        original, copy = (game_round.claims[stage.get_slot(seed)] for seed in (2, COPIER))
        assert original.claim_root == copy.claim_root
        get_told(node).works[copy.claim_root] = proof
        with pytest.raises((ProtocolFault, EnvironmentFault)):
            await node.rooms.claim_data.find_work(game_round, copy)
        assert not count_shown(node)
        node.state.network.peers.clear()
        assert await node.rooms.claim_data.find_work(game_round, original) == proof


async def test_what_was_trained_on_another_beacon_is_no_claim_of_the_round(tmp_path: Path) -> None:
    """A reorg dealt the round anew: its auditors are shown nothing of the old claim, nor is any account."""
    async with open_stage(tmp_path, 1) as stage:
        ((made,), node) = await stage.commit(1), stage.nodes[1]
        stage.draw()
        claims = OwnClaims(node.get_view)
        assert claims.open_work(0).delta_root == made.delta_root
        assert claims.open_boundary(0, 0).header.global_step == 0
        stage.world.state = deal_anew(stage.world.state)
        stage.sync()
        with pytest.raises(KeyError):
            claims.open_boundary(0, 0)
        with pytest.raises(KeyError):
            claims.open_work(0)
        assert not may_read_delta(node.get_view(), made.delta_root)


async def test_the_solver_of_a_claim_is_asked_first_whatever_its_place(tmp_path: Path) -> None:
    """The others have its work only once they had it from the solver."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        node = stage.nodes[1]
        for seed in (2, 3):
            sources = [peer.account for peer in node.rooms.claim_data.list_sources(get_account(seed))]
            assert sources[0] == get_account(seed) and len(sources) == 2
