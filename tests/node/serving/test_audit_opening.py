"""What replays segments for a node: its own process, other processes, or Ray."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK
from tests.node.merging.stage import open_stage
from touchstone.node.serving import audit_opening
from touchstone.node.serving.audit_opening import open_seated_pool
from touchstone.node.training.replay_pool import ProcessWorker
from touchstone.protocol.spec.errors import EnvironmentFault


@pytest.mark.parametrize("processes", [1, 2])
async def test_without_its_ray_a_node_that_has_a_seat_starts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """The Ray that its operator runs is down when the node starts again: it has votes to answer for."""

    def open_ray(*_: object) -> Any:
        raise EnvironmentFault(what="Ray does not answer", expected="it", actual="none", remedy="Look.")

    monkeypatch.setattr(audit_opening, "open_ray", open_ray)
    lines: list[str] = []
    async with open_stage(tmp_path, 1) as one:
        node = one.nodes[1]
        config = replace(node.config, notify=lines.append, executor="ray", ray_address="10.0.0.1:1")
        config = replace(config, replay_processes=processes)
        pool = open_seated_pool(config, node.game, node.account)
        assert "Ray does not answer" in lines[0] and len(lines) == processes, (
            "and where replays run, if elsewhere"
        )
        assert (pool is None) == (processes == 1)
        if pool is not None:
            assert isinstance(pool.make_worker(), ProcessWorker)
            pool.close()
        node.state.games[TASK] = replace(node.state.games[TASK], seats={})
        with pytest.raises(EnvironmentFault, match="Ray does not answer"):
            open_seated_pool(config, node.game, node.account)
