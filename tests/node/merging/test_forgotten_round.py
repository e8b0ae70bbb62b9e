"""The model of a round that the chain has forgotten with its epoch is served, since export names it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.merging.stage import Stage, get_base_root, open_stage
from tests.node.models.test_global_model import merge_model
from touchstone.node.merging.merge_requests import may_read
from touchstone.node.models.outer_step import find_oldest
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import GameRound


def forget(stage: Stage, root: bytes, later: Mapping[int, GameRound]) -> None:
    """Sixteen rounds were played, and their epoch is forgotten."""
    state, next_round = stage.world.state, 16 + len(later)
    stage.world.state = replace(state, root=root, rounds=later, next_round=next_round, freed_epochs=1)
    stage.sync()


@pytest.mark.parametrize("is_running", [False, True])
async def test_any_account_is_served_the_model_that_the_oldest_known_round_starts_from(
    tmp_path: Path, is_running: bool
) -> None:
    """Also a member that comes late, and needs it to train."""
    async with open_stage(tmp_path, 1, 2) as stage:
        late, peer = stage.nodes[1], stage.nodes[2]
        root, header = merge_model(peer)
        last = stage.world.state.rounds[0]
        assert not may_read(peer.get_view(), "stranger", BlobKind.TENSOR, header.weights_root), (
            "it is not settled"
        )
        running = replace(last, index=16, base_root=root, phase=RoundPhase.RUNNING)
        forget(stage, root, {16: running} if is_running else {})
        assert find_oldest(stage.world.state) == (16, root) != (0, get_base_root())
        assert may_read(peer.get_view(), "stranger", BlobKind.TENSOR, header.weights_root)
        assert (await late.rooms.model.load_outer_state(header)).weights.any()
