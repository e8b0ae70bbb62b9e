"""States between tensors and the store."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from tests.kit.views import Standin
from tests.node.specs import get_spec
from tests.protocol.adapters import parties
from tests.task_models import draw_first
from touchstone.node.kit.party import Party
from touchstone.node.kit.states import (
    fetch_state,
    has_state,
    keep_state,
    load_state,
    open_state,
    open_state_leaves,
)
from touchstone.protocol.compute.digest import build_state_trees
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.merkle import hash_leaf, is_valid_path
from touchstone.protocol.spec.state_headers import StateHeader


def make_party(folder: Path, seed: int = 1) -> tuple[Party, parties.Party]:
    """A party on the tiny task, of which only store and client are there; and who has them."""
    own = parties.Party(folder, seed)
    found = Standin(store=own.store, client=own.make_client(), task=SimpleNamespace(spec=get_spec()))
    return cast(Party, found), own


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return make_party(tmp_path / "solver")[0]


def make_state(seed: int = 3) -> TrainingState:
    weights = draw_first(get_spec().training, seed)
    return TrainingState(weights, weights * 0.5, weights * weights, 4, 12)


def is_same(a: TrainingState, b: TrainingState) -> bool:
    pairs = ((a.weights, b.weights), (a.first_moment, b.first_moment), (a.second_moment, b.second_moment))
    counters = (a.local_step, a.global_step) == (b.local_step, b.global_step)
    return counters and all(torch.equal(x, y) for x, y in pairs)


def test_a_kept_state_is_loaded_as_it_was(party: Party) -> None:
    state = make_state()
    header = keep_state(party, state)
    assert header == build_state_trees(state).header and has_state(party, header)
    assert is_same(load_state(party, header), state)


def test_a_state_with_a_tensor_missing_is_not_there(party: Party) -> None:
    header = keep_state(party, make_state())
    other = StateHeader(header.weights_root, bytes(32), header.second_moment_root, 4, 12)
    assert has_state(party, header) and not has_state(party, other)


async def test_a_state_is_fetched_where_it_is_not_kept(tmp_path: Path) -> None:
    solver, own = make_party(tmp_path / "solver")
    verifier, _ = make_party(tmp_path / "verifier", 2)
    header = keep_state(solver, make_state())
    async with verifier.client:
        async with own.serve() as peer:
            assert is_same(await fetch_state(verifier, [peer], header), make_state())
        assert is_same(await fetch_state(verifier, [peer], header), make_state()), "nobody serves any more"


async def test_a_state_that_nobody_shows_cannot_be_had(tmp_path: Path) -> None:
    party, own = make_party(tmp_path / "solver")
    async with own.serve() as peer, party.client:
        with pytest.raises(EnvironmentFault):
            await fetch_state(party, [peer], StateHeader(bytes(32), bytes(32), bytes(32), 0, 0))


def test_a_stored_state_is_cut_as_the_loaded_one(party: Party) -> None:
    state = make_state()
    header = keep_state(party, state)
    stored, elements = open_state(party, header), state.elements
    assert (stored.elements, stored.local_step, stored.global_step) == (elements, 4, 12)
    for start, stop in ((0, 1), (700, 5_000), (0, elements), (elements - 3, elements + 9)):
        for _ in range(2):
            assert is_same(stored.cut(start, stop), state.cut(start, stop)), "whatever was let go of"


def test_leaves_open_under_their_roots(party: Party) -> None:
    state = make_state()
    header, trees = keep_state(party, state), build_state_trees(state)
    count = count_tensor_leaves(get_spec().terms.parameter_count)
    opened = open_state_leaves(party, header, [0, count - 1])
    for index, leaves in zip([0, count - 1], opened, strict=True):
        pairs = (
            (trees.weights, leaves.weights),
            (trees.first_moment, leaves.first_moment),
            (trees.second_moment, leaves.second_moment),
        )
        for tree, leaf in pairs:
            assert is_valid_path(tree.root, hash_leaf(leaf.data), index, count, leaf.path)
