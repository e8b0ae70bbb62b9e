"""An honest solver accused by somebody who wants to cost it sleep answers everything, and is paid for it."""

from pathlib import Path

from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.spec.dispute_moves import MAX_DEMANDS_EACH
from protocol.spec.game_events import CreditMoved, FeeBurned, LeafAnswered, Slashed
from protocol.spec.statuses import Stage
from tests.e2e.harassment import make_harasser
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import find_task, read_view
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import ONE_ROUND_PLAN, Build, open_world, run_world

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
