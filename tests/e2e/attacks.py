"""Ways to harass honest parties over a whole round, and what came of each: disputes and contests of right
statements that prove nothing, in every style that costs its target something."""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.faults import WINDOWS
from tests.e2e.harassing import HARASSER, Harass
from tests.e2e.reading import Happened, list_closed, read_happened, read_statuses
from tests.e2e.roles import DISPUTES, SOLVER, VERIFIER, leave_out
from tests.e2e.world import TINY_PLAN, Part, open_world, run_world
from touchstone.node.kit.duty import Duty, Room, Wait
from touchstone.node.kit.known_statements import (
    find_accused,
    get_inner,
    is_disputable,
    list_provable_rounds,
)
from touchstone.node.kit.view import View
from touchstone.protocol.compute.bounds.fault_proof import prove_operation as prove_element
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_contest import InnerContest, InnerTurn
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerDispute
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower import contesting
from touchstone.whistleblower.prosecuting import get_inner_step

SEGMENTS = TINY_PLAN.inner_steps // TINY_PLAN.segment_steps
LAST_BLOCKS = 3
ListAttack = Callable[[View, int], Iterator[Duty[Member] | Wait]]


# Disputes
def list_openings(view: View, block: int, segments: Sequence[int]) -> Iterator[Duty[Member]]:
    """A dispute of each claim of round 0 in each of these segments."""
    mine = {(one.statement, one.segment) for one in list_mine(view)}
    for game_round in list_provable_rounds(view.game, block):
        for slot in game_round.claims if game_round.index == 0 else ():
            ref = StatementRef(0, slot)
            accused = find_accused(view.game, ref, None)
            if is_disputable(view.game, ref, accused, view.account, block):
                yield from (Harass(ref, one) for one in segments if (ref, one) not in mine)


def list_mine(view: View) -> list[InnerDispute]:
    """Disputes that this account opened."""
    return [one for one in get_inner(view).disputes.values() if one.opener == view.account]


@dataclass(frozen=True)
class Name:
    """Name the first step."""

    name: bytes

    async def perform(self, node: Member) -> None:
        dispute = get_inner(node.get_view()).disputes[self.name]
        await node.chain.game.name_step(node.task.task, self.name, 0, dispute.roots)


@dataclass(frozen=True)
class Demand:
    """Demand leaves of what everybody could have."""

    name: bytes

    async def perform(self, node: Member) -> None:
        await node.list_challenges().prosecuting.demand(get_inner(node.get_view()).disputes[self.name], None)


@dataclass(frozen=True)
class ProveRight:
    """Have the referee compute an element that is right."""

    name: bytes

    async def perform(self, node: Member) -> None:
        dispute = get_inner(node.get_view()).disputes[self.name]
        assert dispute.trace is not None
        peer = node.state.network.find(node.game.seats[dispute.seat].account)
        start = await node.rooms.tools.states.fetch_and_load(node.client, [peer], dispute.trace.start)
        batches = node.rooms.segments.get_batches(dispute.statement.round, dispute.statement.slot)
        place = (start, node.task.spec.training, batches, get_inner_step(node.get_view(), dispute))
        tree = (await asyncio.to_thread(retrace, *place)).tree
        number = self.name[0] % len(tree.program.nodes)
        fault = await asyncio.to_thread(prove_element, tree, number, 0)
        await node.list_challenges().prosecuting.prove_operation(dispute, dispute.trace.start, fault)


def list_flood(view: View, block: int) -> Iterator[Duty[Member] | Wait]:
    """Every segment of every claim at once, with demands."""
    yield from list_openings(view, block, range(SEGMENTS))
    for dispute in list_mine(view):
        if dispute.stage == DisputeStage.NAME:
            yield Name(dispute.name)
        elif dispute.stage == DisputeStage.PROVE:
            yield Demand(dispute.name)


def list_silence(view: View, block: int) -> Iterator[Duty[Member] | Wait]:
    """Opens, and falls silent: in one segment at once, in another once a step is named."""
    yield from list_openings(view, block, (0, 1))
    for dispute in list_mine(view):
        if dispute.stage == DisputeStage.NAME and dispute.segment == 1:
            yield Name(dispute.name)


def list_last_moves(view: View, block: int) -> Iterator[Duty[Member] | Wait]:
    """Moves in the last blocks in which it may."""
    yield from list_openings(view, block, (2,))
    for dispute in list_mine(view):
        at = dispute.clock - LAST_BLOCKS
        if dispute.stage == DisputeStage.NAME:
            yield Name(dispute.name) if block >= at else Wait(at)
        elif dispute.stage == DisputeStage.PROVE:
            yield Demand(dispute.name) if block >= at else Wait(at)


def list_false_proofs(view: View, block: int) -> Iterator[Duty[Member] | Wait]:
    """Proves what is right."""
    yield from list_openings(view, block, (3,))
    for dispute in list_mine(view):
        if dispute.stage == DisputeStage.NAME:
            yield Name(dispute.name)
        elif dispute.stage == DisputeStage.PROVE:
            yield ProveRight(dispute.name)


# Contests
@dataclass(frozen=True)
class Contest:
    """Contest a right root."""

    round: int

    async def perform(self, node: Member) -> None:
        bond = node.game.terms.amounts.contest_bond * (1 + len(node.game.contests))
        await node.chain.deposit_missing(bond)
        await node.chain.game.contest(node.task.task, self.round, bond, secrets.token_bytes(32))


@dataclass(frozen=True)
class NameFirst:
    """Name the first child, whatever the own tree says."""

    name: bytes
    level: int

    async def perform(self, node: Member) -> None:
        contest = node.state.contests[node.task.task].contests[self.name]
        await node.chain.game.name_child(node.task.task, self.name, 0, list(contest.nodes))


def list_contests(view: View, block: int, is_silent: bool) -> Iterator[Duty[Member] | Wait]:
    """One contest of the root of round 0, down to a leaf or not at all."""
    mine = list_own_contests(view)
    game_round = view.game.rounds.get(0)
    if not mine and game_round is not None and game_round.phase == RoundPhase.POSTED:
        yield Contest(0)
    for contest in mine:
        if contest.turn == InnerTurn.CONTESTER and not is_silent:
            yield NameFirst(contest.name, contest.level)


def list_own_contests(view: View) -> list[InnerContest]:
    """Those that this account opened."""
    contests = view.chain_state.contests[view.task].contests.values()
    return [one for one in contests if one.contester == view.account and one.round == 0]


# Attackers
def make_attacker(list_attack: ListAttack) -> Part:
    """A solver that is honest in all else, and accuses nobody else."""

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        return (*leave_out(node.list_rooms(), *DISPUTES, contesting.list_duties), Room(list_attack, node))

    return replace(SOLVER, list_rooms=list_rooms)


ATTACKS: Mapping[str, Sequence[Part]] = {
    "demands": (HARASSER,),
    "silence": (make_attacker(list_silence),),
    "last": (make_attacker(list_last_moves),),
    "proofs": (make_attacker(list_false_proofs),),
    "contest": (make_attacker(partial(list_contests, is_silent=False)),),
    "silent_contest": (make_attacker(partial(list_contests, is_silent=True)),),
    "flood": (make_attacker(list_flood), make_attacker(list_flood)),
}
QUICK_ATTACKS = ("demands", "proofs", "contest")
SOLVERS, VERIFIERS = 2, 3


@dataclass(frozen=True)
class AttackOutcome:
    """What an attack came to. unpaid: honest parties that ended with less than their pay; closed: honest
    parties that lost their seats; lost: by the attackers, wei."""

    style: str
    disputes: int
    demands: int
    queries: int
    contests: int
    outcomes: Mapping[str, int]
    unpaid: tuple[str, ...]
    closed: tuple[str, ...]
    honest_lost: int
    lost: int


async def attack(folder: Path, style: str) -> AttackOutcome:
    """One round of honest parties under one attack, until the task is closed."""
    attackers = {f"attacker {n}": part for n, part in enumerate(ATTACKS[style])}
    honest = {f"solver {n}": SOLVER for n in range(SOLVERS)}
    honest |= {f"verifier {n}": VERIFIER for n in range(VERIFIERS)}
    schedule = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
    count = SOLVERS + len(attackers)
    plan = replace(
        TINY_PLAN, rounds=1, schedule=schedule, late_chance=0, least_whistleblowers=0, windows=WINDOWS,
        solver_seats=count, least_solvers=count,
    )  # fmt: skip
    async with open_world(folder, (*honest, *attackers)) as world:
        try:
            game, _ = await run_world(world, plan, honest | attackers)
        finally:
            (folder / "said.txt").write_text("\n".join(world.lines))
        happened, statuses = await read_happened(world), read_statuses(world, game, 0, 1 << 40)
        accounts = {name: key.address.lower() for name, key in world.keys.items()}
    earned = compute_earned(happened)
    pay = {name: TINY_PLAN.amounts.solver_pay if name.startswith("solver") else 0 for name in honest}
    unpaid = [n for n in honest if earned[accounts[n]] < pay[n] or statuses.get(n, "ACCEPTED") != "ACCEPTED"]
    closed = list_closed(world, game)
    return AttackOutcome(
        style,
        disputes=len(happened.disputes),
        demands=len(happened.list_events("LeafShown")),
        queries=len(happened.list_events("QueryEnded")),
        contests=len(happened.list_events("ContestEnded")),
        outcomes=count_outcomes(happened),
        unpaid=tuple(unpaid),
        closed=tuple(closed & honest.keys()),
        honest_lost=happened.compute_lost(accounts[name] for name in honest),
        lost=happened.compute_lost(accounts[name] for name in attackers),
    )


def count_outcomes(happened: Happened) -> dict[str, int]:
    """How disputes ended."""
    names = [one.outcome.name for one in happened.disputes]
    return {name: names.count(name) for name in sorted({*names})}


def compute_earned(happened: Happened) -> dict[str, int]:
    """What each account has more, or less, than it came with, wei, once everything is given back."""
    earned = dict[str, int]()
    for event in happened.list_events("Given"):
        account = event.arguments["account"].lower()
        earned[account] = earned.get(account, 0) + int(event.arguments["wei_"])
    for event in happened.list_events("Taken"):
        account = event.arguments["account"].lower()
        earned[account] = earned.get(account, 0) - int(event.arguments["wei_"])
    return earned
