"""States between tensors and the store."""

from pathlib import Path

import pytest
import torch

from tests.node.specs import get_spec
from tests.protocol.adapters.parties import Party
from tests.task_models import draw_first
from touchstone.node.kit.states import StateStore
from touchstone.protocol.compute.digest import build_state_trees
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.merkle import hash_leaf, is_valid_path
from touchstone.protocol.spec.state_headers import StateHeader


def make_states(folder: Path, seed: int = 1) -> tuple[StateStore, Party]:
    """States of the tiny task, and who has them."""
    own = Party(folder, seed)
    return StateStore(own.store, get_spec().terms.parameter_count), own


@pytest.fixture
def states(tmp_path: Path) -> StateStore:
    return make_states(tmp_path / "solver")[0]


def make_state(seed: int = 3) -> TrainingState:
    weights = draw_first(get_spec().training, seed)
    return TrainingState(weights, weights * 0.5, weights * weights, 4, 12)


def is_same(a: TrainingState, b: TrainingState) -> bool:
    pairs = ((a.weights, b.weights), (a.first_moment, b.first_moment), (a.second_moment, b.second_moment))
    counters = (a.local_step, a.global_step) == (b.local_step, b.global_step)
    return counters and all(torch.equal(x, y) for x, y in pairs)


def test_a_kept_state_is_loaded_as_it_was(states: StateStore) -> None:
    state = make_state()
    header = states.keep(state)
    assert header == build_state_trees(state).header and states.has(header)
    assert is_same(states.load(header), state)


def test_a_state_with_a_tensor_missing_is_not_there(states: StateStore) -> None:
    header = states.keep(make_state())
    other = StateHeader(header.weights_root, bytes(32), header.second_moment_root, 4, 12)
    assert states.has(header) and not states.has(other)


async def test_a_state_is_fetched_where_it_is_not_kept(tmp_path: Path) -> None:
    solver, own = make_states(tmp_path / "solver")
    verifier, asking = make_states(tmp_path / "verifier", 2)
    header = solver.keep(make_state())
    async with asking.make_client() as client:
        async with own.serve() as peer:
            assert is_same(await verifier.fetch_and_load(client, [peer], header), make_state())
        again = await verifier.fetch_and_load(client, [peer], header)
        assert is_same(again, make_state()), "nobody serves any more"


async def test_a_state_that_nobody_shows_cannot_be_had(tmp_path: Path) -> None:
    states, own = make_states(tmp_path / "solver")
    unknown = StateHeader(bytes(32), bytes(32), bytes(32), 0, 0)
    async with own.serve() as peer, own.make_client() as client:
        with pytest.raises(EnvironmentFault):
            await states.fetch_and_load(client, [peer], unknown)


def test_a_stored_state_is_cut_as_the_loaded_one(states: StateStore) -> None:
    state = make_state()
    header = states.keep(state)
    stored, elements = states.open(header), state.elements
    assert (stored.elements, stored.local_step, stored.global_step) == (elements, 4, 12)
    for start, stop in ((0, 1), (700, 5_000), (0, elements), (elements - 3, elements + 9)):
        for _ in range(2):
            assert is_same(stored.cut(start, stop), state.cut(start, stop)), "whatever was let go of"


def test_leaves_open_under_their_roots(states: StateStore) -> None:
    state = make_state()
    header, trees = states.keep(state), build_state_trees(state)
    count = count_tensor_leaves(get_spec().terms.parameter_count)
    opened = states.open_leaves(header, [0, count - 1])
    for index, leaves in zip([0, count - 1], opened, strict=True):
        pairs = (
            (trees.weights, leaves.weights),
            (trees.first_moment, leaves.first_moment),
            (trees.second_moment, leaves.second_moment),
        )
        for tree, leaf in pairs:
            assert is_valid_path(tree.root, hash_leaf(leaf.data), index, count, leaf.path)
