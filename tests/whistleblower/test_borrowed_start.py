"""The inside states of a claimant's segment are what it says: they may be those of an audit under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit.nodes import make_view
from tests.verifier.stage import Node, Stage, Twist, make_solver, make_stage
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.verifier.replaying import audit
from touchstone.whistleblower.step_judging import Claimed, StepJudging

EndLook = Callable[[], Awaitable[None]]


def make_judging(node: Node, silence: asyncio.Event) -> StepJudging:
    """What looks at states for an auditor. silence: until then nobody answers it, and nobody shows
    anything."""

    async def fetch(peers: Any, ref: Any) -> None:
        await silence.wait()
        raise EnvironmentFault(what="silent", expected="", actual="", remedy="")

    view = make_view(book=node.room.book)
    client, nothing = cast(Any, SimpleNamespace(fetch_from_any=fetch)), cast(Any, None)
    return StepJudging(
        lambda: view, node.store, client, node.room.states, nothing, view.cases, nothing, nothing,
        node.room.notify, nothing,
    )  # fmt: skip


def end_while_replaying(node: Node, end_look: EndLook) -> None:
    loop = asyncio.get_running_loop()

    def train(*arguments: Any) -> Any:
        asyncio.run_coroutine_threadsafe(end_look(), loop).result()  # type: ignore[arg-type]
        return train_segment(*arguments)

    node.room.train = train


def end_while_comparing(node: Node, end_look: EndLook) -> None:
    fetch: Any = node.client.fetch_from_any

    async def fetch_later(peers: Any, ref: Any) -> Any:
        if ref.key.kind is BlobKind.DELTA:
            await end_look()
        return await fetch(peers, ref)

    node.client.fetch_from_any = fetch_later  # type: ignore[method-assign]


def end_while_keeping(node: Node, end_look: EndLook) -> None:
    """The first tensor of the own end is in the store, and the seal is not written down yet."""
    loop, put = asyncio.get_running_loop(), node.store.put_hashed

    def put_and_end(*arguments: Any, **options: Any) -> Any:
        ref = put(*arguments, **options)
        asyncio.run_coroutine_threadsafe(end_look(), loop).result()  # type: ignore[arg-type]
        return ref

    node.store.put_hashed = put_and_end  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("ahead", "end_when", "word"),
    [(0, end_while_replaying, VoteWord.ACCEPT), (1, end_while_comparing, VoteWord.REJECT_STATE)],
)
async def test_what_an_audit_has_fetched_stays_when_a_look_at_it_ends(
    tmp_path: Path, ahead: int, end_when: Any, word: VoteWord
) -> None:
    """ahead: 0 for the start of the drawn segment, 1 for its end, which is another one than the own."""
    segment = make_stage().get_drawn().segment
    stage = make_stage(Twist(boundary=segment + 1) if ahead else Twist())
    header = stage.claim.headers[segment + ahead]
    assert await audit_beside_a_look(tmp_path, stage, header, end_when) == word


async def test_an_own_end_that_is_not_sealed_yet_stays_when_a_look_at_it_ends(tmp_path: Path) -> None:
    """An accomplice of the solver shows the honest end as a step of its own. Without it the auditor could say
    nothing of the false one."""
    honest = make_stage()
    segment = honest.get_drawn().segment
    stage, header = make_stage(Twist(boundary=segment + 1)), honest.claim.headers[segment + 1]
    word = await audit_beside_a_look(tmp_path, stage, header, end_while_keeping)
    assert word == VoteWord.REJECT_STATE


async def audit_beside_a_look(tmp_path: Path, stage: Stage, header: StateHeader, end_when: Any) -> VoteWord:
    """What the primary says of the claim. Until `end_when` it looks at a state, which stays."""
    drawn = stage.get_drawn()
    solver = make_solver(stage, tmp_path)
    auditor = Node(stage, stage.find_seed(drawn.seat.account), tmp_path / "auditor")
    async with solver.run(), auditor.run():
        silence = asyncio.Event()
        judging = make_judging(auditor, silence)
        looking = asyncio.create_task(look(judging, header))
        while not judging.cases.fetched:
            await asyncio.sleep(0)

        async def end_look() -> None:
            silence.set()
            with pytest.raises(EnvironmentFault, match="silent"):
                await looking

        end_when(auditor, end_look)
        vote = await audit(auditor.room, drawn)
        assert vote is not None and looking.done()
        assert judging.states.has(header) and not auditor.room.book.held
        return vote.word


async def look(judging: StepJudging, header: StateHeader) -> None:
    claimed = Claimed(Peer("0x" + "9" * 40, "https://127.0.0.1:1", bytes(32)), 0, 0, 0)
    async with judging.borrow_state(claimed, header):
        raise AssertionError("it shows nothing")
