"""Auditors who hand in the root that a cheat gave them: its claim is accepted and merged, then a
whistleblower that was drawn onto nothing shows it to be false, and those who stand by it fall with it."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.drawn import compute_slot_draws
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.game_events import DisputeConvicted, DisputeOpened, Slashed
from protocol.spec.round import RoundState, get_audit, get_claim
from protocol.spec.statuses import Role
from tests.e2e.cheats import Cheat, make_grafting_compute
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import read_view
from tests.e2e.world import ONE_ROUND_PLAN, Build, open_world, run_world

PLAN = replace(ONE_ROUND_PLAN, max_whistleblowers=1, max_solvers=1)
SEGMENTS = PLAN.inner_steps // PLAN.segment_steps
RIGHT_SEGMENT = SEGMENTS - 1
"""The others are false: of two that are drawn at least one is, and one that is not drawn."""
ACCOMPLICES = tuple(f"accomplice-{index}" for index in range(3))


def train_falsely(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, list[float]]:
    """Honest steps in one segment; in the others W is pushed far after each."""
    losses = [0.0]
    for step in range(inner_step, inner_step + steps):
        state, losses = train_segment(state, spec, batches, step, 1)
        if step // PLAN.segment_steps != RIGHT_SEGMENT:
            state = replace(state, weights=state.weights + 0.01)
    return state, losses


def make_poisoner(party: Party) -> Participant:
    """The solver of this claim."""
    return Cheat(party, get_solver_actions, make_grafting_compute(train_falsely))


def make_accomplice(party: Party) -> Participant:
    """A verifier that has been told how the claim was made: it hands in the very roots that the solver opens,
    and can defend them as well as the solver can."""
    duties = partial(get_auditor_actions, role=Role.VERIFIER)
    return Cheat(party, duties, make_grafting_compute(train_falsely))


def make_watcher(party: Party) -> Participant:
    """A whistleblower as it is shipped, that may replay a whole claim."""
    duties = partial(get_auditor_actions, role=Role.WHISTLEBLOWER)
    return Participant(party, duties, own_replays=SEGMENTS)


CAST: dict[str, Build] = {
    "cheat": make_poisoner,
    **dict.fromkeys(ACCOMPLICES, make_accomplice),
    "watcher": make_watcher,
}


def list_false(state: RoundState) -> set[tuple[int, str]]:
    """(draw, account) of each auditor that was drawn first onto a false segment."""
    draws = enumerate(compute_slot_draws(state, 0))
    return {(draw, drawn.primary) for draw, drawn in draws if drawn.segment != RIGHT_SEGMENT}


def list_convicted(view: View) -> set[tuple[int, str]]:
    """The same of each auditor that was convicted."""
    claims = {event.dispute: event.claim for event in find(view, DisputeOpened)}
    found = [(claims[event.dispute], event.claimant) for event in find(view, DisputeConvicted)]
    return {(claim.audit.draw, account) for claim, account in found if not claim.by_solver}


async def test_who_hands_in_a_false_root_falls_with_its_claim(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        state = list_rounds(view)[0] if list_rounds(view) else None
        if state is None or state.draw_seed is None:
            return False
        return list_false(state) <= list_convicted(view) or is_settled(state)

    async with open_world(tmp_path, list(CAST)) as world:
        await run_world(world, PLAN, CAST, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
        [state] = list_rounds(view)
        names = {key.address.lower(): name for name, key in world.keys.items()}
        assert get_claim(state, 0).accepted_block, "all of its audits were copies"
        convicted = find(view, DisputeConvicted)
        assert "cheat" in {names[event.claimant] for event in convicted}
        assert list_convicted(view) == list_false(state), "nobody who accepted a right segment is among them"
        assert {names[event.opener] for event in find(view, DisputeOpened)} == {"watcher"}
        assert {event.reason.rstrip(b"\0") for event in convicted} == {b"operation"}
        assert len(find(view, Slashed)) == 1 + len(list_false(state))
        for draw, account in list_false(state):
            assert get_audit(state, (0, draw, 0)).auditor == account
        assert not read_balances(world, view)["watcher"].lost
