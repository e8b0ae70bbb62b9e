"""The weights that a task begins with: from its seed, or from a node that has them, proven by their root."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kit.nodes import TASK, change_spec, get_account, get_lines
from tests.node.merging.stage import Stage, open_stage
from tests.node.silent_peer import run_silent
from tests.node.specs import get_spec
from tests.node.upkeep.stage import Node
from tests.node.upkeep.test_retention import play
from tests.task_models import draw_first
from touchstone.node.joining import seat_taking
from touchstone.node.joining.machine_check import MachineCheck
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.models import start_weights
from touchstone.node.models.global_model import get_initial_header
from touchstone.node.models.start_weights import make_start, refer_start
from touchstone.node.upkeep import self_test
from touchstone.node.upkeep.retention import list_kept
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.compute.digest import tensor_bytes, tensor_root
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.scripts.roles.role_nodes import Member

WEIGHTS = draw_first(get_spec().training, 1234)
SERVER, ASKER, OTHER = 1, 2, 3


def give(weights: Tensor = WEIGHTS) -> TaskSpec:
    """The tiny task, beginning with these weights."""
    spec = get_spec()
    terms = replace(spec.terms, initial_weights_root=tensor_root(weights), submitter=get_account(SERVER))
    return TaskSpec(terms, replace(spec.training, initial_seed=GIVEN_START))


@asynccontextmanager
async def open_given(folder: Path, spec: TaskSpec) -> AsyncIterator[tuple[Stage, Member, Member]]:
    """The stage of a task whose weights are given: a node that has them, and one that does not."""
    async with open_stage(folder, SERVER, ASKER) as stage:
        for node in stage.nodes.values():
            change_spec(node, spec)
        server, asker = stage.nodes[SERVER], stage.nodes[ASKER]
        yield stage, server, asker


def keep(node: Member, spec: TaskSpec, weights: Tensor = WEIGHTS) -> None:
    node.store.put_tensor(spec.terms.initial_weights_root, tensor_bytes(weights))


def test_only_one_seed_stands_for_given_weights() -> None:
    training = get_spec().training
    seeds = (0, 1, GIVEN_START - 1, GIVEN_START)
    found = [replace(training, initial_seed=seed).is_start_given for seed in seeds]
    assert found == [False, False, False, True]


async def test_given_weights_come_from_a_peer_and_a_seed_needs_none(tmp_path: Path) -> None:
    """Any account may have them: it has no seat yet."""
    spec = give()
    async with open_given(tmp_path, spec) as (_, server, asker):
        keep(server, spec)
        for node in (server, asker):
            node.state.games[TASK] = replace(node.state.games[TASK], seats={})
        assert torch.equal(await asker.rooms.start.load(spec), WEIGHTS)
        assert asker.store.has(refer_start(spec))
        asker.state.network.peers.clear()
        header = get_initial_header(asker.get_view())
        state = await asker.rooms.model.load_outer_state(header)
        assert torch.equal(state.weights, WEIGHTS) and not state.momentum.any()
        assert torch.equal(await asker.rooms.model.load_weights(header), WEIGHTS), "fetched once"
        seeded = await asker.rooms.start.load(get_spec())
        assert torch.equal(seeded, make_start(get_spec())) and asker.store.has(refer_start(get_spec()))


async def test_chunks_that_came_are_kept_where_the_connection_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request asks for the rest alone."""
    weights = torch.arange(700_000, dtype=torch.float32)
    spec = give(weights)
    spec = replace(spec, terms=replace(spec.terms, parameter_count=weights.numel()))
    async with open_given(tmp_path, spec) as (_, server, asker):
        keep(server, spec, weights)
        stream: Any = BlobClient._stream_range
        asked: list[range] = []

        async def break_once(client: Any, peer: Any, ref: Any, left: range, **how: Any) -> Any:
            asked.append(left)
            came = 0
            async for piece in stream(client, peer, ref, left, **how):
                yield piece
                came += len(piece)
                if len(asked) == 1 and came > 2_000_000:
                    raise EnvironmentFault(what="broken", expected="", actual="", remedy="")

        monkeypatch.setattr(BlobClient, "_stream_range", break_once)
        ref = await asker.rooms.start.fetch(spec)
        assert ref.chunk_count == 3 and torch.equal(await asker.rooms.start.load(spec), weights)
        assert len(asked) == 2 and asked[1].start >= 1 << 20 and asked[1].stop == ref.size_bytes


async def test_other_bytes_are_refused_and_not_kept(tmp_path: Path) -> None:
    spec = give()
    async with open_given(tmp_path, spec) as (_, server, asker):
        keep(server, spec)
        _spoil(server, spec)
        with pytest.raises(EnvironmentFault, match="no peer serves the task's starting weights"):
            await asker.rooms.start.load(spec)
        assert not asker.store.has(refer_start(spec))


async def test_nobody_stakes_before_the_weights_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = give()
    async with open_given(tmp_path, spec) as (_, server, asker):
        _join_only_start(monkeypatch)
        asker.state.games[TASK] = replace(asker.state.games[TASK], seats={})
        with pytest.raises(EnvironmentFault):
            await _join(asker)
        chain: Any = asker.chain
        assert not chain.sent
        keep(server, spec)
        await _join(asker)
        assert chain.sent and asker.store.has(refer_start(spec))


async def test_a_node_with_a_seat_starts_again_though_nobody_serves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has disputes to answer: silence would cost its stake."""
    spec = give()
    async with open_given(tmp_path, spec) as (_, _, asker):
        _join_only_start(monkeypatch)
        await asker._have_start()
        assert "WARNING" in get_lines(asker)[-1] and "it has a seat or a bond" in get_lines(asker)[-1]
        change_spec(asker, replace(spec, training=get_spec().training))
        with pytest.raises(ProtocolFault, match="not those of its seed"):
            await asker._have_start()


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_node_with_a_seat_waits_for_no_peer_when_it_starts_again(
    tmp_path: Path, is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that answers as slowly as it may would hold it for hours, and disputes have windows."""
    spec = give()
    async with open_given(tmp_path, spec) as (_, server, asker), run_silent() as show:
        asker.state.network.peers = {server.account: show(server.account)}
        monkeypatch.setattr(self_test, "find_last_stated", lambda _: 7)
        if is_damaged:
            keep(asker, spec)
            _spoil(asker, spec)
        async with asyncio.timeout(2):
            await asker._have_start()
            await asker.rooms.self_test.check_bits()
            await asker.rooms.machine_check.check_machine()
        lines = get_lines(asker)
        assert len(lines) == 3 and all("WARNING" in line for line in lines)
        assert asker.rooms.tools.pruning_memory.unlike_until == 7, "what was stated before is kept whole"


async def test_weights_on_which_no_work_is_accepted_are_refused(tmp_path: Path) -> None:
    """Their submitter's own command refuses them; a hostile one posts them all the same."""
    for number, is_sound in ((2.0**63, True), (2.0**64, False), (-(2.0**127), False)):
        weights = WEIGHTS.clone()
        weights[5] = number
        spec = give(weights)
        async with open_given(tmp_path / str(number), spec) as (_, server, asker):
            keep(server, spec, weights)
            if is_sound:
                await asker.rooms.start.load(spec)
            else:
                with pytest.raises(InvalidInput, match="too large"):
                    await asker.rooms.start.load(spec)


def test_weights_are_judged_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie in a file, whose pages count as this process's memory until it lets go of them."""
    seen: list[int] = []
    monkeypatch.setattr(start_weights, "PART_ELEMENTS", 4)
    monkeypatch.setattr(start_weights, "relax", lambda: seen.append(1))
    start_weights.require_sound(torch.ones(10))
    assert len(seen) == 3
    for number in (2.0**64, -(2.0**64), float("inf"), float("-inf"), float("nan")):
        for place in (0, 5, 9):
            weights = torch.ones(10)
            weights[place] = number
            with pytest.raises(InvalidInput, match="too large"):
                start_weights.require_sound(weights)


@pytest.mark.parametrize("is_given", [True, False])
def test_given_weights_stay_as_long_as_the_node_works_on_the_task(tmp_path: Path, is_given: bool) -> None:
    """Who joins late gets them from any node; what a seed makes goes."""
    node = Node("solver0", tmp_path / "blobs")
    state = play(node, 4).get_now()
    kept = list_kept(state, replace(node.books, is_start_given=is_given), 10**6)
    assert (node.initial.weights_root in {key.root for key in kept}) == is_given


def _spoil(node: Member, spec: TaskSpec) -> None:
    """A bit of the stored weights turns over."""
    path = node.store.get_path(refer_start(spec).key)
    data = bytearray(path.read_bytes())
    data[77] ^= 1
    path.write_bytes(bytes(data))


def _join_only_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage has no chain that a whole joining reads."""

    async def do_nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(MachineCheck, "check_machine", do_nothing)
    monkeypatch.setattr(seat_taking, "require_joinable", lambda *_: None)


async def _join(node: Member) -> None:
    """What `Node.join` ends with, and then the seat."""
    await node._have_start()
    await node.rooms.seat_taking.take_seat(SeatRequest(SeatRole.VERIFIER))
