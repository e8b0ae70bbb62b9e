"""A cheat in a segment that nobody was drawn onto: a report turns an eye, and it is convicted."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from protocol.actions.claim import Train
from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec.containers import ScheduleConfig, TrainingSpec
from protocol.spec.drawn import compute_late_draws, compute_slot_draws
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.float32 import nearest
from protocol.spec.game_events import DisputeConvicted, DisputeOpened, Slashed
from protocol.spec.round import RoundState, get_claim
from protocol.spec.schedule import compute_learning_rate
from protocol.spec.statuses import ClaimStatus, Role
from tests.e2e.cheats import Cheat, make_grafting_compute
from tests.e2e.reading import find, list_rounds, read_balances, require_solvent
from tests.e2e.report import read_view
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import ACCEPT, TINY_PLAN, Build, World, open_world, run_world

FALSE_SEGMENT = 5
SEGMENTS = 12
PLAN = replace(
    TINY_PLAN,
    rounds=1,
    inner_steps=SEGMENTS,
    segment_steps=1,
    segment_draws=1,
    schedule=ScheduleConfig(nearest(2e-3), warmup_steps=4, total_steps=SEGMENTS),
    max_whistleblowers=1,
    late_rate=0,
)
CHEATS = ("cheat-0", "cheat-1")
ATTEMPTS = 3
"""Both false segments are drawn with a chance of 1 in 144: such a world has nothing to show and is played
again."""


def make_rider(party: Party) -> Participant:
    """A solver that rides the accept limit in every segment, and lies grossly in one."""
    return Cheat(party, get_solver_actions, make_grafting_compute(make_riding_train()))


def make_riding_train() -> Train:
    """Honest steps, then W pushed by half of what is accepted; by a thousand times that in one segment."""

    def train(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        losses = [0.0]
        for step in range(inner_step, inner_step + steps):
            rate = compute_learning_rate(spec.schedule, state.global_step, state.local_step)
            state, losses = train_segment(state, spec, batches, step, 1)
            push = 0.5 * 2.0**-64 * (ACCEPT.tau_w * rate + ACCEPT.tau_r * state.weights.abs())
            push *= 1_000 if step == FALSE_SEGMENT else 1
            state = replace(state, weights=state.weights + push)
        return state, losses

    return train


def make_eager_watcher(party: Party) -> Participant:
    """A whistleblower that may replay all that the reports point to."""
    duties = partial(get_auditor_actions, role=Role.WHISTLEBLOWER)
    return Participant(party, duties, own_replays=len(CHEATS) * SEGMENTS)


CAST: dict[str, Build] = {
    **dict.fromkeys(CHEATS, make_rider),
    "solver": make_solver,
    **{f"verifier-{index}": make_verifier for index in range(3)},
    "watcher": make_eager_watcher,
}


def list_missed(world: World, state: RoundState) -> list[str]:
    """The cheats whose false segment nobody was drawn onto."""
    accounts = {name: world.keys[name].address.lower() for name in CHEATS}
    slots = {name: state.solvers.index(account) for name, account in accounts.items()}
    return [
        name
        for name, slot in slots.items()
        if FALSE_SEGMENT not in {drawn.segment for drawn in compute_slot_draws(state, slot)}
    ]


async def play_world(folder: Path) -> list[str]:
    """The names of the cheats that no draw met, after all that this test wants of one world."""
    folder.mkdir()
    async with open_world(folder, list(CAST)) as world:

        def is_enough(view: View) -> bool:
            state = list_rounds(view)[0] if list_rounds(view) else None
            if state is None or len(state.solvers) < 3 or state.draw_seed is None:
                return False
            convicted = {event.claimant for event in find(view, DisputeConvicted)}
            wanted = {world.keys[name].address.lower() for name in list_missed(world, state)}
            return wanted <= convicted

        await run_world(world, PLAN, CAST, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
        [state] = list_rounds(view)
        names = {key.address.lower(): name for name, key in world.keys.items()}
        missed = list_missed(world, state)
        assert not compute_late_draws(state), "the watcher was drawn onto nothing"
        for event in find(view, DisputeOpened):
            if names[event.claimant] in missed:
                assert (names[event.opener], event.claim.segment) == ("watcher", FALSE_SEGMENT)
        for name in missed:
            slot = state.solvers.index(world.keys[name].address.lower())
            assert get_claim(state, slot).accepted_block, "its audits had accepted it"
        convicted = find(view, DisputeConvicted)
        assert {world.keys[name].address.lower() for name in missed} <= {one.claimant for one in convicted}
        assert {event.reason.rstrip(b"\0") for event in convicted} <= {b"operation"}
        assert {names[event.account] for event in find(view, Slashed)} <= set(CHEATS)
        balances = read_balances(world, view)
        assert not [name for name in CAST if name not in CHEATS and balances[name].lost]
        honest = state.solvers.index(world.keys["solver"].address.lower())
        assert get_claim(state, honest).status == ClaimStatus.ACCEPTED
        if missed:
            [line] = [line for line in world.lines if "reports read" in line]
            assert "loud" in line, "a report turned its eye"
        return missed


async def test_a_report_leads_to_a_lie_that_nobody_was_drawn_onto(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        if await play_world(tmp_path / f"world-{attempt}"):
            return
    raise AssertionError(f"{ATTEMPTS} draws met all false segments")
