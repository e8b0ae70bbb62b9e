"""Whoever stops a node hears what stays locked, and until when the node has to be back."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit.nodes import TASK
from tests.node.health.test_metrics import get_trained_from, look
from tests.protocol.spec.game.simulation import make_quiet_world
from touchstone.node.health.parting import Parting
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.view import View
from touchstone.node.loop.node import Node
from touchstone.protocol.adapters.chain.fees import FeeOffer
from touchstone.protocol.adapters.chain.transaction_queue import TransactionQueue, Waiting
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.game.calls import LeaveSeat
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerQuery
from touchstone.protocol.spec.game.presets import BOUNDS_12S, BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.protocol.spec.tokens import format_tokens


def part(
    view: View, *, bounds: DeploymentBounds = BOUNDS_12S, queue: TransactionQueue | None = None
) -> list[str]:
    """What the operator of a node is told that looks at this and ends."""
    lines, sender = list[str](), queue and SimpleNamespace(queue=queue)
    Parting(cast(Any, SimpleNamespace(bounds=bounds, sender=sender)), lines.append).notify_end(view)
    return lines


def test_what_is_due_next_is_named_with_its_block_and_hours() -> None:
    world = make_quiet_world()
    world.cheats -= {"solver1", "solver2"}
    world.play(until=lambda one: one.state.rounds[0].trained_from is not None)
    windows = world.state.terms.windows
    long = replace(world.state.terms, windows=replace(windows, respond=10 * windows.train_max))
    world.state = replace(world.state, terms=long)
    lines = part(look(world, "solver0"))
    closing, head = get_trained_from(world.state) + windows.train_max, world.block - 1
    assert lines[0].startswith("WARNING: this node stops, its seat stays: solver 0 keeps ")
    hours = f"{(closing - head) * 12 / 3600:.1f}"
    assert f"Be back before block {closing} (in {hours} hours): the claim of the running round" in lines[0]


def test_silence_counts_from_now_where_nothing_is_due_earlier() -> None:
    """A question may come in the next block. Where the time of a block is not known, the block alone is."""
    world = make_quiet_world()
    view = look(world, "verifier0")
    lines = part(view, bounds=BOUNDS_LOCAL)
    last = world.block - 1 + world.state.terms.windows.respond
    assert f"Be back before block {last}: if somebody disputes" in lines[0]
    asked = InnerQuery(b"a" * 32, world.get_seat("verifier0").number, None, 3, "x", clock=world.block + 1)  # type: ignore[arg-type]
    view.chain_state.inner[TASK] = InnerBook(60, queries={asked.name: asked})
    assert f"Be back before block {asked.clock}: an answer is due" in part(view, bounds=BOUNDS_LOCAL)[0]


def test_a_round_that_may_open_is_told_with_its_cost() -> None:
    """A fee in tokens for a solver. None opens where all are used, or the submitter has halted."""
    world = make_quiet_world()
    fee = format_tokens(world.state.terms.amounts.dropped_fee)
    for account, cost in (("solver0", f"missing it costs a fee of {fee}"), ("verifier0", "is not paid")):
        lines = part(look(world, account))
        assert "Be back before " in lines[0] and "A round may open meanwhile: " in lines[0]
        assert cost in lines[0] and lines[0].endswith(
            "`touchstone leave` gives the seat up; the node is needed until the stake is paid out"
        )
    world.play(until=lambda one: one.state.next_round == one.state.terms.rounds)
    lines = part(look(world, "solver0"))
    assert "may open" not in lines[0]


def test_a_seat_that_leaves_is_not_told_to_leave() -> None:
    world = make_quiet_world()
    world.send(LeaveSeat(world.get_seat("verifier0").number), "verifier0")
    lines = part(look(world, "verifier0"))
    assert (
        "The seat is leaving already; the node is needed" in lines[0] and "touchstone leave" not in lines[0]
    )


def test_a_transaction_that_waits_is_told() -> None:
    """Also of an account without a seat."""
    view, queue = look(make_quiet_world(), "a stranger"), TransactionQueue("0xa")
    assert not part(view, queue=queue)
    queue.put(Waiting(1, "0xb", b"", 1, FeeOffer(1, 1), (b"h",), 1))
    assert part(view, queue=queue) == [
        "WARNING: a transaction of this node is not mined yet: the next start goes on with it"
    ]


def test_who_has_no_seat_is_told_nothing() -> None:
    assert not part(look(make_quiet_world(), "a stranger"))


async def test_a_node_that_is_stopped_tells_it() -> None:
    """Also while it still checks its machine."""
    lines, closed = list[str](), list[str]()

    async def do_nothing() -> None:
        pass

    async def check() -> None:
        await asyncio.sleep(60)

    class Checking(Node):
        async def join(self, task: bytes, figures: Figures | None = None) -> None:
            rooms = SimpleNamespace(self_test=SimpleNamespace(check_bits=check))
            self.joined = cast(Any, SimpleNamespace(rooms=rooms, close=lambda: closed.append("task")))

        def find_view(self) -> View | None:
            return look(make_quiet_world(), "verifier0")

    chain = SimpleNamespace(bounds=BOUNDS_12S, sender=None)
    following = SimpleNamespace(chain=chain, take_next=do_nothing)
    config, nothing = SimpleNamespace(use=None, notify=lines.append), cast(Any, None)
    node = Checking(cast(Any, config), cast(Any, following), nothing, nothing, nothing)
    running = asyncio.create_task(node.work_on(TASK, SeatRequest(SeatRole.VERIFIER)))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert any("its seat stays: verifier 0" in line for line in lines) and closed
