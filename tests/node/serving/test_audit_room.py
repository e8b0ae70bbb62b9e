"""States that an auditor keeps and fetches, and the learning rates that its limits grow with."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.node.specs import get_spec
from tests.protocol.adapters import parties
from tests.verifier.stage import TASK, Node, begin_model, get_task, make_stage
from touchstone.node.kit.states import StateStore
from touchstone.node.serving.audit_room import read_audit_task
from touchstone.protocol.adapters.store.blob_store import LOCK_NAME, BlobStore
from touchstone.protocol.compute.digest import tensor_bytes
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.schedule import compute_learning_rate_sum


def make_states(store: BlobStore) -> StateStore:
    return StateStore(store, get_task().parameter_count)


def test_a_state_that_is_kept_is_loaded_with_all_its_numbers(tmp_path: Path) -> None:
    """Each tensor differs, so that none can stand in for another."""
    weights = begin_model().weights
    state = replace(
        begin_model(), first_moment=weights + 1, second_moment=weights.abs() + 2, local_step=5, global_step=13
    )
    states = make_states(BlobStore(tmp_path, is_durable=False))
    header = states.keep(state)
    found = states.load(header)
    assert (found.local_step, found.global_step) == (header.local_step, header.global_step) == (5, 13)
    for name in ("weights", "first_moment", "second_moment"):
        assert torch.equal(getattr(found, name), getattr(state, name))
    states.store.delete(states.refer(header)[2].key)
    with pytest.raises(InvalidInput):
        states.load(header)


def test_of_a_state_that_is_not_finite_nothing_is_kept(tmp_path: Path) -> None:
    """The store shows what it has: no auditor may fetch W of a replay that left the numbers."""
    moment = begin_model().second_moment.clone()
    moment[3] = float("nan")
    states = make_states(BlobStore(tmp_path, is_durable=False))
    with pytest.raises(ProtocolFault):
        states.keep(replace(begin_model(), second_moment=moment))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [LOCK_NAME]


async def test_each_tensor_of_a_state_comes_from_whichever_peer_shows_it(tmp_path: Path) -> None:
    state = replace(begin_model(), first_moment=begin_model().weights + 1)
    one, other, auditor = (parties.Party(tmp_path / str(seed), seed) for seed in (1, 2, 3))
    header = make_states(one.store).keep(state)
    weights, first, _ = make_states(one.store).refer(header)
    other.store.put(first, tensor_bytes(state.first_moment))
    one.store.delete(first.key)
    async with one.serve() as peer, other.serve() as second, auditor.make_client() as client:
        await make_states(auditor.store).fetch(client, [peer, second], header)
    assert torch.equal(make_states(auditor.store).load(header).first_moment, state.first_moment)
    assert not other.store.has(weights)


def test_the_learning_rates_of_a_segment_are_those_of_its_own_steps() -> None:
    """The limits of a state grow with them. Here the schedule warms up to the end, so that all differ."""
    spec, terms = get_spec(), get_spec().terms
    schedule = replace(spec.training.schedule, warmup_steps=terms.rounds * terms.inner_steps)
    warming = replace(spec, training=replace(spec.training, schedule=schedule))
    about, segments = read_audit_task(TASK, warming, get_task().corpus), terms.segment_count
    for index in range(terms.rounds):
        for segment in range(segments):
            place = (index * segments + segment, terms.segment_steps, terms.inner_steps)
            assert about.get_rate_sum(index, segment) == compute_learning_rate_sum(schedule, *place)
    assert len(set(about.rate_sums)) == terms.rounds * segments


async def test_a_node_speaks_in_the_block_that_follows_the_head(tmp_path: Path) -> None:
    """A vote that is made at the head counts, at the earliest, one block later."""
    stage = make_stage()
    async with Node(stage, stage.find_auditor(), tmp_path).run() as auditor:
        assert auditor.room.block == stage.head + 1
