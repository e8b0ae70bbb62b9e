"""The submitter has the model that it paid for, also after all nodes have ended."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.export import find_own_header
from node.model_keeping import KeepModel, list_duties
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import refer_tensor
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.state import RoundPhase
from tests.protocol.actions.merge.stage import TASK, Stage, open_stage
from tests.protocol.actions.merge.test_global_model import COUNT, merge_model


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
