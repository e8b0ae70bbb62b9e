"""What is refused before money moves, by the key of the task file that it is about."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import rich.console

from node.submit import RoundPlan
from protocol.spec.errors import InvalidInput
from protocol.spec.game.terms import LIMITS_2S, LIMITS_12S, LIMITS_LOCAL
from scripts.checks import refuse_other_limits
from scripts.console import Console
from scripts.example import TASK_FILE
from scripts.task_creation import justify
from scripts.task_file import TaskFile, read_task_file
from tests.scripts.test_task_file import write


@pytest.fixture
def file(tmp_path: Path) -> TaskFile:
    return read_task_file(write(tmp_path, TASK_FILE.read_text()))


Change = Callable[[RoundPlan], RoundPlan]


def set_window(**changes: int) -> Change:
    return lambda plan: replace(plan, windows=replace(plan.windows, **changes))


def set_amount(**changes: int) -> Change:
    return lambda plan: replace(plan, amounts=replace(plan.amounts, **changes))


def make_console() -> tuple[Console, io.StringIO]:
    shown = io.StringIO()
    return Console(rich.console.Console(file=shown, width=400)), shown


def test_the_manuals_task_is_justified(file: TaskFile) -> None:
    console, shown = make_console()
    justify(file, LIMITS_LOCAL, console)
    for name in vars(file.plan.amounts):
        assert name in shown.getvalue()
    assert "C + gas of a round" in shown.getvalue() and "(wrong)" not in shown.getvalue()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (set_window(respond=3), "windows.respond"),
        (set_window(dispute=600), "windows.dispute"),
        (set_window(audit_max=6), "windows.audit_max"),
        (set_amount(ask_bond=0), "amounts.ask_bond"),
        (lambda plan: replace(plan, solver_seats=65), "solver_seats"),
        (lambda plan: replace(plan, draws=2), "least_verifiers"),
        (lambda plan: replace(plan, least_whistleblowers=2), "least_whistleblowers"),
        (lambda plan: replace(plan, inner_steps=0), "inner_steps"),
        (
            set_amount(solver_stake=2 * 10**18),
            "amounts.solver_stake",
        ),
        (
            set_amount(unserved_fee=10**18),
            "amounts.unserved_fee",
        ),
        (
            set_amount(dropped_fee=10**20),
            "amounts.dropped_fee",
        ),
    ],
)
def test_what_nodes_would_refuse_is_named(file: TaskFile, change: Change, key: str) -> None:
    broken = replace(file, plan=change(file.plan))
    with pytest.raises(InvalidInput) as refusal:
        justify(broken, LIMITS_LOCAL, make_console()[0])
    assert key in str(refusal.value.where).split(", ")


def test_the_limits_of_a_slow_chain_are_not_those_of_a_local_one(file: TaskFile) -> None:
    with pytest.raises(InvalidInput, match="preset 12s"):
        justify(file, LIMITS_12S, make_console()[0])


def test_contracts_that_forget_sooner_are_refused() -> None:
    refuse_other_limits(LIMITS_2S, LIMITS_2S)
    refuse_other_limits(replace(LIMITS_2S, seal_blocks=250), LIMITS_2S)
    with pytest.raises(InvalidInput, match="proof_seal_blocks >= 200"):
        refuse_other_limits(LIMITS_LOCAL, LIMITS_2S)
