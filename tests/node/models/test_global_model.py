"""What stands behind an outer root: made from the seed, or believed where it hashes to the root."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kit.nodes import TASK, change_spec, get_account
from tests.node.merging.stage import ask_unjoined, get_base_root, open_stage
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import make_word
from tests.task_models import draw_first
from touchstone.node.models import start_weights
from touchstone.node.models.global_model import (
    OUTER,
    AskOuter,
    OuterAnswer,
    get_initial_header,
)
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.compute.outer.nesterov_step import OuterState, begin_outer
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.scripts.roles.role_nodes import Member

COUNT = get_spec().terms.parameter_count
MODEL = OuterState(torch.linspace(-1, 1, COUNT), torch.linspace(0, 2, COUNT))
"""A model as some round left it."""


def merge_model(node: Member) -> tuple[bytes, OuterHeader]:
    """A node that came to this model by a merge of its own; the root."""
    header = node.rooms.model.keep_outer(MODEL)
    root = compute_outer_root(header)
    node.rooms.tools.claims.outer[root] = header
    return root, header


async def test_a_node_that_comes_late_has_the_model_from_a_peer(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2) as stage:
        late, peer = stage.nodes[1], stage.nodes[2]
        root, header = merge_model(peer)
        posted = replace(stage.world.state.rounds[0], phase=RoundPhase.POSTED, root=root)
        stage.world.state = replace(stage.world.state, rounds={0: posted})
        stage.sync()
        members: Any = peer.state
        members.is_staked = lambda account: account == late.account
        assert await late.rooms.model.load_outer(root) == header
        found = await late.rooms.model.load_outer_state(header)
        assert torch.equal(found.weights, MODEL.weights) and torch.equal(found.momentum, MODEL.momentum)
        late.state.network.peers.clear()
        assert await late.rooms.model.load_outer(root) == header, "it is asked for once"
        assert torch.equal(await late.rooms.model.load_weights(header), MODEL.weights)


async def test_an_answer_that_does_not_hash_to_the_root_is_not_believed(tmp_path: Path) -> None:
    """A peer that answers first could otherwise have a node train on a model of the peer's own."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        late, liar, honest = (stage.nodes[seed] for seed in (1, 2, 3))
        root, header = merge_model(honest)
        liar.rooms.tools.claims.outer[root] = replace(header, momentum_root=make_word("other momentum"))
        helper = late.state.network.peers.pop(get_account(3))
        with pytest.raises(ProtocolFault, match="do not hash to the outer root") as refused:
            await late.rooms.model.load_outer(root)
        assert get_account(2) in str(vars(refused.value)) and root not in late.rooms.tools.claims.outer
        late.state.network.peers[get_account(3)] = helper
        assert await late.rooms.model.load_outer(root) == header


async def test_a_root_of_which_no_peer_tells_is_not_built_on(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        with pytest.raises(EnvironmentFault, match="the data of an outer root"):
            await node.rooms.model.load_outer(make_word("root"))


async def test_the_first_model_is_made_from_the_seed_without_any_peer(tmp_path: Path) -> None:
    """A task that names other roots is told to be one that no account should stake on."""
    async with open_stage(tmp_path, 1) as stage:
        node, training = stage.nodes[1], get_spec().training
        header = await node.rooms.model.load_outer(get_base_root())
        state = await node.rooms.model.load_outer_state(header)
        assert torch.equal(state.weights, draw_first(training))
        assert not state.momentum.any() and torch.equal(
            await node.rooms.model.load_weights(header), state.weights
        )
        for root in (make_word("weights"), node.rooms.model.keep_outer(MODEL).weights_root):
            terms = replace(get_spec().terms, initial_weights_root=root)
            change_spec(node, replace(get_spec(), terms=terms))
            with pytest.raises(ProtocolFault, match="Do not stake"):
                await node.rooms.model.load_weights(get_initial_header(node.get_view()))


async def test_the_first_model_is_made_once_and_again_where_the_store_has_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a peer has sent under the roots of the task says nothing about its seed."""
    async with open_stage(tmp_path, 1) as stage:
        node, training, made = stage.nodes[1], get_spec().training, list[int]()
        first = draw_first(training)

        def make(*arguments: Any) -> torch.Tensor:
            made.append(1)
            return first

        monkeypatch.setattr(start_weights, "draw_weights", make)
        header = node.rooms.model.keep_outer(begin_outer(first))
        for _ in range(3):
            state = await node.rooms.model.load_outer_state(header)
            assert torch.equal(state.weights, first) and not state.momentum.any()
            assert torch.equal(await node.rooms.model.load_weights(header), first)
        assert len(made) == 1
        paths = [node.store.get_path(refer_tensor(root, COUNT).key) for root in vars(header).values()]
        for path in paths:
            path.unlink()
            assert torch.equal((await node.rooms.model.load_outer_state(header)).weights, first)
            with path.open("r+b") as file:
                file.write(b"\1\2\3")
            assert torch.equal((await node.rooms.model.load_outer_state(header)).weights, first)
        assert len(made) == 5 and all(path.exists() for path in paths)


async def test_a_node_tells_of_roots_of_its_own_task_alone(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        root, header = merge_model(node)
        right = encode_message(AskOuter(TASK, root))
        assert await node.rooms.model.answer_outer("0x", right) == OuterAnswer(*vars(header).values())
        for asked in (AskOuter(make_word("other task"), root), AskOuter(TASK, make_word("other root"))):
            with pytest.raises(EnvironmentFault, match="the data of an outer root"):
                await node.rooms.model.answer_outer("0x", encode_message(asked))
        with pytest.raises(EnvironmentFault, match="joined no task"):
            await ask_unjoined(node, OUTER, AskOuter(TASK, root))
