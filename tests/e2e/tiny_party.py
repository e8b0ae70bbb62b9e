"""One party of the tiny world as a process of its own, to be killed.

The code of the roles, but for `slow-solve`: its segments take long enough to be killed in the middle.
"""

import asyncio
import logging
import os
import time
from pathlib import Path

from node import solver
from protocol.actions.defend import Compute
from protocol.actions.join import catch_up, join_task
from protocol.actions.participant import Participant
from protocol.actions.party import PartyConfig, open_party
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.duties import get_solver_actions
from tests.e2e.party import open_home
from verifier import verifier

SEGMENT_S = 1.5


def train_slowly(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, list[float]]:
    """`train_segment`, and some time."""
    time.sleep(SEGMENT_S)
    return train_segment(state, spec, batches, inner_step, steps)


async def solve_slowly(config: PartyConfig, task: bytes) -> None:
    """`node.solver.run` with slow segments."""
    async with open_party(config) as party:
        await catch_up(party)
        await join_task(party, task)
        await Participant(party, get_solver_actions, Compute(train_slowly)).run()


KINDS = {"solve": solver.run, "slow-solve": solve_slowly, "verify": verifier.run}


def run_party(kind: str, home: Path, task: bytes, log: Path) -> None:
    """The whole life of the process: one party to the end of its task, what it says in `log`."""
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(KINDS[kind](open_home(home), task))
