"""Every kind of fault of the program, each in the claim of a solver of its own, in one round on a real chain;
and one verifier who disputes them all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.e2e.cheating import make_cheating_solver
from tests.e2e.harassing import Harass
from tests.e2e.reading import DisputeTold, list_closed, read_happened
from tests.e2e.roles import VERIFIER
from tests.e2e.world import TINY_PLAN, Part, open_world, run_world
from touchstone.demo.planted import make_planting_compute, twist_input
from touchstone.node.kit.duty import Duty, Room
from touchstone.node.kit.known_statements import (
    find_accused,
    get_inner,
    is_disputable,
    list_provable_rounds,
)
from touchstone.node.kit.view import View
from touchstone.node.loop.node import Node
from touchstone.node.submit import RoundPlan
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.terms import GameWindows
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import INPUTS
from touchstone.protocol.spec.program import Role as Buffers
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation
from touchstone.scripts.roles.role_nodes import Member

TWISTED = (Buffers.TOKENS, Buffers.LABELS, Buffers.SCALARS)


def list_faults(numeric_format: str = "float32") -> Mapping[str, str]:
    """By what is planted: the call by which its claimant falls."""
    exact = set(Operation) - {Operation.PRODUCT_SUM}
    operations = sorted(exact if numeric_format in PRODUCT_BITS else BOUNDED_OPERATIONS)
    proven = {operation.name: "proveOperation" for operation in operations}
    return {**proven, **{role.name: "proveDatum" for role in TWISTED}}


FAULTS = list_faults()
EVERY_FAULT = {**FAULTS, **list_faults("exact15")}
WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=600, train_max=900, audit_max=400, post=40, respond=200, dispute=3_000,
    query=8_400,
)  # fmt: skip
"""For twenty solvers in one process."""
SEGMENT = 0


def list_prosecutions(view: View, block: int) -> Iterator[Duty[Member]]:
    """A dispute of every claim, whatever audits say: some errors show in the loss alone, and no state tells
    of them."""
    mine = [one.statement for one in get_inner(view).disputes.values() if one.opener == view.account]
    for game_round in list_provable_rounds(view.game, block):
        for slot in game_round.claims:
            ref = StatementRef(game_round.index, slot)
            accused = find_accused(view.game, ref, None)
            if ref not in mine and is_disputable(view.game, ref, accused, view.account, block):
                yield Harass(ref, SEGMENT)


def _list_rooms(node: Member) -> Sequence[Room[Any]]:
    return (*node.list_rooms(), Room(list_prosecutions, node))


PROSECUTOR = replace(VERIFIER, list_rooms=_list_rooms)


def make_faulty(fault: str) -> Part:
    """A solver with this fault in every step, which defends it."""
    twisted = {role.name: INPUTS.index(role) for role in TWISTED}
    if fault in twisted:
        return make_cheating_solver(make_planting_compute(twist=twist_input(twisted[fault])))
    return make_cheating_solver(make_planting_compute(Operation[fault]))


@dataclass(frozen=True)
class Ending:
    """By which call the claimant with this fault fell, or nothing; whether its seat is gone; gas and number
    of all transactions of its dispute."""

    fault: str
    by: str
    is_closed: bool
    gas: int = 0
    transactions: int = 0

    @property
    def is_right(self) -> bool:
        """Whether it fell as its fault deserves."""
        return self.is_closed and self.by == EVERY_FAULT[self.fault]


async def convict_all(folder: Path, faults: Sequence[str], base: RoundPlan = TINY_PLAN) -> list[Ending]:
    """Play one round with a solver for each fault, until all have fallen. Cheating has to be allowed."""
    cast = {fault: make_faulty(fault) for fault in faults} | {"prosecutor": PROSECUTOR}
    cast |= {f"verifier {number}": VERIFIER for number in (1, 2)}
    schedule = replace(base.schedule, total_steps=base.inner_steps)
    plan = replace(
        base, rounds=1, schedule=schedule, late_chance=0, least_whistleblowers=0, windows=WINDOWS,
        solver_seats=len(faults), least_solvers=len(faults),
    )  # fmt: skip

    def is_enough(submitter: Node) -> bool:
        game = submitter.state.games.get(world.task)
        return game is not None and set(faults) <= list_closed(world, game)

    async with open_world(folder, tuple(cast)) as world:
        try:
            game, _ = await run_world(world, plan, cast, is_enough)
        finally:
            (folder / "said.txt").write_text("\n".join(world.lines))
        happened, closed = await read_happened(world), list_closed(world, game)
    accounts = {world.keys[fault].address.lower(): fault for fault in faults}
    fallen = {
        accounts[one.accused]: one
        for one in happened.disputes
        if one.accused in accounts and one.outcome == DisputeStage.CONVICTED
    }
    return [_describe(fault, fallen.get(fault), fault in closed) for fault in faults]


def _describe(fault: str, told: DisputeTold | None, is_closed: bool) -> Ending:
    if told is None:
        return Ending(fault, "", is_closed)
    return Ending(fault, told.by, is_closed, sum(told.gas), len(told.gas))
