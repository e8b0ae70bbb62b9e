"""What a solver shows of its finished claim, and what another node makes of it: everything under the claim
root, nothing earlier than it may be copied."""

from dataclasses import replace
from pathlib import Path

import pytest

from protocol.actions.boundaries import fetch_boundary, is_claim_shown, read_boundary, show_claim
from protocol.actions.challenge import name_solver_claim
from protocol.actions.defend import get_claimed_start, list_needed_traces
from protocol.actions.participant import Participant, ShowClaim
from protocol.adapters.blobs import BlobKey, BlobKind, refer_state
from protocol.spec import codec, events
from protocol.spec.duties import get_solver_actions
from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from protocol.spec.merkle import compute_root
from protocol.spec.round import get_late_deadlines
from tests.protocol.actions.audits import REF, Audited, audit_claim
from tests.protocol.actions.facts import TASK
from tests.protocol.actions.lone import SOLVER, Lone, get_spec, make_lone, seal_draw
from tests.protocol.actions.outcomes import accept_claim, post_outer
from tests.protocol.spec.simulator import make_word

BOUNDARIES = range(get_spec().terms.segment_count + 1)


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    """An accepted claim of a merged round."""
    found = await audit_claim(solver)
    found.open_end()
    accept_claim(found)
    post_outer(found, make_word("weights"), make_word("momentum"), SOLVER)
    return found


def get_late_replay_end(lone: Lone) -> int:
    late = get_late_deadlines(lone.party.round(0), lone.party.view.head_block)
    assert late is not None
    return late.late_replay_end


async def test_show_claim_every_boundary_can_be_fetched_and_read_again(audited: Audited) -> None:
    await show_claim(audited.solver.party, 0)
    party = audited.verifier.party
    for at in BOUNDARIES:
        assert await fetch_boundary(party, 0, 0, at) == audited.boundary(at)
    audited.verifier.client.remote = party.store  # A restarted challenger needs nobody.
    assert [read_boundary(party, 0, 0, at) for at in BOUNDARIES] == [
        audited.boundary(at) for at in BOUNDARIES
    ]
    undrawn = next(at for at in BOUNDARIES if at not in (audited.segment, audited.segment + 1))
    assert get_claimed_start(party, name_solver_claim(REF, undrawn)) == audited.boundary(undrawn)


async def test_read_boundary_what_was_opened_on_chain_needs_no_solver(audited: Audited) -> None:
    party = audited.verifier.party
    last = get_spec().terms.segment_count
    for at in (audited.segment, audited.segment + 1, last):
        assert await fetch_boundary(party, 0, 0, at) == audited.boundary(at)
    hidden = next(at for at in BOUNDARIES if at not in (audited.segment, audited.segment + 1, last))
    with pytest.raises(InvalidInput, match="never shown"):
        read_boundary(party, 0, 0, hidden)
    with pytest.raises(EnvironmentFault):
        await fetch_boundary(party, 0, 0, hidden)


async def test_a_claim_is_shown_once_no_auditor_can_copy_it(audited: Audited) -> None:
    solver, end = audited.solver, get_late_replay_end(audited.solver)
    role = Participant(solver.party, get_solver_actions)
    assert not is_claim_shown(solver.party.round(0), SOLVER, end - 1)
    assert ShowClaim(0) not in role.decide(end - 1).actions and ShowClaim(0) in role.decide(end).actions
    assert not is_claim_shown(audited.verifier.party.round(0), audited.verifier.party.account, end)
    shelf, reader = solver.party.view.shelf, audited.verifier.party.account
    root = solver.party.round(0).claims[0].claim_root
    hidden = next(at for at in BOUNDARIES if at not in (audited.segment, audited.segment + 1))
    tensors = [ref.key.root for ref in refer_state(audited.boundary(hidden), 1)]
    leaf = codec.compute_boundary_leaf(
        solver.party.domain, 0, SOLVER, hidden, solver.party.memory.salts[0][hidden],
        codec.compute_state_root(audited.boundary(hidden)),
    )  # fmt: skip

    def list_shown() -> list[bool]:
        shown = [shelf.may_read(reader, BlobKind.TENSOR, tensor) for tensor in tensors[1:]]
        has_leaf = solver.party.store.get_size_bytes(BlobKey(BlobKind.BYTES, leaf)) is not None
        return [*shown, shelf.may_read(reader, BlobKind.ROOTS, root), has_leaf]

    assert hidden == 0 or not any(list_shown())
    await role.perform(ShowClaim(0))
    assert all(list_shown()) and ShowClaim(0) not in role.decide(end).actions
    assert not shelf.may_read("0x" + "99" * 20, BlobKind.ROOTS, root), "for staked accounts"
    assert root in list_needed_traces(solver.party), "a dispute's clean-up leaves it"


@pytest.mark.parametrize("which", ["boundary", "state"])
async def test_fetch_boundary_a_claim_over_nothing_is_its_solver_s_fault(tmp_path: Path, which: str) -> None:
    reader = make_lone(tmp_path / "reader", remote=make_lone(tmp_path / "cheat").party.store)
    store, domain = reader.client.remote, reader.party.domain
    state_root = store.put_bytes(b"no state").key.root if which == "state" else bytes(32)
    shown = 1 if which == "state" else 2
    preimage = codec.encode_boundary(domain, 0, SOLVER, shown, bytes(32), state_root)
    count = get_spec().terms.segment_count + 1
    leaves = [store.put_bytes(preimage).key.root] * count
    store.put_roots(leaves)
    committed = events.Committed(
        block_number=5, task=TASK, round=0, slot=0, solver=SOLVER, claim_root=compute_root(leaves),
        delta_root=bytes(32),
    )  # fmt: skip
    reader.take(committed, seal_draw())
    with pytest.raises((ProtocolFault, EnvironmentFault)) as error:
        await fetch_boundary(reader.party, 0, 0, 1)
    if which == "boundary":
        assert isinstance(error.value, ProtocolFault) and error.value.culprit == SOLVER


@pytest.mark.parametrize("change", [b"", b"\1" + bytes(191), bytes(192)])
def test_decode_state_what_is_none_is_refused_by_name(change: bytes) -> None:
    with pytest.raises(ProtocolFault, match="0xsolver: a state root is no state's"):
        codec.decode_state(change, "0xsolver")


async def test_decode_state_gives_what_was_encoded(audited: Audited) -> None:
    header = replace(audited.boundary(1), global_step=(1 << 64) - 1)
    assert codec.decode_state(codec.encode_state(header)) == header
    assert len(codec.encode_state(header)) == codec.STATE_BYTES
