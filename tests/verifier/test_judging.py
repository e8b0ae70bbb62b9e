"""Findings that no exchange brings about easily: a difference without an encoding, another start."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocol.spec.game.simulation import make_word
from tests.verifier.stage import HONEST, Claim, get_base, get_task, train_claim
from touchstone.node.kit.states import StateStore
from touchstone.node.records.audit_records import EndsShown
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.digest import build_delta_tree
from touchstone.protocol.compute.outer.pseudo_gradients import PART_ELEMENTS
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd
from touchstone.protocol.spec.claim_tree import compute_carried_root
from touchstone.protocol.spec.statements import VoteWord
from touchstone.verifier import judging
from touchstone.verifier.judging import Finding, is_start_right, judge_ends, judge_work


@pytest.fixture
def claim() -> Claim:
    return train_claim(make_word("beacon"), 0, HONEST)


@pytest.fixture
def states(tmp_path: Path, claim: Claim) -> StateStore:
    made = StateStore(BlobStore(tmp_path, is_durable=False), get_task().parameter_count)
    for state in claim.states:
        made.keep(state)
    made.store.put_delta(build_delta_tree(claim.delta).root, claim.delta)
    return made


def show_ends(claim: Claim) -> EndsShown:
    return EndsShown(claim.open_boundary(0, 1), claim.open_boundary(0, 4), claim.open_work(0))


def test_a_right_pseudo_gradient_has_no_flaw(claim: Claim, states: StateStore) -> None:
    assert judge_work(states, get_base().weights_root, show_ends(claim)) is None


@pytest.mark.parametrize("part_elements", [PART_ELEMENTS, 512])
def test_a_difference_without_an_encoding_is_the_solvers_fault(
    claim: Claim, states: StateStore, monkeypatch: pytest.MonkeyPatch, part_elements: int
) -> None:
    """Its leaf is named, counted from the tensor's start and not from the part's that was compared:
    `Evidence` finds no encoding there either, and convicts who names a right leaf."""
    monkeypatch.setattr(judging, "PART_ELEMENTS", part_elements)
    weights = claim.states[4].weights.clone()
    weights[256 * 2 + 9] = 1e30
    header = states.keep(replace(claim.states[4], weights=weights))
    ends = show_ends(claim)
    last, work = (
        replace(ends.last, header=header),
        replace(ends.work, carried_root=compute_carried_root(header)),
    )
    found = judge_work(states, get_base().weights_root, replace(ends, last=last, work=work))
    assert found == Finding(VoteWord.REJECT_DELTA, 2)


def test_a_scale_that_no_encoding_has_is_named(claim: Claim, states: StateStore) -> None:
    delta = bytearray(claim.delta)
    delta[260 * 1 + 65] = 221
    root = build_delta_tree(bytes(delta)).root
    states.store.put_delta(root, bytes(delta))
    ends = show_ends(claim)
    found = judge_work(
        states, get_base().weights_root, replace(ends, work=replace(ends.work, delta_root=root))
    )
    assert found == Finding(VoteWord.REJECT_DELTA, 1)


def test_a_named_leaf_is_always_one_of_the_state(claim: Claim, states: StateStore) -> None:
    """`Evidence.proveNoLeaf` convicts whoever names another: also where only the last element differs."""
    weights = claim.states[1].weights.clone()
    weights[-1] += 1.0
    end = states.keep(replace(claim.states[1], weights=weights))
    count = -(-get_task().parameter_count // 256)
    found = judge_ends(
        get_task(), ClaimedEnd(end, claim.headers[1], states.open, get_task().get_rate_sum(0, 0))
    )
    assert found == Finding(VoteWord.REJECT_STATE, count - 1)


def test_another_root_is_beyond_in_an_exact_task_whose_end_nobody_has(
    claim: Claim, states: StateStore
) -> None:
    end = replace(claim.headers[1], weights_root=bytes(31) + b"\1")
    about = replace(get_task(), training=replace(get_task().training, numeric_format="exact15"))
    found = judge_ends(about, ClaimedEnd(end, claim.headers[1], states.open, about.get_rate_sum(0, 0)))
    assert found == Finding(VoteWord.REJECT_STATE)


def test_only_what_the_contract_would_call_a_wrong_start_is_one(claim: Claim) -> None:
    about, first = get_task(), claim.headers[0]
    weights, carried = get_base().weights_root, compute_carried_root(first)
    assert is_start_right(about, 0, first, weights, carried)
    assert is_start_right(about, 0, first, weights, None), "what nobody can know is not held against it"
    assert not is_start_right(about, 0, first, make_word("W"), carried)
    assert not is_start_right(about, 0, first, weights, make_word("carried"))
    assert not is_start_right(about, 1, first, weights, carried)
