"""What a node checks and fetches before it stakes on a task."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from protocol.actions.join import catch_up, fetch_dataset, join_task, read_spec
from protocol.adapters.chain import Batch
from protocol.adapters.store import BlobStore
from protocol.spec import events
from protocol.spec.codec import encode_training
from protocol.spec.errors import EnvironmentFault, InvalidInput
from tests.e2e.world import make_dataset
from tests.protocol.actions.facts import BOB, MALLORY, TASK, announce, make_batch
from tests.protocol.actions.lone import SUBMITTER, Lone, get_spec
from tests.protocol.spec.simulator import make_word


def post(lone: Lone, task: bytes, **changes: int | bytes) -> None:
    """Another task with terms changed, whoever let the chain take them."""
    spec = get_spec()
    terms = replace(spec.terms, **changes)  # type: ignore[arg-type]
    training = encode_training(spec.training)
    lone.take(
        events.TaskCreated(block_number=9, task=task, submitter=SUBMITTER, terms=terms, training=training)
    )


def give_dataset(lone: Lone) -> BlobStore:
    """A peer that has the dataset, which this node has not."""
    remote = BlobStore(lone.party.config.home / "remote", is_durable=False)
    remote.put_dataset(make_dataset())
    lone.client.remote = remote
    return remote


async def test_an_unknown_task_is_refused_with_those_that_are_known(solver: Lone) -> None:
    with pytest.raises(InvalidInput, match=TASK.hex()):
        await join_task(solver.party, make_word("nowhere"))


async def test_a_malformed_task_is_refused_before_anything_is_fetched(solver: Lone) -> None:
    give_dataset(solver)
    post(solver, make_word("bad"), max_verifiers=2)
    with pytest.raises(InvalidInput, match="max_verifiers"):
        await join_task(solver.party, make_word("bad"))
    assert solver.client.asked == [] and solver.party.task == TASK


async def test_a_task_with_another_step_root_is_refused(solver: Lone) -> None:
    give_dataset(solver)
    post(solver, make_word("bad"), step_root=make_word("other facts"))
    expected = f"expected {get_spec().terms.step_root.hex()}, got {make_word('other facts').hex()}"
    with pytest.raises(InvalidInput, match=expected):
        await join_task(solver.party, make_word("bad"))
    assert solver.client.asked == [] and solver.party.task == TASK


async def test_a_model_with_idle_parameters_is_refused_before_anything_is_fetched(solver: Lone) -> None:
    task, spec = make_word("idle"), get_spec()
    training = encode_training(replace(spec.training, sequence_tokens=1))
    solver.take(
        events.TaskCreated(
            block_number=9, task=task, submitter=SUBMITTER, terms=spec.terms, training=training
        )
    )
    with pytest.raises(InvalidInput, match="identically zero"):
        await join_task(solver.party, task)


async def test_the_spec_is_that_of_the_creation_event(solver: Lone) -> None:
    assert read_spec(solver.party, TASK) == get_spec()


async def test_a_joined_task_is_ready_to_be_worked_on(solver: Lone) -> None:
    give_dataset(solver)
    post(solver, make_word("another"))
    solver.take(
        events.RoundStarted(
            block_number=9, task=make_word("another"), round=0, start_block=9,
            weights_root=get_spec().terms.initial_weights_root, momentum_root=get_spec().terms.zero_root,
        )
    )  # fmt: skip
    await join_task(solver.party, make_word("another"))
    assert solver.party.task == make_word("another")
    assert solver.party.domain == solver.party.view.tasks[make_word("another")].domain


async def test_the_submitter_is_asked_for_the_dataset_first_and_only_once(solver: Lone) -> None:
    solver.take(announce(MALLORY, block=9), announce(BOB, block=9))
    give_dataset(solver)
    data = await fetch_dataset(solver.party, get_spec())
    assert data == make_dataset()
    assert [account for account, _ in solver.client.asked] == [SUBMITTER]
    await fetch_dataset(solver.party, get_spec())
    assert len(solver.client.asked) == len(solver.lines) == 1


async def test_a_dataset_that_nobody_has_stops_the_joining(solver: Lone) -> None:
    with pytest.raises(EnvironmentFault):
        await fetch_dataset(solver.party, get_spec())


async def test_catching_up_folds_the_first_batch(solver: Lone) -> None:
    async def batches() -> AsyncIterator[Batch]:
        yield make_batch(50, announce(MALLORY, block=50))

    solver.party.batches = batches()
    await catch_up(solver.party)
    assert solver.party.view.head_block == 50 and MALLORY in solver.party.view.network.peers
