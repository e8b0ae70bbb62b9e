"""A task of many accounts in two files, what an explorer has stored and what is to come; and its reports."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.explorer.many_accounts import (
    DEPLOYMENT,
    SUBMITTER,
    TASK,
    ManyAccounts,
    fill,
    make_address,
    make_word,
)
from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.report_documents import HELDOUT, LOSS, Reported
from touchstone.explorer.report_documents import SUBMITTER as SUBMITTER_SLOT
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.game.presets import WINDOWS_LOCAL
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.training_codec import encode_training

MORE_ROUNDS = 4
"""that the task would still have: pools are frozen before a round opens."""
CHEATED_ROUNDS, CHEATED_SOLVERS = 3, 4
"""Of the task whose last round ends with a conviction."""
PLACE = f"#/task/0x{TASK.hex()}"


def make_accounts(rounds: int, solvers: int, cheat_round: int | None = None) -> ManyAccounts:
    """A task of so many rounds and some more; nothing has happened yet."""
    rounds += MORE_ROUNDS
    steps = rounds * TINY_PLAN.inner_steps
    plan = replace(
        TINY_PLAN, rounds=rounds, solver_seats=solvers, late_chance=1 << 14, windows=WINDOWS_LOCAL,
        schedule=replace(TINY_PLAN.schedule, total_steps=steps),
    )  # fmt: skip
    terms, training = build_task(plan, make_dataset(), SUBMITTER, bytes(32))
    return ManyAccounts(terms, encode_training(training), solvers, cheat_round)


def make_start(rounds: range, solvers: int) -> bytes:
    """The root of the model before any training."""
    said = make_accounts(len(rounds), solvers).terms
    return compute_outer_root(OuterHeader(said.initial_weights_root, said.zero_root))


def make_files(
    folder: Path, rounds: int, solvers: int, live_rounds: int, cheat_round: int | None = None
) -> dict[str, int]:
    """An index with all rounds but the last ones, and one with those, which are still to come. In
    `cheat_round` a solver is convicted by its number; it should be the last stored one."""
    accounts = make_accounts(rounds + live_rounds, solvers, cheat_round)
    batches = accounts.play(rounds + live_rounds)

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


def report(path: Path, rounds: range, solvers: int) -> None:
    """Every solver has reported its losses of these rounds, and every primary its distances: of slot 0 equal
    ends, of slot 1 some beyond the limits, of all others some inside. The submitter has reported the held-out
    loss of each model: 6 nats before any training, then 6 / 2, 6 / 3 and so on."""
    index = EventIndex(path, DEPLOYMENT)
    for number in rounds:
        made = {number + 1: make_word("root", number)}
        for rounds_done, root in ({0: make_start(rounds, solvers)} | made if number == 0 else made).items():
            held = {"rounds_done": rounds_done, "loss": 6 / (1 + rounds_done), "error": 0.02, "batches": 4}
            place = (SUBMITTER_SLOT, HELDOUT, rounds_done - number)
            index.put_report(TASK, number, Reported(*place, root, SUBMITTER, held), bytes(64))
        for slot in range(solvers):
            claim, mean = make_word("claim", number, slot), 5.0 / (1 + number) + slot / 5
            said = {"steps": 8, "first": mean + 0.5, "last": mean - 0.1, "mean": mean}
            account = make_address("SOLVER", slot)
            index.put_report(TASK, number, Reported(slot, LOSS, 0, claim, account, said), bytes(64))
            far = 0.0 if slot == 0 else 123.4 if slot == 1 else 0.031
            word, ends = "REJECT_STATE" if slot == 1 else "ACCEPT", "MEASURED" if slot else "EQUAL"
            apart = {"weights": far, "first_moment": far / 2, "second_moment": far / 4}
            compared = {"word": word, "ends": ends, **apart}
            index.put_report(TASK, number, Reported(slot, 0, 0, claim, "0x", compared), bytes(64))
    index.close()
