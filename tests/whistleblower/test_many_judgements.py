"""Steps of others are judged one at a time, in a thread of their own: the server keeps asyncio's threads."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.kit.views import rooms_of, view_of
from tests.node.merging.stage import TASK, open_stage
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.compute import Compute
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.protocol.adapters.store.blobs import refer_delta
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.step import train_segment
from touchstone.whistleblower.step_judging import Claimed


async def _open(stage: Any) -> tuple[Any, list[Any], list[Claimed]]:
    await stage.commit(1)
    stage.draw()
    party, slot = stage.parties[1], stage.get_slot(1)
    room = SimpleNamespace(book=AuditBook(party.journal, TASK))
    audits: Any = SimpleNamespace(room=room, known=SimpleNamespace(book=room.book, list_works=dict))
    party.joined = replace(party.task, cases=DisputeRecords(party.journal, TASK), audits=audits)
    header = get_finished(view_of(party), 0).boundaries[0]
    end = train_segment(
        rooms_of(party).states.load(header),
        party.task.spec.training,
        rooms_of(party).segments.get_batches(0, slot),
        0,
        1,
    )[0]
    peer = Peer(party.account, "https://127.0.0.1:1", bytes(32))
    claims = [Claimed(peer, 0, at, segment) for at in (0, 1) for segment in range(4)]
    return party, [header, rooms_of(party).states.keep(end)], claims


async def test_steps_are_judged_one_at_a_time(tmp_path: Path) -> None:
    """A step may take all the memory that a machine has."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))
    async with open_stage(tmp_path, 1) as stage:
        party, headers, claims = await _open(stage)
        lock, running, most = threading.Lock(), 0, 0

        def train(*arguments: Any) -> Any:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            threading.Event().wait(0.2)
            try:
                return train_segment(*arguments)
            finally:
                with lock:
                    running -= 1

        party.task.cases.compute = Compute(train=train)
        await asyncio.gather(
            *(rooms_of(party).step_judging.judge_steps(one, headers, []) for one in claims),
            return_exceptions=True,
        )
        assert most == 1, f"{most} steps were trained side by side"


async def test_a_node_serves_while_it_judges(tmp_path: Path) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))
    async with open_stage(tmp_path, 1, 2) as stage:
        party, headers, claims = await _open(stage)
        other = stage.parties[2]
        go_on, begun = threading.Event(), threading.Semaphore(0)

        def train(*arguments: Any) -> Any:
            begun.release()
            go_on.wait(30)
            return train_segment(*arguments)

        party.task.cases.compute = Compute(train=train)
        judging = asyncio.gather(
            *(rooms_of(party).step_judging.judge_steps(one, headers, []) for one in claims),
            return_exceptions=True,
        )
        try:
            while not begun.acquire(blocking=False):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            finished = get_finished(view_of(party), 0).finished
            assert finished is not None
            ref = refer_delta(finished.delta_root, party.task.spec.terms.parameter_count)
            async with asyncio.timeout(15):
                await other.client.fetch(other.state.network.find(party.account), ref)
        finally:
            go_on.set()
            await judging
