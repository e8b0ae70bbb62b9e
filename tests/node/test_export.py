"""Which model an account may export, and what it is told where it may have none."""

import asyncio
import os
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors import SafetensorError

from node import export
from node.export import (
    Choice,
    KeepModel,
    choose,
    choose_newest,
    choose_settled,
    explain_refusal,
    find_own_header,
    list_duties,
    load_weights,
)
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobRef, refer_tensor
from protocol.adapters.store import BlobStore
from protocol.compute.digest import tensor_bytes, tensor_root
from protocol.compute.model.reference_model import SAFETENSORS_NAME, init_parameters, parameter_count
from protocol.spec.containers import ModelConfig, TaskSpec
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game import calls
from protocol.spec.game.state import RoundPhase
from protocol.spec.params import GIVEN_START
from tests.protocol.actions.merge.stage import TASK, Stage, open_stage
from tests.protocol.actions.merge.test_global_model import COUNT, merge_model
from tests.protocol.actions.specs import get_spec
from tests.protocol.spec.game.test_posting import make_judged
from tests.protocol.spec.game.world import SUBMITTER, World, make_word, post

STRANGER = "stranger"


def make_posted() -> World:
    """A round with its root."""
    world = make_judged()
    assert post(world, (0, 1), (0, 1, 2)) is None
    return world


def get_until(world: World, index: int = 0) -> int:
    return world.state.rounds[index].root_until


def test_members_and_the_submitter_have_the_newest_model_and_anybody_the_settled_one() -> None:
    world = make_posted()
    root, until = world.state.rounds[0].root, get_until(world)
    for account, is_member in (("alice", True), (SUBMITTER, False)):
        found = choose(world.state, account, is_member=is_member, block=world.block)
        assert found is not None and (found.root, found.after) == (root, 0)
    assert choose(world.state, STRANGER, is_member=False, block=until) is None
    settled = choose(world.state, STRANGER, is_member=False, block=until + 1)
    assert settled is not None and settled.root == root
    assert str(settled) == "the model after round 0"


def test_before_any_root_there_is_the_first_model_for_members_alone() -> None:
    world = make_judged()
    newest = choose_newest(world.state)
    assert (newest.root, str(newest)) == (world.state.terms.root, "the model before any training")
    assert choose(world.state, STRANGER, is_member=False, block=10**6) is None


def test_what_is_contested_is_neither_newest_nor_settled() -> None:
    world = make_posted()
    world.send(calls.OpenContest(0, 300), "watcher")
    assert choose_newest(world.state).after == -1
    assert choose_settled(world.state, get_until(world) + 1) is None


def test_a_root_on_an_unsettled_one_is_not_settled() -> None:
    world = make_posted()
    first = world.state.rounds[0]
    second = replace(first, index=1, root=make_word("second"), root_until=0)
    state = replace(world.state, rounds={0: first, 1: second})
    assert choose_newest(state).after == 1
    assert choose_settled(state, first.root_until) is None
    found = choose_settled(state, first.root_until + 1)
    assert found is not None and found.after == 1
    undone = replace(second, phase=RoundPhase.UNDONE)
    assert choose_newest(replace(state, rounds={0: first, 1: undone})).after == 0


def test_a_model_stays_known_when_the_chain_forgets_its_epoch() -> None:
    """Anybody frees an epoch that is settled, also the last one of a task."""
    world = make_posted()
    root = make_word("trained")
    freed = replace(world.state, rounds={}, root=root, next_round=16, freed_epochs=1)
    for found in (choose_newest(freed), choose_settled(freed, 0), choose_settled(freed, 10**6)):
        assert found is not None and (found.root, found.after) == (root, 15)
    later = replace(world.state.rounds[0], index=16, base_root=root, root_until=100)
    begun = replace(freed, rounds={16: replace(later, phase=RoundPhase.RUNNING)}, next_round=17)
    assert choose_newest(begun) == choose_settled(begun, 0) == choose_newest(freed)
    posted = replace(freed, rounds={16: later}, next_round=17)
    settled = choose_settled(posted, 100)
    assert choose_newest(posted).after == 16 and settled is not None and settled.after == 15


def test_a_stranger_is_told_what_to_do() -> None:
    world = make_posted()
    until = get_until(world)
    refusal = explain_refusal(world.state, 10)
    assert f"until block {until + 1} (it is 10 now)" in refusal.remedy
    assert "seat" in refusal.remedy and "submitter" in refusal.remedy
    assert "a root is posted" in explain_refusal(make_judged().state, 10).remedy
    closed = replace(make_judged().state, is_closed=True)
    assert "Nothing" in explain_refusal(closed, 10).remedy


def test_who_finds_no_peer_is_told_who_keeps_models(tmp_path: Path) -> None:
    network = SimpleNamespace(peers={})
    reader: Any = SimpleNamespace(state=SimpleNamespace(network=network))
    config: Any = SimpleNamespace(home=tmp_path, threads=1)
    with pytest.raises(EnvironmentFault, match="no peer serves the model after round 0") as error:
        asyncio.run(load_weights(reader, config, bytes(32), cast(Any, None), Choice(bytes(32), 0)))
    assert "a solver or a whistleblower of the task is up" in error.value.remedy
    assert "works on another task now, stop it first" in error.value.remedy


async def test_the_first_model_of_given_weights_is_fetched_the_submitter_asked_first(tmp_path: Path) -> None:
    """It cannot be made here. With a seed it is made, and nobody is asked."""
    weights, asked = init_parameters(get_spec().training.model, 99), list[str]()
    store = BlobStore(tmp_path / "blobs", is_durable=False)

    async def fetch(peers: list[Any], ref: BlobRef) -> None:
        asked.extend(peer.account for peer in peers)
        store.put_tensor(ref.key.root, tensor_bytes(weights))

    spec = get_spec()
    terms = replace(spec.terms, initial_weights_root=tensor_root(weights))
    given = TaskSpec(terms, replace(spec.training, initial_seed=GIVEN_START))
    peers = {name: SimpleNamespace(account=name) for name in ("0xa", terms.submitter, "0xb")}
    state, client = (
        SimpleNamespace(network=SimpleNamespace(peers=peers)),
        SimpleNamespace(fetch_from_any=fetch),
    )
    reader: Any = SimpleNamespace(state=state, store=store, client=client)
    config: Any = SimpleNamespace(home=tmp_path, threads=1)
    first = Choice(bytes(32), -1)
    seeded = await load_weights(reader, config, bytes(32), spec, first)
    assert torch.equal(seeded, init_parameters(spec.training.model, spec.training.initial_seed)) and not asked
    assert torch.equal(await load_weights(reader, config, bytes(32), given, first), weights)
    assert asked == [terms.submitter, "0xa", "0xb"]


def test_a_full_disk_is_an_error_of_the_disk_and_leaves_no_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    monkeypatch.setattr(export, "save_file", fail)
    model = ModelConfig(256, 16, 32, 1, 2, 2, 8)
    with pytest.raises(OSError, match="No space left") as error:
        export.write_model(tmp_path / "model", torch.zeros(parameter_count(model)), model)
    assert error.value.errno == ENOSPC and not list((tmp_path / "model").iterdir())


def test_an_export_leaves_the_older_one_whole_until_its_own_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no room, and where the process is killed while it writes."""
    model, folder = ModelConfig(256, 16, 32, 1, 2, 2, 8), tmp_path / "model"
    count = parameter_count(model)
    export.write_model(folder, torch.zeros(count), model)
    names, older = sorted(folder.iterdir()), (folder / SAFETENSORS_NAME).read_bytes()
    seen: list[bytes] = []

    def fail(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        seen.append((folder / SAFETENSORS_NAME).read_bytes())
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    with monkeypatch.context() as full:
        full.setattr(export, "save_file", fail)
        with pytest.raises(OSError, match="No space left"):
            export.write_model(folder, torch.ones(count), model)
    assert seen == [older] and sorted(folder.iterdir()) == names
    assert (folder / SAFETENSORS_NAME).read_bytes() == older
    export.write_model(folder, torch.ones(count), model)
    assert (folder / SAFETENSORS_NAME).read_bytes() != older and sorted(folder.iterdir()) == names


def post_model(stage: Stage, peer: Party, *, is_running: bool) -> bytes:
    """A peer has merged round 0, and its root is posted; the root. is_running: round 1 has begun."""
    root, _ = merge_model(peer)
    posted = replace(stage.world.state.rounds[0], phase=RoundPhase.POSTED, root=root)
    running = replace(posted, index=1, phase=RoundPhase.RUNNING, root=None)
    rounds = {0: posted, 1: running} if is_running else {0: posted}
    stage.world.state = replace(stage.world.state, rounds=rounds)
    stage.sync()
    members: Any = peer.state
    members.is_staked = lambda account: True
    return root


async def test_the_model_of_a_task_that_stands_is_fetched_once_and_stays_in_the_home(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2) as stage:
        submitter, peer = stage.parties[1], stage.parties[2]
        root = post_model(stage, peer, is_running=True)
        assert not list(list_duties(submitter, stage.world.block)), "a newer one comes"
        post_model(stage, peer, is_running=False)
        [duty] = list_duties(submitter, stage.world.block)
        assert isinstance(duty, KeepModel) and duty.choice.root == root
        await duty.perform(submitter)
        assert not list(list_duties(submitter, stage.world.block))
        home, store = submitter.config.home, submitter.store
    header = find_own_header(home, TASK, root)
    assert header is not None and store.has(refer_tensor(header.weights_root, COUNT))


async def test_a_kept_model_is_in_the_journal_though_it_could_not_be_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else export finds nothing in the home, which says that it keeps the model."""
    async with open_stage(tmp_path, 1, 2) as stage:
        submitter, peer = stage.parties[1], stage.parties[2]
        root = post_model(stage, peer, is_running=False)

        def refuse(record: Any) -> None:
            raise EnvironmentFault(what="the journal cannot be written", expected="", actual="", remedy="")

        (duty,) = list_duties(submitter, stage.world.block)
        with monkeypatch.context() as full:
            full.setattr(submitter.journal, "append", refuse)
            with pytest.raises(EnvironmentFault, match="cannot be written"):
                await duty.perform(submitter)
        (again,) = list_duties(submitter, stage.world.block)
        await again.perform(submitter)
        await again.perform(submitter)
        assert not list(list_duties(submitter, stage.world.block))
        assert len(list(submitter.journal.replay())) == 1
        home = submitter.config.home
    assert find_own_header(home, TASK, root) is not None


async def test_a_model_is_kept_once_it_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and its name are flushed before the journal says that it is kept."""
    async with open_stage(tmp_path, 1, 2) as stage:
        submitter, peer = stage.parties[1], stage.parties[2]
        post_model(stage, peer, is_running=False)
        (duty,) = list_duties(submitter, stage.world.block)
        flushed: list[int] = []
        sync, store = os.fsync, submitter.store

        def refuse(handle: int) -> None:
            raise OSError(5, "Input/output error")

        def note(handle: int) -> None:
            flushed.append(os.fstat(handle).st_ino)
            sync(handle)

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(EnvironmentFault, match="blob store cannot be written"):
            await duty.perform(submitter)
        assert list(list_duties(submitter, stage.world.block)) == [duty]
        monkeypatch.setattr(os, "fsync", note)
        await duty.perform(submitter)
        header = submitter.task.claims.outer[duty.choice.root]
        path = store.get_path(refer_tensor(header.weights_root, COUNT).key)
        files = {path, *path.parent.glob(f"{path.name}*"), path.parent}
        assert {one.stat().st_ino for one in files} <= set(flushed)


async def test_a_task_without_a_posted_root_has_no_model_to_keep(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        stage.world.state = replace(stage.world.state, rounds={}, is_halted=True)
        assert stage.world.state.root == stage.world.state.terms.root
        stage.sync()
        assert not list(list_duties(stage.parties[1], stage.world.block))
