"""The global model, computed and not believed."""

from dataclasses import replace

import pytest

from protocol.actions.global_model import GlobalModel, get_start
from protocol.adapters.blobs import BlobKey, BlobKind, refer_delta
from protocol.compute.digest import outer_header
from protocol.compute.model import init_parameters
from protocol.compute.outer import begin_outer, merge
from protocol.spec import events
from protocol.spec.containers import OuterHeader, TaskSpec
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from tests.protocol.actions.audits import audit_claim
from tests.protocol.actions.facts import MALLORY, TASK
from tests.protocol.actions.lone import SUBMITTER, VERIFIERS, Lone, get_spec, make_lone, restart
from tests.protocol.actions.outcomes import accept_claim, post_outer


def copy_model(lone: Lone, spec: TaskSpec) -> GlobalModel:
    return replace(lone.party.model, spec=spec)


async def test_a_round_starts_from_the_model_of_the_task_s_seed(solver: Lone) -> None:
    outer = await solver.party.model.load_start(0)
    assert outer_header(outer.weights, outer.momentum) == get_start(solver.party.round(0))


async def test_a_task_whose_roots_are_not_its_seed_s_is_refused(solver: Lone) -> None:
    spec = get_spec()
    other = TaskSpec(spec.terms, replace(spec.training, initial_seed=2))
    with pytest.raises(ProtocolFault, match="seed"):
        await copy_model(solver, other).load_start(0)


async def test_the_next_model_is_the_outer_step_over_the_accepted_claims(solver: Lone) -> None:
    audited = await audit_claim(solver)
    accept_claim(audited)
    verifier, terms = audited.verifier.party, get_spec().terms
    header, after = await verifier.model.compute_next(0)
    start = begin_outer(init_parameters(get_spec().training.model, get_spec().training.initial_seed))
    delta = solver.party.store.get(
        refer_delta(solver.party.memory.claims[0].delta_root, terms.parameter_count)
    )
    expected = merge(start, [delta], terms.outer_learning_rate, terms.outer_momentum)
    assert (
        header
        == outer_header(expected.weights, expected.momentum)
        == outer_header(after.weights, after.momentum)
    )
    assert header != get_start(verifier.round(0))
    again, _ = await solver.party.model.compute_next(0)
    assert again == header


async def test_what_was_not_accepted_is_not_merged(solver: Lone) -> None:
    await audit_claim(solver)
    header, _ = await solver.party.model.compute_next(0)
    assert header == get_start(solver.party.round(0))


async def test_the_computed_model_is_shown_to_the_staked_and_to_its_submitter(solver: Lone) -> None:
    audited = await audit_claim(solver)
    accept_claim(audited)
    header, _ = await solver.party.model.compute_next(0)
    shelf = solver.party.view.shelf
    assert shelf.may_read(VERIFIERS[0], BlobKind.TENSOR, header.weights_root)
    assert not shelf.may_read(MALLORY, BlobKind.TENSOR, header.weights_root)
    assert shelf.may_read(SUBMITTER, BlobKind.TENSOR, header.weights_root), "it pays for it"


async def test_a_restarted_node_shows_a_settled_model_to_anybody(solver: Lone) -> None:
    audited = await audit_claim(solver)
    accept_claim(audited)
    header, _ = await solver.party.model.compute_next(0)
    post_outer(audited, header.weights_root, header.momentum_root, MALLORY)
    audited.take(events.MergeSettled(block_number=30, task=TASK, round=0, poster=MALLORY))
    told = solver.party.view.events
    again = restart(solver)
    again.take(*told[len(again.party.view.events) :])
    for root in (header.weights_root, header.momentum_root):
        assert again.party.view.shelf.may_read(MALLORY, BlobKind.TENSOR, root)
        assert again.party.store.get_size_bytes(BlobKey(BlobKind.TENSOR, root)), "and it has it"


async def test_who_comes_late_fetches_the_model_by_its_roots(solver: Lone) -> None:
    audited = await audit_claim(solver)
    accept_claim(audited)
    header, after = await solver.party.model.compute_next(0)
    late = make_lone(solver.party.config.home.parent / "late", remote=solver.party.store)
    found = await late.party.model.load(header)
    assert outer_header(found.weights, found.momentum) == header and len(late.client.asked) == 2
    with pytest.raises(EnvironmentFault):
        await late.party.model.load(OuterHeader(bytes(32), bytes(32)))
