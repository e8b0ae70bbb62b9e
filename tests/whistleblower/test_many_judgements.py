"""Steps of others are judged one at a time, in a thread of their own: the server keeps asyncio's threads."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.node.merging.stage import open_stage
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.compute import Compute
from touchstone.protocol.adapters.store.blobs import refer_delta
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.step import train_segment
from touchstone.whistleblower.step_judging import Claimed


async def _open(stage: Any) -> tuple[Any, list[Any], list[Claimed]]:
    await stage.commit(1)
    stage.draw()
    node, slot = stage.nodes[1], stage.get_slot(1)
    header = get_finished(node.get_view(), 0).boundaries[0]
    end = train_segment(
        node.rooms.tools.states.load(header),
        node.task.spec.training,
        node.rooms.segments.get_batches(0, slot),
        0,
        1,
    )[0]
    peer = Peer(node.account, "https://127.0.0.1:1", bytes(32))
    claims = [Claimed(peer, 0, at, segment) for at in (0, 1) for segment in range(4)]
    return node, [header, node.rooms.tools.states.keep(end)], claims


async def test_steps_are_judged_one_at_a_time(tmp_path: Path) -> None:
    """A step may take all the memory that a machine has."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))
    async with open_stage(tmp_path, 1) as stage:
        node, headers, claims = await _open(stage)
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

        node.rooms.tools.cases.compute = Compute(train=train)
        await asyncio.gather(
            *(node.list_challenges().step_judging.judge_steps(one, headers, []) for one in claims),
            return_exceptions=True,
        )
        assert most == 1, f"{most} steps were trained side by side"


async def test_a_node_serves_while_it_judges(tmp_path: Path) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))
    async with open_stage(tmp_path, 1, 2) as stage:
        node, headers, claims = await _open(stage)
        other = stage.nodes[2]
        go_on, begun = threading.Event(), threading.Semaphore(0)

        def train(*arguments: Any) -> Any:
            begun.release()
            go_on.wait(30)
            return train_segment(*arguments)

        node.rooms.tools.cases.compute = Compute(train=train)
        judging = asyncio.gather(
            *(node.list_challenges().step_judging.judge_steps(one, headers, []) for one in claims),
            return_exceptions=True,
        )
        try:
            while not begun.acquire(blocking=False):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            finished = get_finished(node.get_view(), 0).finished
            assert finished is not None
            ref = refer_delta(finished.delta_root, node.task.spec.terms.parameter_count)
            async with asyncio.timeout(15):
                await other.client.fetch(other.state.network.find(node.account), ref)
        finally:
            go_on.set()
            await judging
