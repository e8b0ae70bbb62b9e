"""Worlds in which honest claims are disputed in every hostile way, and what came of it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from protocol.actions.party import Party
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.spec.dispute import DisputeState, process_dispute_event, start_dispute
from protocol.spec.events import DisputeEvent
from protocol.spec.game_events import (
    Contested,
    ContestEnded,
    CreditMoved,
    DisputeClosed,
    DisputeOpened,
    LeafAnswered,
    LeafDemanded,
    OpeningSealed,
    Slashed,
    StepNamed,
)
from protocol.spec.round import get_settle_block
from protocol.spec.statuses import Stage
from tests.e2e.hostile import Hostile, Record
from tests.e2e.hostile_contests import Contester, SilentContester
from tests.e2e.hostile_styles import Demander, Flooder, LastSecond, Prover, Withholder
from tests.e2e.money import Balance
from tests.e2e.reading import find, is_settled, list_rounds, read_balances, require_solvent
from tests.e2e.report import find_task, read_view
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import LONG_WINDOWS, ONE_ROUND_PLAN, Build, World, open_world, run_world

VERIFIERS = ("verifier-0", "verifier-1", "verifier-2")
ALL_SEGMENTS = tuple(range(ONE_ROUND_PLAN.inner_steps // ONE_ROUND_PLAN.segment_steps))
DEADLINE_S = 2_400.0
"""Of the full form: a quarter of an hour on two busy cores."""


@dataclass(frozen=True)
class Raid:
    """One way to harass: by how many accounts, against how many solvers, in which of their segments."""

    make: type[Hostile]
    solvers: int
    segments: tuple[int, ...]
    accounts: int = 1
    extras: tuple[tuple[str, Any], ...] = ()

    def list_victims(self, name: str) -> list[str]:
        """Names of its solvers."""
        return [f"solver-{name}-{number}" for number in range(self.solvers)]

    def list_attackers(self, name: str) -> list[str]:
        """Names of its accounts."""
        return [f"{name}-{number}" for number in range(self.accounts)]


Raids = dict[str, Raid]
QUICK_RAIDS: Raids = {
    "demands": Raid(Demander, 1, (1,)),
    "proofs": Raid(Prover, 1, (1,), extras=(("accuses_audits", True),)),
    "silence": Raid(Withholder, 1, ALL_SEGMENTS),
    "flood": Raid(Flooder, 1, (1,), accounts=2, extras=(("demands", 2),)),
    "last": Raid(LastSecond, 1, (1,), extras=(("demands", 1),)),
    "contest": Raid(Contester, 0, ()),
}
FULL_RAIDS: Raids = {
    "demands": Raid(Demander, 2, ALL_SEGMENTS),
    "proofs": Raid(Prover, 3, ALL_SEGMENTS, extras=(("accuses_audits", True),)),
    "silence": Raid(Withholder, 4, ALL_SEGMENTS),
    "flood": Raid(Flooder, 1, ALL_SEGMENTS, accounts=2),
    "last": Raid(LastSecond, 2, ALL_SEGMENTS, extras=(("demands", 3),)),
    "contest": Raid(Contester, 0, ()),
    "silent_contest": Raid(SilentContester, 0, ()),
}
"""48 disputes on claims of solvers, and 6 on audits."""


@dataclass(frozen=True)
class Harassed:
    """What came of a round: all that the chain tells, and what each hostile account did beside."""

    world: World
    view: View
    balances: dict[str, Balance]
    raids: Raids
    records: dict[str, Record]

    @property
    def honest(self) -> list[str]:
        """Names of the solvers and verifiers."""
        return [*list_solvers(self.raids), *VERIFIERS]

    def account_of(self, name: str) -> str:
        """The address of a party."""
        return self.world.keys[name].address.lower()


def list_solvers(raids: Raids) -> list[str]:
    """Names of all victims."""
    return [victim for name, raid in raids.items() for victim in raid.list_victims(name)]


async def harass(folder: Path, raids: Raids) -> Harassed:
    """One round of honest parties under all raids at once, until everybody is settled."""
    solvers = list_solvers(raids)
    attackers = {one: name for name, raid in raids.items() for one in raid.list_attackers(name)}
    records = {attacker: Record() for attacker in attackers}
    plan = replace(ONE_ROUND_PLAN, max_solvers=len(solvers), windows=LONG_WINDOWS)

    def is_enough(view: View) -> bool:
        return any(map(is_settled, list_rounds(view)))

    async with open_world(folder, [*solvers, *VERIFIERS, *attackers]) as world:
        cast: dict[str, Build] = {
            **dict.fromkeys(solvers, make_solver),
            **dict.fromkeys(VERIFIERS, make_verifier),
        }
        for attacker, name in attackers.items():
            victims = frozenset(world.keys[one].address.lower() for one in raids[name].list_victims(name))
            cast[attacker] = partial(
                make_hostile, raid=raids[name], victims=victims, record=records[attacker]
            )
        await run_world(world, plan, cast, is_enough, deadline_s=DEADLINE_S)
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
            await require_solvent(chain, world, view)
        return Harassed(world, view, read_balances(world, view), raids, records)


def make_hostile(party: Party, raid: Raid, victims: frozenset[str], record: Record) -> Hostile:
    """One account of a raid."""
    return raid.make(
        party,
        lambda state, me, block: (),
        victims=victims,
        segments=raid.segments,
        record=record,
        **dict(raid.extras),
    )


# --- What came of it ----------------------------------------------------------------------------------------
async def harass_all(folder: Path, raids: Raids) -> dict[str, Any]:
    """Disputes, how many of them were closed, leaves shown, parties slashed; honest parties that were not
    paid in full, or lost anything; and the figures of each way."""
    found = await harass(folder, raids)
    view = found.view
    return {
        "disputes": len(find(view, DisputeOpened)),
        "closed": len(find(view, DisputeClosed)),
        "demands": len(find(view, LeafAnswered)),
        "slashed": len(find(view, Slashed)),
        "unpaid": len(list_unpaid(found)),
        "styles": {name: count_style(found, name) for name in raids},
    }


def list_unpaid(found: Harassed) -> list[str]:
    """Honest parties that lost anything, or got less than their pay, half of the bonds of the disputes that
    they answered, and the fees of the demands."""
    pay, due = ONE_ROUND_PLAN.amounts.solver_pay, compute_due(found.view)
    unpaid = []
    for name in found.honest:
        balance, account = found.balances[name], found.account_of(name)
        moved = sum(one.amount_wei for one in find(found.view, CreditMoved) if one.to == account)
        is_paid = name in VERIFIERS or balance.earned["solver"] == pay
        if balance.lost or moved != due[account] or not is_paid:
            unpaid.append(name)
    return unpaid


def compute_due(view: View) -> Counter[str]:
    """What disputes owe each claimant, wei: half of the bond of each that was closed, and the fee of each
    demand; and the poster of the outer root half of the bond of each contest."""
    due, amounts = Counter[str](), ONE_ROUND_PLAN.amounts
    for dispute in view.disputes[find_task(view).task].disputes.values():
        due[dispute.claimant] += dispute.bond_wei // 2 * (dispute.stage == Stage.CLOSED)
        due[dispute.claimant] += amounts.demand_fee * len(dispute.demands)
    [outer] = [state.outer for state in list_rounds(view)]
    if outer is not None:
        lost = sum(one.loser == one.rival for one in find(view, ContestEnded))
        due[outer.poster] += amounts.merge_bond // 2 * lost
    return due


def count_style(found: Harassed, name: str) -> dict[str, int]:
    """What one way of harassing came to. late: moves in the last two blocks of their window; refused: false
    moves that were mined and failed; turned_away: requests that a server did not serve."""
    attackers = found.raids[name].list_attackers(name)
    accounts, records = (
        {found.account_of(one) for one in attackers},
        [found.records[one] for one in attackers],
    )
    slacks = list_slacks(found.view, accounts) + [slack for one in records for slack in one.proof_slacks]
    opened = [one for one in find(found.view, DisputeOpened) if one.opener in accounts]
    sealed = [one for one in find(found.view, OpeningSealed) if one.opener in accounts]
    answers = [answer for one in records for answer in one.answers]
    return {
        "disputes": len(opened),
        "contests": sum(one.rival in accounts for one in find(found.view, Contested)),
        "never_opened": len(sealed) - len(opened),
        "demands": sum(one.challenger in accounts for one in find(found.view, LeafDemanded)),
        "refused": sum(len(one.failed) for one in records),
        "late": sum(1 <= slack <= 2 for slack in slacks),
        "early": sum(slack > 2 for slack in slacks),
        "served": answers.count("200"),
        "turned_away": len(answers) - answers.count("200"),
        "lost_wei": sum(sum(found.balances[one].lost.values()) for one in attackers),
    }


def list_slacks(view: View, accounts: set[str]) -> list[int]:
    """For each dispute opened, step named and leaf demanded by these accounts: blocks from it to the end of
    its window."""
    [state] = list_rounds(view)
    closes = get_settle_block(state, view.head_block)
    opened = [one for one in find(view, DisputeOpened) if one.opener in accounts]
    return [closes - one.block_number for one in opened] + [
        dispute.clock_block - event.block_number
        for dispute, event in iterate_moves(view)
        if (isinstance(event, StepNamed) and dispute.opener in accounts)
        or (isinstance(event, LeafDemanded) and event.challenger in accounts)
    ]


def iterate_moves(view: View) -> Iterator[tuple[DisputeState, DisputeEvent]]:
    """Each event of a dispute, with the dispute as it was before."""
    terms, states = find_task(view).terms, dict[bytes, DisputeState]()
    for event in view.events:
        if isinstance(event, DisputeOpened):
            states[event.dispute] = start_dispute(terms, event)
        elif isinstance(event, DisputeEvent):
            yield states[event.dispute], event
            states[event.dispute] = process_dispute_event(states[event.dispute], event)
