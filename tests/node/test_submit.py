"""A plan becomes a task that nodes would stake on, or is refused before any money moves."""

from dataclasses import replace
from pathlib import Path

import pytest

from node.submit import build_spec, create_task
from protocol.actions.party import open_party
from protocol.compute.data import dataset_root
from protocol.compute.facts import require_step_root
from protocol.compute.model import parameter_count
from protocol.spec.codec import compute_task_id, decode_training
from protocol.spec.economics import compute_escrow_wei
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import compute_zero_tensor_root
from protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from protocol.spec.task_rules import find_malformations
from tests.e2e.world import ONE_ROUND_PLAN, TINY_PLAN, make_dataset, open_world
from tests.protocol.spec.simulator import make_account

SUBMITTER = make_account("submitter")


def test_a_plan_becomes_a_task_that_nodes_accept() -> None:
    data = make_dataset()
    spec = build_spec(TINY_PLAN, data, SUBMITTER, bytes(32))
    assert not find_malformations(spec)
    assert spec.training.dataset_root == dataset_root(data)
    assert spec.training.token_count + spec.training.heldout_tokens == len(data)
    count = parameter_count(TINY_PLAN.model)
    assert (spec.terms.parameter_count, spec.terms.zero_root) == (count, compute_zero_tensor_root(count))
    levels = compute_schedule_levels(compute_schedule_sums(spec))
    assert spec.terms.schedule_root == levels[-1][0]
    require_step_root(spec)


def test_the_salt_tells_two_equal_tasks_apart() -> None:
    ids = {
        compute_task_id(build_spec(TINY_PLAN, make_dataset(), SUBMITTER, bytes([salt] * 32)))
        for salt in (0, 1)
    }
    assert len(ids) == 2


@pytest.mark.parametrize("broken", [{"segment_steps": 3}, {"max_verifiers": 2}, {"rounds": 0}])
def test_a_plan_that_nodes_would_refuse_is_not_posted(broken: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        build_spec(replace(TINY_PLAN, **broken), make_dataset(), SUBMITTER, bytes(32))  # type: ignore[arg-type]


def test_a_model_with_idle_parameters_is_not_posted() -> None:
    with pytest.raises(InvalidInput, match="identically zero.*q_proj"):
        build_spec(replace(TINY_PLAN, sequence_tokens=1), make_dataset(), SUBMITTER, bytes(32))


@pytest.mark.parametrize("name", ["tf32", "bf16"])
def test_a_plan_may_choose_its_format(name: str) -> None:
    spec = build_spec(replace(TINY_PLAN, numeric_format=name), make_dataset(), SUBMITTER, bytes(32))
    assert spec.training.numeric_format == name


async def test_a_task_is_posted_with_its_escrow_and_its_dataset_is_kept(tmp_path: Path) -> None:
    async with open_world(tmp_path, []) as world, open_party(world.configure("submitter")) as party:
        balance_wei = await party.chain.token.balance_of(party.account)
        task = await create_task(party, ONE_ROUND_PLAN, make_dataset(), bytes(32))
        terms = await party.chain.registry.terms_of(task)
        escrow_wei = compute_escrow_wei(terms)
        assert await party.chain.vault.escrow_of(task) == escrow_wei
        assert await party.chain.token.balance_of(party.account) == balance_wei - escrow_wei

        # Too little money for a second one: nothing is approved, nothing is posted.
        await party.chain.token.transfer(party.chain.deployment.registry, balance_wei - escrow_wei)
        with pytest.raises(InvalidInput, match="escrow"):
            await create_task(party, ONE_ROUND_PLAN, make_dataset(), b"\1" * 32)
        found = await party.chain.read_events(0, (await party.chain.head()).number)
        created = [event.arguments for event in found if event.name == "TaskCreated"]
        assert [one["task"] for one in created] == [task]
        root = decode_training(created[0]["training"]).dataset_root
        assert root == dataset_root(make_dataset())
