"""Disputes and questions about pruned rounds: answers are trained one at a time, and the node serves on."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK
from tests.node.merging.stage import Stage, finish
from tests.node.specs import get_spec
from tests.node.upkeep.veteran import SEGMENTS, count_steps, open_veteran
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.defending.defence import PostRoots, list_duties
from touchstone.node.defending.step_requests import StepsAsked
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.compute import Compute
from touchstone.node.upkeep import pruning
from touchstone.node.upkeep.pruning import RestoreBoundary
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.store.blobs import refer_delta
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerDispute
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.scripts.roles.role_nodes import Member

OPENER = "0x" + "9" * 40
CLOCK = 1 << 30


def dispute(stage: Stage, node: Member, *places: tuple[int, int, int]) -> None:
    """Open disputes on own claims. places: (round, segment, clock)."""
    slot, found = stage.get_slot(1), {}
    for number, (index, segment, clock) in enumerate(places, 1):
        seat, name = node.game.rounds[index].claims[slot].seat, bytes([number]) * 32
        found[name] = InnerDispute(name, seat, StatementRef(index, slot), segment, OPENER, clock)
    node.state.inner[TASK] = InnerBook(10, found)


async def answer_all(node: Member) -> None:
    """Posts the roots that the accused has to post."""
    due = [one for one in list_due(node) if isinstance(one, PostRoots)]
    await asyncio.gather(*(duty.perform(node.rooms.defence) for duty in due))


def list_due(node: Member) -> list[Any]:
    """What the accused has to do."""
    return list(list_duties(node.get_view(), node.state.head_block + 1))


async def test_one_answer_is_trained_at_a_time(tmp_path: Path) -> None:
    """A step may take all the memory that a machine has."""
    async with open_veteran(tmp_path, 4) as (stage, node):
        dispute(stage, node, *((index, SEGMENTS - 1, CLOCK) for index in range(4)))
        lock, running, most = threading.Lock(), 0, 0

        def train(*arguments: Any) -> Any:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            threading.Event().wait(0.05)
            try:
                return train_segment(*arguments)
            finally:
                with lock:
                    running -= 1

        node.rooms.tools.cases.compute = Compute(train=train)
        await answer_all(node)
        chain: Any = node.chain
        assert [name for name, _ in chain.sent] == ["game.post_claim_roots"] * 4
        assert most == 1


async def test_the_answer_that_is_due_first_is_trained_first(tmp_path: Path) -> None:
    async with open_veteran(tmp_path, 3) as (stage, node):
        dispute(stage, node, (0, 3, CLOCK + 2), (1, 3, CLOCK), (2, 3, CLOCK + 1))
        await answer_all(node)
        chain: Any = node.chain
        names = [arguments[1] for _, arguments in chain.sent]
        # The one that was listed first may have begun before the others were there.
        assert names.index(bytes([2]) * 32) < names.index(bytes([3]) * 32)
        assert names[0] != bytes([3]) * 32


async def test_disputes_in_one_round_train_no_boundary_twice(tmp_path: Path) -> None:
    """The last segment comes first: what the others want is kept on the way."""
    async with open_veteran(tmp_path, 1) as (stage, node):
        dispute(stage, node, *((0, segment, CLOCK) for segment in (3, 2, 1)))
        trained = count_steps(node)
        await answer_all(node)
        segment_steps = get_spec().terms.segment_steps
        assert sum(trained) <= 3 * segment_steps + 3 * segment_steps, "boundaries 1 to 3, and three segments"


async def test_a_question_trains_no_round_again(tmp_path: Path) -> None:
    """Any member may ask about any segment: of what is pruned nothing is computed for a question alone."""
    async with open_veteran(tmp_path, 1) as (stage, node):
        trained = count_steps(node)
        body = encode_message(StepsAsked(TASK, 0, stage.get_slot(1), SEGMENTS - 1))
        with pytest.raises(EnvironmentFault):
            await node.rooms.step_answers.answer_steps(node.account, body)
        for duty in list_due(node):
            await duty.perform(node.rooms.defence)
        assert not trained


async def test_a_node_serves_while_it_trains_for_answers(tmp_path: Path) -> None:
    """The server reads its files in asyncio's threads, six on two cores: training has a thread of its own."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))
    async with open_veteran(tmp_path, 6) as (stage, node):
        dispute(stage, node, *((index, SEGMENTS - 1, CLOCK) for index in range(6)))
        go_on, begun = threading.Event(), threading.Event()

        def train(*arguments: Any) -> Any:
            begun.set()
            go_on.wait(30)
            return train_segment(*arguments)

        node.rooms.tools.cases.compute = Compute(train=train)
        answering = asyncio.create_task(answer_all(node))
        try:
            while not begun.is_set():
                await asyncio.sleep(0.01)
            finished = get_finished(node.get_view(), 0).finished
            assert finished is not None
            ref = refer_delta(finished.delta_root, get_spec().terms.parameter_count)
            async with stage.open(2) as other, asyncio.timeout(20):
                await other.client.fetch(other.state.network.find(node.account), ref)
        finally:
            go_on.set()
            await answering


async def test_what_an_auditor_waits_for_goes_before_answers_with_far_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the preset for 12 s `respond` is six times `auditMax`: a boundary that waits for all answers comes
    when the auditor has said UNSERVED."""
    async with open_veteran(tmp_path, 5) as (stage, node):
        dispute(stage, node, *((index, SEGMENTS - 1, CLOCK) for index in range(1, 5)))
        answering = asyncio.create_task(answer_all(node))
        await asyncio.sleep(0)
        monkeypatch.setattr(pruning, "find_due", lambda *_: {(0, 1): node.state.head_block + 100})
        await RestoreBoundary(0, 1).perform(node.rooms.pruning)
        assert node.rooms.tools.states.has(get_finished(node.get_view(), 0).boundaries[1])
        chain: Any = node.chain
        answered = len(chain.sent)
        await answering
        assert answered <= 1, f"one segment for an auditor waited for {answered} answers"
        assert len(chain.sent) == 4


async def test_the_own_claim_does_not_wait_for_answers_with_far_clocks(tmp_path: Path) -> None:
    """Else one dispute a round, for one bond, keeps an honest solver from its own claims."""
    async with open_veteran(tmp_path, 4) as (stage, node):
        open_live_round(stage, 4)
        dispute(stage, node, *((index, SEGMENTS - 1, CLOCK) for index in range(4)))
        answering = asyncio.create_task(answer_all(node))
        await asyncio.sleep(0)
        await finish(node, 4)
        chain: Any = node.chain
        answered = len(chain.sent)
        await answering
        assert answered <= 1, f"the claim waited for {answered} answers"
        assert len(chain.sent) == 4


def open_live_round(stage: Stage, index: int) -> None:
    rounds = stage.world.state.rounds
    live = replace(rounds[0], index=index, beacon=make_word("live"), phase=RoundPhase.RUNNING, root=None)
    live = replace(live, closed=None, seed=None, claims={})
    stage.world.state = replace(stage.world.state, rounds={**rounds, index: live}, next_round=index + 1)
    stage.sync()
