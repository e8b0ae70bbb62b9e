"""A solver that was too late for a round trains on at the closed round, beside the next one."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.node.merging.stage import open_stage
from touchstone.node.training import claims, speculation
from touchstone.node.training.claims import MakeClaim, get_basis
from touchstone.node.training.speculation import TrainSpeculatively
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.errors import EnvironmentFault


async def test_training_ends_when_the_round_has_closed_without_this_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        node = stage.nodes[1]
        game_round = stage.world.state.rounds[0]
        begun, go_on, segments = threading.Event(), threading.Event(), []

        def train(*arguments: Any) -> Any:
            segments.append(arguments[3])
            begun.set()
            go_on.wait(30)
            return train_segment(*arguments)

        await stage.commit(2, 3)
        monkeypatch.setattr(claims, "train_segment", train)
        late = asyncio.create_task(MakeClaim(0, get_basis(game_round) or b"").perform(node.rooms.training))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        closed = stage.draw()  # two of three have committed: the round closes, this solver is DROPPED
        assert closed.closed is not None and stage.get_slot(1) not in closed.claims
        go_on.set()
        with pytest.raises(EnvironmentFault):
            await late
        assert len(segments) == 1, f"{len(segments)} segments of a closed round were trained for nothing"


async def test_one_round_is_trained_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed round and the one after it: each takes half of the machine."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        node = stage.nodes[1]
        game_round = stage.world.state.rounds[0]
        go_on, lock, rounds, most = threading.Event(), threading.Lock(), list[int](), 0

        def train(state: Any, *arguments: Any) -> Any:
            nonlocal most
            index = state.global_step // node.task.spec.terms.inner_steps
            with lock:
                rounds.append(index)
                most = max(most, len(set(rounds)))
            go_on.wait(1)
            try:
                return train_segment(state, *arguments)
            finally:
                with lock:
                    rounds.remove(index)

        await stage.commit(2, 3)
        monkeypatch.setattr(claims, "train_segment", train)
        late = asyncio.create_task(MakeClaim(0, get_basis(game_round) or b"").perform(node.rooms.training))
        while not rounds:
            await asyncio.sleep(0.01)
        closed = stage.draw()
        await stage.fetch_all(1)
        stage.world.jump((closed.closed or 0) + stage.world.state.terms.windows.audit_max // 8 + 1)
        stage.sync()
        (expected_round,) = [
            one
            for one in speculation.list_duties(node.get_view(), stage.world.block)
            if isinstance(one, TrainSpeculatively)
        ]
        await asyncio.gather(expected_round.perform(node.rooms.speculation), late, return_exceptions=True)
        assert most == 1, "a round that has closed is trained beside the next one"
