"""Whole rounds of the tiny world on a real chain: what the honest get, and what a cheat and a liar lose."""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from protocol.actions.memory import Memory
from protocol.actions.party import JOURNAL_FILE
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.adapters.journal import Journal
from protocol.adapters.records import RECORDS
from protocol.spec.events import OuterPosted
from protocol.spec.game_events import Contested, DisputeConvicted, FeeBurned, Slashed
from protocol.spec.round import get_claim, get_included
from protocol.spec.statuses import ClaimStatus
from tests.e2e.cheats import make_inventor, make_silent_skipper
from tests.e2e.reading import find, has_second_round, read_balances, require_solvent
from tests.e2e.report import find_task, read_view
from tests.e2e.roles import make_solver, make_verifier, make_watcher
from tests.e2e.world import TINY_PLAN, WINDOWS, Build, World, open_world, run_world

AMOUNTS = TINY_PLAN.amounts
HONEST: dict[str, Build] = {
    "solver-0": make_solver,
    "solver-1": make_solver,
    "verifier-0": make_verifier,
    "verifier-1": make_verifier,
    "verifier-2": make_verifier,
    "watcher": make_watcher,
}
# Of the three verifiers one invents, so it takes part in every escalated audit; each of the skipper's
# segments lacks a step, so all of its audits escalate: no draw lets either of them off. The skipper's
# dispute, in which it is silent, outlasts the reserves, and the merge outlasts the dispute.
CHEATS: dict[str, Build] = {
    **{name: HONEST[name] for name in ("solver-0", "verifier-0", "verifier-1", "watcher")},
    "skipper": partial(make_silent_skipper, fraction=Fraction(1, 2)),
    "inventor": make_inventor,
}
CHEAT_PLAN = replace(TINY_PLAN, windows=replace(WINDOWS, respond=400, merge=500))


def read_start_weights(world: World, name: str, index: int) -> bytes:
    """The weights that a solver started a round from, as its own journal has it."""
    with Journal(world.folder / name / JOURNAL_FILE, RECORDS) as journal:
        return Memory(journal, world.task).boundaries[(index, 0)].weights_root


async def test_the_honest_are_paid_and_nobody_loses(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        return has_second_round(view, lambda state: len(state.claims) == 2)

    async with open_world(tmp_path, list(HONEST)) as world:
        await run_world(world, TINY_PLAN, HONEST, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
            expected = await chain.ledger.expected_start(world.task, 1, find_task(view).rounds[1].solvers[0])
        first, second = find_task(view).rounds
        assert not find(view, Slashed) and not find(view, FeeBurned)
        assert not [state for state in first.claims.values() if state.status != ClaimStatus.ACCEPTED]

        # Round 1 starts from the merged model, which is another than the first.
        assert first.outer is not None and first.outer.weights_root != first.weights_root
        assert second.weights_root == expected.weights_root == first.outer.weights_root
        for name in ("solver-0", "solver-1"):
            assert read_start_weights(world, name, 1) == first.outer.weights_root

        # What the terms say for two accepted claims: two audits each, one more late, one merge.
        balances = read_balances(world, view)
        earned = {name: balance.earned for name, balance in balances.items()}
        assert earned["solver-0"]["solver"] == earned["solver-1"]["solver"] == AMOUNTS.solver_pay
        audits = {name: earned[name]["audit"] for name in HONEST if name.startswith("verifier")}
        assert sum(audits.values()) == 4 * AMOUNTS.audit_pay
        assert earned["watcher"]["audit"] == 2 * AMOUNTS.late_pay
        assert sum(one["merge"] for one in earned.values()) == AMOUNTS.merge_pay
        assert not [name for name, balance in balances.items() if balance.lost]


async def test_cheats_lose_and_the_honest_do_not(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        return has_second_round(view, lambda state: len(state.solvers) == 2)

    async with open_world(tmp_path, list(CHEATS)) as world:
        await run_world(world, CHEAT_PLAN, CHEATS, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
        first, second = find_task(view).rounds
        accounts = {name: key.address.lower() for name, key in world.keys.items()}
        balances = read_balances(world, view)

        # Both cheats are slashed, the solver by a dispute that it could not answer, and get no pay for their
        # work. (Either may post the outer root, rightly, and be paid for that.)
        assert balances["skipper"].slashed == AMOUNTS.solver_stake
        assert balances["inventor"].slashed >= 2 * AMOUNTS.audit_stake
        assert accounts["skipper"] in {event.claimant for event in find(view, DisputeConvicted)}
        assert balances["skipper"].earned.keys() | balances["inventor"].earned.keys() <= {"merge"}

        # What was rejected is not merged; the rest is, uncontested.
        slots = {name: first.solvers.index(accounts[name]) for name in ("solver-0", "skipper")}
        assert get_claim(first, slots["skipper"]).status == ClaimStatus.CONVICTED
        assert get_included(first) == (slots["solver-0"],)
        assert [event.included for event in find(view, OuterPosted)] == [1] and not find(view, Contested)

        # The honest lose nothing; the accepted solver has its pay.
        for name in ("submitter", "solver-0", "verifier-0", "verifier-1", "watcher"):
            assert not balances[name].lost, name
        assert balances["solver-0"].earned["solver"] == AMOUNTS.solver_pay

        # Who has stake left may try again.
        assert accounts["skipper"] in second.solvers
