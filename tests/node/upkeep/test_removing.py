"""What goes from the store and what does not: shared blobs, strays, other tasks' blobs, datasets."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.node.upkeep.stage import SEGMENTS, TASK, Node
from tests.node.upkeep.test_retention import list_boundary, play
from touchstone.node.defending.step_serving import list_spared
from touchstone.node.kit.retention_windows import (
    list_foreign,
    list_in_use,
    list_named,
    name_delta,
    name_state,
    name_tensors,
)
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.claim_records import (
    RECORDS,
    ClaimBook,
    ClaimBoundaryReached,
    ClaimName,
    MergeMade,
    WorkProof,
)
from touchstone.node.upkeep.deletion import STRAY_AUDITS, delete_blobs, list_removable
from touchstone.node.upkeep.retention import list_kept, list_unknown_works
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerDispute
from touchstone.protocol.spec.game.state import GameState, StatementRef

BLOCK = 10_000


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node("solver0", tmp_path / "blobs")


def list_going(node: Node, state: GameState, block: int) -> set[BlobKey]:
    kept = list_kept(state, node.books, block)
    return set(list_removable(state, node.books, node.memory, node.list_here(), kept.keys(), block))


def test_a_blob_stays_as_long_as_one_kept_thing_names_it(node: Node) -> None:
    """The end of a pruned claim has the moments that a later round starts from; a model is a boundary 0."""
    state = play(node, 3).get_now()
    first, second = list_boundary(node, state, 0, SEGMENTS), list_boundary(node, state, 1, 0)
    shared = set(first) & set(second)
    assert shared, "moments are carried over"
    pruned = replace(state, rounds={**state.rounds, 0: replace(state.rounds[0], late_seed=None)})
    block = (state.rounds[0].closed or 0) + 2 * state.terms.windows.audit_max + 1
    goes = list_going(node, pruned, block)
    assert set(first) - shared <= goes and not shared & goes
    assert not set(name_tensors(node.models[state.rounds[1].base_root].weights_root)) & goes
    freed = delete_blobs(node.store, goes, lambda: ())
    assert freed > 0 and not set(node.list_here()) & goes and shared <= set(node.list_here())
    assert list_going(node, pruned, block) == set(), "repeatable"


@pytest.mark.parametrize("use", ["held", "borrowed", "shown"])
def test_what_is_in_use_stays_although_its_record_is_settled(node: Node, use: str) -> None:
    """A claimant may have named, in a later round, a state that an old record names."""
    state = play(node, 3).get_now()
    pruned = replace(state, rounds={**state.rounds, 0: replace(state.rounds[0], late_seed=None)})
    block = (state.rounds[0].closed or 0) + 2 * state.terms.windows.audit_max + 1
    goes = list_going(node, pruned, block)
    key = next(iter(goes & set(list_boundary(node, state, 0, SEGMENTS))))
    cases, audits = node.books.cases, node.books.audits
    if use == "borrowed":
        cases.borrowed[key] += 1
    else:
        places: dict[Any, Any] = cases.shown if use == "shown" else audits.held
        places["an audit"] = frozenset({key})
    assert key not in list_going(node, pruned, block)
    nothing = SimpleNamespace(works={}, merges={}, outer={}, proofs={})
    view: Any = SimpleNamespace(claims=nothing, cases=cases, audits=SimpleNamespace(book=audits))
    assert key in list_spared(view), "nor does it go when something else is shown no more"
    delete_blobs(node.store, goes, partial(list_in_use, cases, audits))
    assert goes & set(node.list_here()) == {key}, "it came into use while the others were deleted"


def test_a_dataset_is_never_a_candidate(node: Node) -> None:
    node.store.put_dataset(b"tokens" * 100)
    assert all(key.kind is not BlobKind.DATASET for key in node.list_here())


def test_what_no_record_names_goes_only_after_the_longest_audit(node: Node) -> None:
    """A state that is being fetched or replayed is in no record yet."""
    state = play(node, 3).get_now()
    (stray, *_) = name_state(node.put_state("fetched just now"))
    last = BLOCK + STRAY_AUDITS * state.terms.windows.audit_max
    assert stray not in list_going(node, state, BLOCK)
    assert stray not in list_going(node, state, last)
    assert stray in list_going(node, state, last + 1)


def test_a_stray_that_was_gone_is_new_when_it_is_back(node: Node) -> None:
    state = play(node, 3).get_now()
    (stray, *_) = name_state(node.put_state("fetched just now"))
    list_going(node, state, BLOCK)
    node.store.delete(stray)
    list_going(node, state, BLOCK + 1)
    node.put_state("fetched just now")
    last = BLOCK + STRAY_AUDITS * state.terms.windows.audit_max
    assert stray not in list_going(node, state, last + 1)


@pytest.mark.parametrize(("opener", "stays"), [("solver0", True), ("another", False)])
def test_a_trace_stays_while_this_node_is_in_a_dispute(node: Node, opener: str, stays: bool) -> None:
    state = play(node, 3).get_now()
    root = node.store.put_roots([b"r" * 32]).key
    node.inner = InnerBook(10, {b"n": InnerDispute(b"n", 1 << 20, StatementRef(2, 0), 3, opener, 1 << 30)})
    list_going(node, state, BLOCK)
    assert (root in list_going(node, state, 2 * BLOCK)) is not stays
    node.cases.shown["trace", b"n"] = frozenset({root})
    assert root not in list_going(node, state, 3 * BLOCK), "what is shown stays"


def test_pseudo_gradients_without_a_name_stay_while_one_is_missing(node: Node) -> None:
    """After a restart this node knows no work leaf of others; their pseudo-gradients are inputs of a leaf."""
    world = play(node, 3)
    state, block = world.get_now(), world.block
    posted = state.rounds[1]
    others = {name: proof for name, proof in node.claims.proofs.items() if name.round == 1}
    own = node.claims.find(posted).finished
    assert own is not None and len(others) > 1
    node.claims.proofs.clear()
    keys = {name_delta(proof.delta_root) for proof in others.values()} - {name_delta(own.delta_root)}
    list_going(node, state, block)
    later = block + 2 * state.terms.windows.audit_max + 1
    assert later < posted.root_until and not keys & list_going(node, state, later)
    assert list_unknown_works(state, node.books, block)
    for one in state.rounds.values():
        for claim in one.claims.values():
            name = ClaimName(one.index, str(claim.seat), claim.claim_root)
            node.claims.proofs[name] = others.get(name, WorkProof(bytes(32), bytes(32), ()))
    unnamed = name_delta(node.put_delta("of nobody"))
    list_going(node, state, later)
    goes = list_going(node, state, later + 2 * state.terms.windows.audit_max + 1)
    assert unnamed in goes


def test_what_another_task_of_the_home_names_stays_and_so_do_strays(node: Node, tmp_path: Path) -> None:
    state, other = play(node, 3).get_now(), b"o" * 32
    header, merged = node.put_state("of the other task"), node.put_state("merged there")
    (stray, *_) = name_state(node.put_state("perhaps of the other task"))
    with Journal(tmp_path / "journal.sqlite", RECORDS) as journal:
        journal.append(ClaimBoundaryReached(other, 0, b"b" * 32, 0, *vars(header).values()))
        roots = (merged.weights_root, merged.first_moment_root)
        journal.append(MergeMade(other, 0, b"b" * 32, (), (), *roots))
        journal.append(MergeMade(TASK, 0, b"b" * 32, (), (), *reversed(roots)))
        node.memory.foreign = list_foreign(journal, TASK)
        assert list_foreign(journal, other) == set(name_tensors(*roots))
        assert list_named(ClaimBook(journal, other), AuditBook(journal, other)) == node.memory.foreign
    assert node.memory.foreign == {*name_state(header), *name_tensors(*roots)}
    node.claims.works[0, b"another basis"].boundaries[1] = header
    list_going(node, state, BLOCK)
    goes = list_going(node, state, 2 * BLOCK)
    assert not goes & node.memory.foreign and stray not in goes and goes
