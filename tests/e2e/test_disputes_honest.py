"""An honest solver accused by somebody who wants to cost it sleep answers everything, and is paid for it."""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from protocol.actions.challenge import accuse, name_solver_claim
from protocol.actions.loop import Due
from protocol.actions.participant import ComputeOwnRoots, Participant
from protocol.actions.party import Party
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import MAX_DEMANDS_EACH, DemandLeaf, Move, NameStep, check_move
from protocol.spec.duties import get_auditor_actions
from protocol.spec.events import Committed, Event
from protocol.spec.game_events import CreditMoved, FeeBurned, LeafAnswered, Slashed
from protocol.spec.statuses import AuditRef, Role, Stage
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import find_task, read_view
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import ONE_ROUND_PLAN, Build, open_world, run_world

ACCUSED_SEGMENT = 1


class Harasser(Participant):
    """A verifier that accuses every claim at once, names any step, and demands as many leaves as it may."""

    def react(self, event: Event) -> None:
        if isinstance(event, Committed):
            audit = AuditRef(event.task, event.round, event.slot, 0, 0)
            accuse(self.party, name_solver_claim(audit, ACCUSED_SEGMENT))

    def decide(self, block: int) -> Due[Hashable]:
        due, disputes = super().decide(block), self.party.view.disputes[self.party.task].disputes
        kept = [one for one in due.actions if not isinstance(one, ComputeOwnRoots | NameStep | DemandLeaf)]
        moves = [move for state in disputes.values() for move in self.list_torments(state, block)]
        return replace(due, actions=[*kept, *moves])

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Move]:
        made = {(demand.state_index, demand.tensor, demand.leaf_index) for demand in state.demands}
        places = [(index % (state.terms.segment_steps + 1), index % 3, index) for index in range(20)]
        wanted = [NameStep(state.dispute, 0)]
        demands = [DemandLeaf(state.dispute, *place) for place in places if place not in made]
        for move in (*wanted, *demands[: MAX_DEMANDS_EACH - len(made)]):
            if check_move(state, move, self.party.account, block) is None:
                yield move


def make_harasser(party: Party) -> Participant:
    return Harasser(party, partial(get_auditor_actions, role=Role.VERIFIER))


CAST: dict[str, Build] = {
    "solver": make_solver,
    "verifier-0": make_verifier,
    "verifier-1": make_verifier,
    "harasser": make_harasser,
}


async def test_an_honest_solver_answers_every_demand(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        return any(map(is_settled, list_rounds(view)))

    async with open_world(tmp_path, list(CAST)) as world:
        await run_world(world, ONE_ROUND_PLAN, CAST, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
        accounts = {name: key.address.lower() for name, key in world.keys.items()}
        [dispute] = view.disputes[find_task(view).task].disputes.values()
        assert (dispute.claimant, dispute.opener) == (accounts["solver"], accounts["harasser"])
        assert dispute.stage == Stage.CLOSED
        assert len(find(view, LeafAnswered)) == len(dispute.demands) == MAX_DEMANDS_EACH

        # Half of the bond and the fee of each demand are the solver's; nobody honest lost anything.
        amounts, moved = ONE_ROUND_PLAN.amounts, find(view, CreditMoved)
        assert {event.to for event in moved} == {accounts["solver"]}
        expected_wei = amounts.dispute_bond // 2 + MAX_DEMANDS_EACH * amounts.demand_fee
        assert sum(event.amount_wei for event in moved) == expected_wei
        balances = read_balances(world, view)
        assert not find(view, Slashed) and not find(view, FeeBurned)
        assert balances["solver"].earned["solver"] == amounts.solver_pay
        assert [name for name, balance in balances.items() if balance.lost] == ["harasser"]
