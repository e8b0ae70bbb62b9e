"""A crowd's task in two files: what an explorer has stored, and what is still to come."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from node.submit import build_task
from protocol.adapters.chain.contract import LogBatch
from protocol.spec.codec import encode_training
from protocol.spec.game.terms import WINDOWS_LOCAL
from tests.e2e.world import TINY_PLAN, make_dataset
from tests.explorer.crowd import SUBMITTER, TASK, Crowd, fill

MORE_ROUNDS = 4
"""that the task would still have: pools are frozen before a round opens."""
PLACE = f"#/task/0x{TASK.hex()}"


def make_crowd(rounds: int, solvers: int) -> Crowd:
    """A task of so many rounds and some more; nothing has happened yet."""
    rounds += MORE_ROUNDS
    steps = rounds * TINY_PLAN.inner_steps
    plan = replace(
        TINY_PLAN, rounds=rounds, solver_seats=solvers, late_chance=1 << 14, windows=WINDOWS_LOCAL,
        schedule=replace(TINY_PLAN.schedule, total_steps=steps),
    )  # fmt: skip
    terms, training = build_task(plan, make_dataset(), SUBMITTER, bytes(32))
    return Crowd(terms, encode_training(training), solvers)


def make_files(folder: Path, rounds: int, solvers: int, live_rounds: int) -> dict[str, int]:
    """An index with all rounds but the last ones, and one with those, which are still to come."""
    crowd = make_crowd(rounds + live_rounds, solvers)
    batches = crowd.play(rounds + live_rounds)

    def take_stored() -> Iterator[LogBatch]:
        """Up to the root of the last stored round."""
        for batch in batches:
            yield batch
            if any(one.name == "RootPosted" and one.arguments["round"] == rounds - 1 for one in batch.events):
                return

    return {
        "stored": fill(folder / "stored.sqlite", take_stored()),
        "live": fill(folder / "live.sqlite", batches),
    }
