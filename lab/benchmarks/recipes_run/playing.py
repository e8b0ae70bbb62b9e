"""Plays a recorded step as a task on a real chain: posted, trained two rounds, audited, a lie convicted."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.e2e.cheating import allow_cheating, make_cheating_solver
from tests.e2e.reading import list_closed
from tests.e2e.roles import make_cast
from tests.e2e.world import TINY_PLAN, open_world, run_world
from touchstone.demo.planted import make_planting_compute
from touchstone.node.loop.node import Node
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import Limits
from touchstone.step.step_folder import StepFiles

ROUNDS = 2
LIMITS = Limits(2**55, 2**132, 2**55, 2**60, 2**55, 2**47)
CHEAT = "cheat"


@dataclass(frozen=True)
class Played:
    """The outcome. `rounds_merged` counts rounds with the claims of both honest solvers. `lie_convicted` says
    that the cheat's seat was convicted and no other. `why_not` is what parties reported if that failed."""

    rounds_merged: int
    lie_convicted: bool
    seconds: float
    why_not: str = ""


def play(folder: Path, step: StepFiles) -> Played:
    """Plays with two honest solvers, one that errs in one operation and defends it, and three verifiers."""
    begun = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        allow_cheating(patch)
        return asyncio.run(_play(folder, step, begun))


async def _play(folder: Path, step: StepFiles, begun: float) -> Played:
    shape = step.shape
    steps = ROUNDS * TINY_PLAN.inner_steps
    plan = replace(
        TINY_PLAN, step=step, rounds=ROUNDS, late_chance=0, least_whistleblowers=0, solver_seats=3,
        sequences_per_step=shape.sequences, sequence_tokens=shape.tokens, numeric_format=shape.numeric_format,
        limits=TINY_PLAN.limits if shape.numeric_format in PRODUCT_BITS else LIMITS,
        schedule=replace(TINY_PLAN.schedule, total_steps=steps),
    )  # fmt: skip
    cast = make_cast(2, 3, 0) | {CHEAT: make_cheating_solver(make_planting_compute(Operation.MULTIPLY))}
    closed, merged = set[str](), set[int]()

    def is_enough(submitter: Node) -> bool:
        game = submitter.state.games.get(world.task)
        if game is not None:
            closed.update(list_closed(world, game))
            posted = [one for one in game.rounds.values() if one.phase == RoundPhase.POSTED]
            merged.update(one.index for one in posted if len(one.merged) >= 2)
        return len(merged) == ROUNDS and bool(closed)

    async with open_world(folder, tuple(cast)) as world:
        failure = ""
        try:
            await run_world(world, plan, cast, until=is_enough)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        is_right = len(merged) == ROUNDS and closed == {CHEAT}
        why = "" if is_right and not failure else "\n".join([failure, *world.lines[-20:]])
        return Played(len(merged), closed == {CHEAT}, round(time.monotonic() - begun, 1), why)
