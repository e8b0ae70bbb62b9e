"""Solvers that open their end states on chain and serve them to nobody: no honest auditor loses by it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from protocol.actions.defend import Compute
from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.actions.shelf import Shelf
from protocol.actions.view import View
from protocol.adapters.blobs import BlobKey, refer_state
from protocol.adapters.chain import open_chain
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec import events
from protocol.spec.containers import TrainingSpec
from protocol.spec.duties import get_solver_actions
from protocol.spec.game_events import FeeBurned, Slashed
from protocol.spec.statuses import AuditStatus
from protocol.spec.tolerance import Judgement
from tests.e2e.reading import find, is_settled, list_rounds, read_balances
from tests.e2e.report import read_view
from tests.e2e.roles import make_verifier
from tests.e2e.world import ONE_ROUND_PLAN, WINDOWS, Build, open_world, run_world

# Every auditor waits for half of the last window, in real time, then goes on without the state.
PLAN = replace(ONE_ROUND_PLAN, windows=replace(WINDOWS, seal=20, open=20, dispute=60))


@dataclass
class HidingShelf(Shelf):
    """Shows all but the end states of the segments under audit."""

    hidden: set[BlobKey] = field(default_factory=set)

    def take(self, event: events.Event) -> None:
        super().take(event)
        if isinstance(event, events.EndOpened) and self._is_own(event):
            self.hidden |= {ref.key for ref in refer_state(event.end, 1)}
            self.hidden -= {ref.key for ref in refer_state(event.last, 1)}
        self.shown -= self.hidden


def make_hider(party: Party, spoil: Callable[[Tensor], Tensor]) -> Participant:
    """A solver whose end states are spoiled, opened on chain, and not served."""
    party.view.shelf = HidingShelf(party.account, party.view.network.is_staked)
    for event in party.view.events:
        party.view.shelf.take(event)

    def train(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        end, losses = train_segment(state, spec, batches, inner_step, steps)
        return replace(end, weights=spoil(end.weights)), losses

    return Participant(party, get_solver_actions, Compute(train))


def shift_one_ulp(weights: Tensor) -> Tensor:
    """Other bits, within the accept limits: such an end is not accepted unseen."""
    return torch.nextafter(weights, torch.full_like(weights, torch.inf))


def shift_beyond_limits(weights: Tensor) -> Tensor:
    """A lie in every leaf."""
    return weights + 0.5


CAST: dict[str, Build] = {
    "hider": partial(make_hider, spoil=shift_one_ulp),
    "liar": partial(make_hider, spoil=shift_beyond_limits),
    **{f"verifier-{index}": make_verifier for index in range(4)},
}


async def test_a_withheld_end_state_costs_no_auditor_its_stake(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        return any(is_settled(state) for state in list_rounds(view))

    async with open_world(tmp_path, list(CAST)) as world:
        await run_world(world, PLAN, CAST, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
        balances = read_balances(world, view)
        state = list_rounds(view)[0]
        hidden = state.solvers.index(world.keys["hider"].address.lower())

        judged = {
            (event.slot == hidden, event.status, event.worst) for event in find(view, events.AuditJudged)
        }
        # Compared from the leaves on chain: what lies within the limits is accepted, the lie is not.
        assert judged == {
            (True, AuditStatus.ACCEPTS, Judgement.ACCEPT),
            (False, AuditStatus.REJECTS, Judgement.REJECT),
        }
        assert any("comparing what is on chain" in line for line in world.lines)
        for name in ("hider", *(name for name in CAST if name.startswith("verifier"))):
            assert not balances[name].lost, name
        assert {event.account for event in find(view, Slashed)} <= {world.keys["liar"].address.lower()}
        assert not find(view, FeeBurned)
