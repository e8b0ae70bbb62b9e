"""Step states on request: shown once nothing can be copied from them, checked by whoever asked, and what
names the wrong step on other hardware."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from protocol.actions import attention, challenge
from protocol.actions.boundaries import find_opened
from protocol.actions.challenge import name_solver_claim
from protocol.actions.defend import HONEST, Compute, compute_step_roots
from protocol.actions.participant import Participant, ShowSteps
from protocol.actions.prosecute import compute_own_roots
from protocol.actions.report import AuditReport
from protocol.actions.states import keep_state, load_state
from protocol.actions.steps import fetch_headers, list_wanted, screen_steps, show_steps
from protocol.adapters.blobs import BlobKey, BlobKind, refer_state
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.client import BlobClient
from protocol.adapters.wire.server import BlobServer, ReadPolicy
from protocol.adapters.wire.session import Peer
from protocol.adapters.wire.tls import load_or_create_identity
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import TrainingSpec
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import find_first_difference
from protocol.spec.duties import get_solver_actions
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.statuses import Stage
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal
from tests.protocol.actions.facts import TASK
from tests.protocol.actions.lone import SOLVER, Lone, get_spec
from tests.protocol.actions.test_attention import own_key
from tests.protocol.adapters.parties import DOMAIN, HASTE, make_key

STEPS = get_spec().terms.segment_steps
PEER = Peer(SOLVER, "https://127.0.0.1:9", bytes(32))


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    """A claim whose end is opened; the verifier asks the solver's desk."""
    found = await audit_claim(solver)
    await replay_and_reveal(found)
    found.verifier.client.desk = solver.party.steps
    found.verifier.chain.head = 0  # There is time to ask.
    return found


def ends(audited: Audited) -> tuple[bytes, bytes]:
    first, last = (audited.boundary(audited.segment + at) for at in (0, 1))
    return compute_state_root(first), compute_state_root(last)


async def answer(audited: Audited, compute: Compute = HONEST) -> None:
    """The solver does what is due of the requests."""
    role = Participant(audited.solver.party, get_solver_actions, compute)
    for action in role.decide(10).actions:
        if isinstance(action, ShowSteps):
            await role.perform(action)


async def test_steps_are_recomputed_when_asked_for_and_screened(audited: Audited) -> None:
    audited.open_end()
    party = audited.verifier.party
    with pytest.raises(EnvironmentFault):
        await screen_steps(party, PEER, 0, audited.segment, ends(audited))
    await answer(audited)
    before = sorted(map(str, party.store.list_keys(BlobKind.TENSOR)))
    found = await screen_steps(party, PEER, 0, audited.segment, ends(audited))
    assert [(screen.first, screen.steps) for screen in found] == [(step, 1) for step in range(STEPS)]
    assert all(screen.is_consistent for screen in found)
    assert sorted(map(str, party.store.list_keys(BlobKind.TENSOR))) == before, "what was fetched is gone"


async def test_list_wanted_nothing_an_auditor_could_copy(audited: Audited) -> None:
    desk, party = audited.solver.party.steps, audited.solver.party
    desk.find("a", TASK, 0, audited.segment)
    assert list_wanted(party, 10) == [] and not desk.wanted, "its end is not opened yet"
    audited.open_end()
    segments = range(get_spec().terms.segment_count)
    hidden = next(at for at in segments if find_opened(party.round(0), 0, at + 1) is None)
    for number, place in enumerate([(0, audited.segment), (0, hidden), (0, 99), (7, 0)]):
        desk.find(f"b{number}", TASK, *place)
    desk.find("c", bytes(32), 0, audited.segment)
    assert list_wanted(party, 10) == [(0, audited.segment)] and len(desk.wanted) == 1


async def test_fetch_headers_others_than_the_claim_s_are_the_peer_s_fault(audited: Audited) -> None:
    audited.open_end()
    await show_steps(audited.solver.party, 0, audited.segment, HONEST)
    party = audited.verifier.party
    with pytest.raises(ProtocolFault, match="another state than its claim has") as error:
        await fetch_headers(party, PEER, 0, audited.segment, {STEPS: bytes(32)})
    assert error.value.culprit == SOLVER
    desk = audited.solver.party.steps
    place = (TASK, 0, audited.segment)
    desk.shown[place] = (*desk.shown[place][:-1], desk.shown[place][0])
    with pytest.raises(ProtocolFault, match="do not follow each other"):
        await fetch_headers(party, PEER, 0, audited.segment, {})


async def test_show_steps_only_the_last_segments_are_kept_and_no_boundary_goes(audited: Audited) -> None:
    audited.open_end()
    party = audited.solver.party
    count = get_spec().terms.segment_count
    roots = {at: compute_step_roots(party, name_solver_claim(REF, at)) for at in range(count)}
    inner = {}
    for segment in range(count):
        await show_steps(party, 0, segment, HONEST)
        headers = await fetch_headers(
            audited.verifier.party, PEER, 0, segment, dict(enumerate(roots[segment]))
        )
        inner[segment] = [ref.key for header in headers[1:-1] for ref in refer_state(header, 1)]
    kept = [segment for segment in inner if party.store.get_size_bytes(inner[segment][0]) is not None]
    assert kept == [count - 2, count - 1]
    reader = audited.verifier.party.account
    shown = [party.view.shelf.may_read(reader, BlobKind.TENSOR, inner[at][0].root) for at in inner]
    assert shown == [False] * (count - 2) + [True] * 2
    assert all(
        party.store.get_size_bytes(BlobKey(BlobKind.TENSOR, header.first_moment_root)) is not None
        for header in party.memory.boundaries.values()
    )


async def test_publish_audit_of_what_is_odd_names_the_step(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The solver pushes one first moment before the last step: grey at the end, impossible for the optimizer.
    seen: list[AuditReport] = []
    monkeypatch.setattr(attention, "publish", lambda party, report: seen.append(report))
    own_key(audited.verifier)
    false_end = load_state(audited.solver.party, audited.boundary(audited.segment + 1))
    at, tau = int(false_end.second_moment.argmax()), get_spec().terms.accept.tau_m * 2.0**-64
    false_end.first_moment[at] += 3 * tau * float(false_end.second_moment[at].sqrt())
    header = keep_state(audited.solver.party, false_end)
    audited.solver.party.memory.boundaries[(0, audited.segment + 1)] = header

    def train(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        found, losses = train_segment(state, spec, batches, inner_step, steps)
        is_last = inner_step + steps == (audited.segment + 1) * STEPS
        return (load_state(audited.solver.party, header) if is_last else found), losses

    audited.open_end(header)
    await show_steps(audited.solver.party, 0, audited.segment, Compute(train))
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    [report] = seen
    assert report.judgement is Judgement.GREY
    assert [screen.first for screen in report.screens[1:] if not screen.is_consistent] == [STEPS - 1]


# --- Naming a step on other hardware ------------------------------------------------------------------------
@dataclass(frozen=True)
class Noisy:
    """An honest machine of another kind: each step is off by a little. From `false_step` of the round on it
    lies."""

    noise: float
    false_step: int = -1

    def train(
        self, state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        losses = [0.0]
        for step in range(inner_step, inner_step + steps):
            state, losses = train_segment(state, spec, batches, step, 1)
            push = 0.5 if step == self.false_step else self.noise
            state = replace(state, weights=state.weights + push)
        return state, losses


@pytest.mark.parametrize("false_at", range(STEPS))
async def test_compute_own_roots_names_the_false_step_among_noisy_ones(
    audited: Audited, false_at: int
) -> None:
    audited.open_end()
    solver = Noisy(1e-8, audited.segment * STEPS + false_at)
    claim = name_solver_claim(REF, audited.segment)
    roots = compute_step_roots(audited.solver.party, claim, Compute(solver.train))
    dispute = DisputeState(
        b"d" * 32, get_spec().terms, claim, SOLVER, audited.verifier.party.account, 1,
        stage=Stage.NAME, roots=roots,
    )  # fmt: skip
    await show_steps(audited.solver.party, 0, audited.segment, Compute(solver.train))
    own = await compute_own_roots(audited.verifier.party, dispute, HONEST)
    assert find_first_difference(roots, own) == false_at
    audited.verifier.client.desk, audited.verifier.chain.head = None, 10**6
    blind = await compute_own_roots(audited.verifier.party, dispute, HONEST)
    assert find_first_difference(roots, blind) == 0, "roots alone part with the first noisy step"
    assert any("roots alone" in line for line in audited.verifier.lines)


# --- Over HTTPS ---------------------------------------------------------------------------------------------
@pytest.fixture
async def served(audited: Audited, tmp_path: Path) -> AsyncIterator[tuple[BlobClient, Peer]]:
    """The solver's own store, shelf and desk behind a server; a staked client."""
    party, identity = audited.solver.party, load_or_create_identity(tmp_path)
    shelf = party.view.shelf
    policy = ReadPolicy(lambda account: True, shelf.may_read, party.status.show, party.steps.find)
    server = BlobServer(party.store, SOLVER, DOMAIN, identity, policy)
    port = await server.start()
    shelf.is_staked = lambda account: True
    store = audited.verifier.party.store
    async with BlobClient(store, RequestSigner(make_key(7), DOMAIN), HASTE) as client:
        yield client, Peer(SOLVER, f"https://127.0.0.1:{port}", identity.fingerprint)
    await server.stop()


async def test_step_states_come_over_the_wire(audited: Audited, served: tuple[BlobClient, Peer]) -> None:
    client, peer = served
    party = audited.verifier.party
    party.client = client
    audited.open_end()
    with pytest.raises(EnvironmentFault, match="does not serve"):
        await screen_steps(party, peer, 0, audited.segment, ends(audited))
    await answer(audited)
    found = await screen_steps(party, peer, 0, audited.segment, ends(audited))
    assert len(found) == STEPS and all(screen.is_consistent for screen in found)
    with pytest.raises(ProtocolFault, match="another number of roots"):
        await client.fetch_steps(peer, TASK, 0, audited.segment, STEPS + 5)
