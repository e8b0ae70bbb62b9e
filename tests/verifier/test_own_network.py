"""An auditor whose own network is down blames nobody; if anybody answers, it blames a silent solver."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.verifier.stage import Node, Stage, make_bystander, make_solver, make_stage
from touchstone.node.kit.view import require_game
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.statements import Vote, VoteWord
from touchstone.verifier import own_network
from touchstone.verifier.replaying import audit
from touchstone.verifier.sealing import ask_until


async def audit_through(stage: Stage, auditor: Node) -> Vote:
    """The auditor's vote, while blocks come until its time is over."""
    clock = asyncio.create_task(stage.pass_blocks(stage.audit_end))
    vote = await audit(auditor.room, stage.get_drawn())
    clock.cancel()
    assert vote is not None
    return vote


def move(stage: Stage, account: str, host: str) -> None:
    """The account's endpoint names this host, at the same port."""
    port = stage.peers[account].url.rsplit(":", 1)[1]
    stage.peers[account] = replace(stage.peers[account], url=f"https://{host}:{port}")


async def test_who_reaches_nobody_blames_nobody(tmp_path: Path) -> None:
    """Its cable was pulled: each honest solver that it was drawn for would have owed a fee, and so would it.
    Peers answered before, and are announced as ever."""
    stage = make_stage()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with auditor.run():
        async with make_solver(stage, tmp_path).run(), make_bystander(stage, tmp_path).run() as other:
            assert await auditor.client.is_answering(stage.peers[other.account])
        vote = await audit_through(stage, auditor)
    assert vote.word == VoteWord.ABSTAIN and "this node reaches nobody" in auditor.lines[-1]


async def test_while_the_chain_is_read_anew_nobody_is_known_and_nothing_is_said(tmp_path: Path) -> None:
    """The last block of the solver's time could not be folded, and no peer stood in what was read so far. The
    node abstained from a claim that was served to it."""
    stage = make_stage()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")

    async def ask() -> None:
        await asyncio.Event().wait()

    def get_game(*_: object) -> Any:
        return require_game(None, b"")

    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        assert await auditor.client.is_answering(stage.peers[solver.account])
        clock = asyncio.create_task(stage.pass_blocks(stage.head + 2))
        auditor.room.get_game, auditor.room.find_peer = get_game, get_game
        auditor.room.list_others = list
        with pytest.raises(GateShut):
            await ask_until(auditor.room, solver.account, ask, stage.head + 1, "the start")
        await clock


async def test_one_peer_that_answers_is_enough_to_blame_a_silent_solver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever peers the solver has fall silent with it, and how many: they only hold it up for seconds."""
    monkeypatch.setattr(own_network, "ANSWER_S", 2.0)
    stage, asked = make_stage(), Counter[str]()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked["in silence"] += 1
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with AsyncExitStack() as servers:
        for number in range(own_network.MOST_ASKED - 1):
            server = await servers.enter_async_context(await asyncio.start_server(take, "127.0.0.1", 0))
            url, account = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", f"0x{number:040x}"
            stage.peers[account] = Peer(account, url, bytes(32))
        async with auditor.run():
            vote = await audit_through(stage, auditor)
            assert vote.word == VoteWord.ABSTAIN and asked["in silence"] == own_network.MOST_ASKED - 1
        again = make_stage()
        again.peers = stage.peers
        auditor = Node(again, again.find_auditor(), tmp_path / "again")
        async with auditor.run(), make_bystander(again, tmp_path).run():
            assert (await audit_through(again, auditor)).word == VoteWord.UNSERVED


@pytest.mark.parametrize(
    ("solver_host", "other_host", "word"),
    [
        ("localhost", "127.0.0.1", VoteWord.ABSTAIN),
        ("localhost", "localhost", VoteWord.UNSERVED),
        ("127.0.0.1", "127.0.0.1", VoteWord.UNSERVED),
    ],
)
async def test_a_peer_of_the_own_host_is_no_evidence_of_the_way_to_another(
    tmp_path: Path, solver_host: str, other_host: str, word: VoteWord
) -> None:
    """Two nodes of one operator behind a router without a line reach each other, and both would say it."""
    stage = make_stage()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with auditor.run(), make_bystander(stage, tmp_path).run() as other:
        async with make_solver(stage, tmp_path).run() as solver:
            pass
        move(stage, solver.account, solver_host)
        move(stage, other.account, other_host)
        assert (await audit_through(stage, auditor)).word == word


async def test_a_solver_that_refuses_is_blamed_by_an_auditor_that_is_alone(tmp_path: Path) -> None:
    """Its refusal is an answer."""
    stage = make_stage()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    solver = make_solver(stage, tmp_path, may_serve=lambda account, kind, root: False)
    async with auditor.run(), solver.run():
        assert (await audit_through(stage, auditor)).word == VoteWord.UNSERVED


async def test_a_network_that_is_back_at_the_last_moment_has_the_solver_asked_once_more(
    tmp_path: Path,
) -> None:
    stage = make_stage()
    auditor, solver = Node(stage, stage.find_auditor(), tmp_path / "auditor"), make_solver(stage, tmp_path)
    async with auditor.run(), make_bystander(stage, tmp_path).run(), AsyncExitStack() as stack:
        is_answering = auditor.client.is_answering

        async def plug_in(peer: Peer) -> bool:
            await stack.enter_async_context(solver.run())
            return await is_answering(peer)

        client: Any = auditor.client
        client.is_answering = plug_in
        assert (await audit_through(stage, auditor)).word == VoteWord.ACCEPT, auditor.lines
