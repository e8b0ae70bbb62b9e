"""A claimant that shows what it owes, but slowly, gets no more time than a silent one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.nodes import get_sent, get_told
from tests.node.merging.stage import open_stage
from tests.protocol.compute.bounds.claimed_step import Claimant, add_noise, scale
from touchstone.node.defending.step_requests import StepsShown
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.compute import Compute
from touchstone.node.records.dispute_records import NO_STEP, StatementKey
from touchstone.node.records.heard_statements import ClaimOpenings
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.bounds.fault_proof import OperationFault
from touchstone.protocol.compute.bounds.trace_layers import list_layers
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import compute_scalars, train_segment
from touchstone.protocol.spec.commitments import compute_state_root, encode_state
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerDispute, PostedTrace
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.whistleblower import claimant_waiting, prosecuting
from touchstone.whistleblower.case_judging import compute_grace_blocks
from touchstone.whistleblower.claimant_waiting import wait_for
from touchstone.whistleblower.prosecuting import Prosecuting, Withheld, get_inner_step
from touchstone.whistleblower.step_judging import Claimed
from touchstone.whistleblower.suspicions import SuspectedFault

SEGMENT, TRACE = 1, b"t" * 32
LONG_S = 120
"""What never ends without the rule fails after this."""


@dataclass
class Scene:
    """An honest node, and a claim whose segment has a false last step. headers: what the claimant says of the
    states; it shows those at once, and all tensors so slowly that none is ever whole."""

    node: Any
    slot: int
    headers: list[StateHeader]
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    on_its_way: int = 0

    async def trickle(self, *_: Any) -> Any:
        self.on_its_way += 1
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.on_its_way -= 1

    def dispute(self, stage: DisputeStage) -> InnerDispute:
        roots, last = tuple(map(compute_state_root, self.headers)), len(self.headers) - 2
        ref, clock = StatementRef(0, self.slot), self.node.state.head_block + self.respond
        seat, trace = self.node.game.rounds[0].claims[self.slot].seat, PostedTrace(TRACE, *self.headers[-2:])
        place = (b"d" * 32, seat, ref, SEGMENT, self.node.account, clock, stage, roots)
        return InnerDispute(*place, *((last, trace) if stage == DisputeStage.PROVE else ()))

    @property
    def respond(self) -> int:
        return self.node.game.terms.windows.respond  # type: ignore[no-any-return]

    @contextmanager
    def reach(self, block: int) -> Iterator[None]:
        """Once something is on its way the chain comes to a block."""
        waiting = asyncio.create_task(self._go_on(block))
        try:
            yield
        finally:
            waiting.cancel()
        assert self.has_begun.is_set() and not self.on_its_way, "what is given up is not fetched on"

    async def _go_on(self, block: int) -> None:
        await self.has_begun.wait()
        self.node.state.head_block = block


@asynccontextmanager
async def open_scene(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """The node has the start of the segment, as an auditor of it."""
    monkeypatch.setattr(claimant_waiting, "LOOK_S", 0.01)
    async with open_stage(folder, 1, 2) as stage, asyncio.timeout(LONG_S):
        await stage.commit(1)
        stage.draw()
        cheat, node, slot = stage.nodes[1], stage.nodes[2], stage.get_slot(1)
        start = get_finished(cheat.get_view(), 0).boundaries[SEGMENT]
        shown = ClaimOpenings({SEGMENT: BoundaryProof(start, bytes(32), ())})
        for one in (cheat, node):
            get_told(one).openings[slot] = shown
        headers = cheat.rooms.step_serving.keep_steps((0, slot), SEGMENT, start)
        states = list(cheat.rooms.segments.iterate_states((0, slot), SEGMENT, start))
        node.rooms.tools.states.keep(states[0])
        undone = replace(states[-2], local_step=states[-1].local_step, global_step=states[-1].global_step)
        headers[-1] = cheat.rooms.tools.states.keep(undone)
        scene = Scene(node, slot, headers)

        async def show(*_: Any) -> StepsShown:
            return StepsShown(tuple(map(encode_state, headers)))

        for name, act in (("ask", show), ("fetch", scene.trickle), ("fetch_from_any", _or_here(scene))):
            monkeypatch.setattr(node.client, name, act)
        yield scene


def _or_here(scene: Scene) -> Any:
    async def fetch(peers: Any, ref: Any) -> None:
        if not scene.node.store.has(ref):
            await scene.trickle()

    return fetch


async def test_slow_steps_are_disputed_when_patience_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scene(tmp_path, monkeypatch) as scene:
        node, roots = scene.node, [compute_state_root(one) for one in scene.headers]
        statement_key = StatementKey(StatementRef(0, scene.slot), SEGMENT)
        with scene.reach(node.state.head_block + compute_grace_blocks(node.game.terms) + 1):
            await node.list_challenges().case_judging.judge_case(
                SuspectedFault(statement_key, (roots[0], roots[-1]))
            )
        assert node.rooms.tools.cases.cases[statement_key].step == NO_STEP


async def test_the_opener_names_by_roots_while_steps_come_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scene(tmp_path, monkeypatch) as scene:
        dispute = scene.dispute(DisputeStage.NAME)
        with scene.reach(dispute.clock - scene.respond // 2):
            assert (
                await scene.node.list_challenges().step_judging.find_step(dispute) == len(scene.headers) - 2
            )


@pytest.mark.parametrize("what", ["judge", "name", "prosecute"])
async def test_nothing_is_held_against_a_claimant_while_the_chain_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The block that ends its time could not be folded. A dispute was planned against an honest claimant, and
    the one demand of a dispute was used up."""
    async with open_scene(tmp_path, monkeypatch) as scene:
        node, tools = scene.node, scene.node.list_challenges()
        games, stage = node.state.games, DisputeStage.PROVE if what == "prosecute" else DisputeStage.NAME
        dispute, statement = scene.dispute(stage), StatementKey(StatementRef(0, scene.slot), SEGMENT)

        async def read_anew(*_: Any) -> Any:
            node.state.games, node.state.head_block = {}, node.state.head_block + 10**6
            return node.game

        monkeypatch.setattr(node.client, "ask", read_anew)
        monkeypatch.setattr(node.client, "fetch", read_anew)
        monkeypatch.setattr(node.client, "fetch_from_any", read_anew)
        with pytest.raises(GateShut):
            if what == "judge":
                await tools.case_judging.judge_case(SuspectedFault(statement, (b"", b"")))
            elif what == "name":
                await tools.step_judging.find_step(dispute)
            else:
                await tools.prosecuting.prosecute(dispute)
        node.state.games = games
        assert not get_sent(node) and not node.rooms.tools.cases.cases


async def test_leaves_are_demanded_while_the_trace_comes_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scene(tmp_path, monkeypatch) as scene:
        dispute = scene.dispute(DisputeStage.PROVE)
        with (
            scene.reach(dispute.clock - scene.respond // 2),
            pytest.raises(EnvironmentFault, match="in time"),
        ):
            await scene.node.list_challenges().prosecuting.prosecute(dispute)
        assert [name for name, _ in get_sent(scene.node)] == ["game.demand_leaves"]


async def test_a_buffer_that_comes_slowly_is_the_one_to_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search runs in a thread, and that has ended as well."""
    async with open_scene(tmp_path, monkeypatch) as scene:
        dispute = replace(scene.dispute(DisputeStage.PROVE), trace=PostedTrace(TRACE, *scene.headers[:2]))
        assert dispute.trace is not None

        async def open_remote(room: Prosecuting, built: Any, *_: Any) -> Any:
            start = scene.headers[0]
            made_up = (number.to_bytes(32) for number in range(3, len(built.program.buffers)))
            roots = (start.weights_root, start.first_moment_root, start.second_moment_root, *made_up)
            told = {"received_bytes": 0, "size_bytes": 0}
            return SimpleNamespace(roots=roots, listed=roots, fetch=scene.trickle, evict=lambda: None, **told)

        monkeypatch.setattr(Prosecuting, "open_remote", open_remote)
        with scene.reach(dispute.clock - scene.respond // 2):
            found = await scene.node.list_challenges().prosecuting.find_fault(dispute, dispute.trace)
        assert isinstance(found, Withheld) and found.buffer is not None


async def test_a_cut_that_comes_slowly_leaves_time_for_the_search_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a claimant with other kernels, whose last node is false: the last cut never comes while layers are
    searched. Nothing is demanded for it."""
    async with open_scene(tmp_path, monkeypatch) as scene:
        node, start = scene.node, scene.node.rooms.tools.states.load(scene.headers[0])
        dispute = replace(scene.dispute(DisputeStage.PROVE), trace=PostedTrace(TRACE, *scene.headers[:2]))
        training = node.task.spec.training
        built = get_program(training)
        batch = node.rooms.segments.get_batches(0, scene.slot)(get_inner_step(node.get_view(), dispute))
        scalars = compute_scalars(training, start.local_step, start.global_step)
        last = len(built.program.nodes) - 1
        claimant = Claimant(built, start.vectors, batch, scalars, shows_leaves=True)
        claimed, _ = claimant.claim(add_noise(built, scale(built, last)))
        layers = [one for one in list_layers(built.program) if one.is_cut]
        slow = built.program.nodes[layers[-1].target].output.buffer

        async def fetch(buffer: int) -> Any:
            if buffer == slow and not scene.has_begun.is_set():
                await scene.trickle()
            return claimed.fetch(buffer)

        async def find_leaf(buffer: int, own: ByteTree) -> Any:
            assert claimed.try_leaf
            return claimed.try_leaf(buffer, own)

        async def open_remote(*_: Any) -> Any:
            told = {"received_bytes": 0, "size_bytes": 0, "roots": claimed.roots, "listed": claimed.roots}
            return SimpleNamespace(fetch=fetch, find_leaf=find_leaf, evict=lambda: None, **told)

        monkeypatch.setattr(Prosecuting, "open_remote", open_remote)
        until = dispute.clock - scene.respond // 2
        blocks_left = (until - node.state.head_block) // prosecuting.CUT_SHARE
        assert dispute.trace is not None and node.state.head_block + blocks_left + 1 < until
        with scene.reach(node.state.head_block + blocks_left + 1):
            found = await node.list_challenges().prosecuting.find_fault(dispute, dispute.trace)
        assert isinstance(found, OperationFault) and found.node.number == last


async def test_a_slow_claimant_holds_up_no_others_on_the_same_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scene(tmp_path, monkeypatch) as scene:
        slow, other = (Claimed(make_peer(digit), 0, scene.slot, SEGMENT) for digit in "12")
        own = scene.node.rooms.step_serving.keep_steps((0, scene.slot), SEGMENT, scene.headers[0])
        never = [replace(one, weights_root=bytes(32)) for one in own]
        judging = asyncio.create_task(scene.node.list_challenges().step_judging.judge_steps(slow, never, []))
        await scene.has_begun.wait()
        found: list[Any] = []
        await scene.node.list_challenges().step_judging.judge_steps(other, own, found)
        assert len(found) == len(own) - 1
        judging.cancel()
        await asyncio.gather(judging, return_exceptions=True)


async def test_the_time_that_this_node_computes_is_not_the_claimants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scene(tmp_path, monkeypatch) as scene:
        node, before = scene.node, scene.node.state.head_block
        own = node.rooms.step_serving.keep_steps((0, scene.slot), SEGMENT, scene.headers[0])
        claimed = Claimed(make_peer("1"), 0, scene.slot, SEGMENT, before + 5)

        def train(*arguments: Any) -> Any:
            node.state.head_block += 3
            return train_segment(*arguments)

        node.rooms.tools.cases.compute = Compute(train=train)
        await node.list_challenges().step_judging.judge_steps(claimed, own, [])
        assert node.state.head_block > before and claimed.until == node.state.head_block + 5


async def test_what_is_shown_before_the_block_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_scene(tmp_path, monkeypatch) as scene:
        go_on, head = asyncio.Event(), scene.node.state.head_block
        waiting = asyncio.create_task(wait_for(scene.node.get_view, head + 1, go_on.wait()))
        await asyncio.sleep(5 * claimant_waiting.LOOK_S)
        assert not waiting.done()
        go_on.set()
        assert await waiting


def make_peer(digit: str) -> Peer:
    return Peer("0x" + 40 * digit, "https://127.0.0.1:1", bytes(32))
