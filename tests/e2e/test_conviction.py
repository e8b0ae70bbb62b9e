"""Whoever lies about a step and defends the lie with a trace is convicted by the referee's computation."""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from protocol.actions.challenge import accuse, name_solver_claim
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import NameStep
from protocol.spec.drawn import get_drawn
from protocol.spec.events import Event, StartOpened
from protocol.spec.game_events import DisputeClosed, DisputeConvicted, FeeBurned, Slashed
from protocol.spec.round import get_settle_block
from protocol.spec.statuses import AuditRef
from tests.e2e.cheats import make_skipper
from tests.e2e.faults import FAULTS, convict_all
from tests.e2e.hostile_styles import Demander
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import read_view
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import ONE_ROUND_PLAN, WINDOWS, Build, open_world, run_world

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


RIGHT_STEP = 1
"""Of a segment of two steps of which the cheat skips the first."""
SLOW_PLAN = replace(ONE_ROUND_PLAN, windows=replace(WINDOWS, seal=20, open=20, respond=120))
"""Eight demands put the end of a dispute off by eight times `respond`: longer than disputes can be opened."""


class Staller(Demander):
    """The cheat's second account: disputes its drawn segments before anybody replays them, names a step that
    is right, and demands leaf after leaf."""

    def react(self, event: Event) -> None:
        if isinstance(event, StartOpened):
            state = self.party.round(event.round)
            drawn = get_drawn(state, event.slot, event.draw)
            if drawn is not None and state.solvers[event.slot] in self.victims:
                audit = AuditRef(event.task, event.round, event.slot, 0, 0)
                accuse(self.party, name_solver_claim(audit, drawn.segment))

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Hashable]:
        if state.opener == self.party.account:
            moves = (NameStep(state.dispute, RIGHT_STEP), *self.list_demands(state))
            yield from (move for move in moves if self.is_allowed(state, move, block))


async def test_an_accomplice_that_disputes_first_does_not_save_a_cheat(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        return bool(find(view, DisputeConvicted)) or any(map(is_settled, list_rounds(view)))

    cast: dict[str, Build] = {**CAST, "cheat": partial(make_skipper, fraction=Fraction(1, 2))}
    async with open_world(tmp_path, [*cast, "accomplice"]) as world:
        cheat, accomplice = (world.keys[name].address.lower() for name in ("cheat", "accomplice"))
        cast["accomplice"] = lambda party: Staller(party, lambda *_: (), victims=frozenset({cheat}))
        await run_world(world, SLOW_PLAN, cast, is_enough)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
        [state] = list_rounds(view)
        disputes, closes = view.disputes[world.task].disputes, get_settle_block(state, view.head_block)
        first = next(iter(disputes.values()))
        ended = {event.dispute: event.block_number for event in find(view, DisputeClosed)}
        assert (first.opener, first.step) == (accomplice, RIGHT_STEP)
        assert ended[first.dispute] > closes, "whoever waits for its end opens nothing any more"
        assert cheat in {event.account for event in find(view, Slashed)}, "the cheat keeps its stake"
        convicted = find(view, DisputeConvicted)[0]
        assert convicted.claimant == cheat and convicted.reason.rstrip(b"\0") == b"operation"
        assert disputes[convicted.dispute].opener != accomplice


async def test_every_kind_of_fault_ends_in_a_conviction(tmp_path: Path) -> None:
    # Some of each kind of rule here; `./dev bench referee` plants all of them.
    faults = ["PRODUCT_SUM", "SELECTED_SUM", "EXPONENTIAL", "GATHER", "COPY", "TOKENS", "SCALARS"]
    for conviction in await convict_all(tmp_path, faults):
        assert conviction.reason == FAULTS[conviction.fault], conviction
        assert conviction.is_slashed, conviction
