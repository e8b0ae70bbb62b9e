"""Whoever lies about a step and defends the lie with a trace is convicted by the referee's computation."""

from fractions import Fraction
from functools import partial
from pathlib import Path

from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.spec.game_events import DisputeConvicted, FeeBurned, Slashed
from tests.e2e.cheats import make_skipper
from tests.e2e.faults import FAULTS, convict_all
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import read_view
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import ONE_ROUND_PLAN, Build, open_world, run_world

CAST: dict[str, Build] = {
    "cheat": partial(make_skipper, fraction=Fraction(1)),
    "solver": make_solver,
    **{f"verifier-{index}": make_verifier for index in range(3)},
}


async def test_a_lie_that_is_defended_is_computed(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        return any(map(is_settled, list_rounds(view)))

    async with open_world(tmp_path, list(CAST)) as world:
        await run_world(world, ONE_ROUND_PLAN, CAST, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
        accounts = {name: key.address.lower() for name, key in world.keys.items()}
        convicted = find(view, DisputeConvicted)
        assert {event.claimant for event in convicted} == {accounts["cheat"]}
        assert {event.reason.rstrip(b"\0") for event in convicted} == {b"operation"}
        assert {event.account for event in find(view, Slashed)} == {accounts["cheat"]}
        assert not find(view, FeeBurned)
        balances = read_balances(world, view)
        assert [name for name, balance in balances.items() if balance.lost] == ["cheat"]


async def test_every_kind_of_fault_ends_in_a_conviction(tmp_path: Path) -> None:
    # Some of each kind of rule here; `./dev bench referee` plants all of them.
    faults = ["PRODUCT_SUM", "SELECTED_SUM", "EXPONENTIAL", "GATHER", "COPY", "TOKENS", "SCALARS"]
    for conviction in await convict_all(tmp_path, faults):
        assert conviction.reason == FAULTS[conviction.fault], conviction
        assert conviction.is_slashed, conviction
