"""What is assumed of the world, where something is stated and where nothing is."""

import io
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import rich.console

from node.submit import RoundPlan
from protocol.spec.errors import InvalidInput
from protocol.spec.game.terms import LIMITS_2S, LIMITS_12S, LIMITS_LOCAL, GameTerms
from protocol.spec.params import TOKEN_WEI
from scripts.console import Console
from scripts.example import TASK_FILE
from scripts.figures import find_strictest, read_figures, refuse_other_limits
from scripts.task_creation import justify
from scripts.task_file import TaskFile, read_task_file, sketch_terms
from tests.scripts.test_task_file import write

PATH = Path("config.toml")


@pytest.fixture
def terms(tmp_path: Path) -> GameTerms:
    return sketch_terms(read_task_file(write(tmp_path, TASK_FILE.read_text())).plan)


def test_what_is_not_stated_follows_from_the_task(terms: GameTerms) -> None:
    figures = read_figures({}, terms, PATH)
    assert (figures.cost, figures.gain) == (3 * TOKEN_WEI, 10 * TOKEN_WEI)
    assert (figures.refused_gain, figures.drift_gain) == (TOKEN_WEI, 0)
    assert figures.round_blocks == terms.windows.train_min and figures.owned == Fraction(1, 2)


def test_money_is_in_tokens_or_in_wei(terms: GameTerms) -> None:
    stated = {"compute_cost": "0.5", "outside_gain": 7, "voided_percent": 20, "detected_percent": 90}
    figures = read_figures(stated, terms, PATH)
    assert (figures.cost, figures.gain) == (TOKEN_WEI // 2, 7)
    assert (figures.voided_share, figures.detection) == (Fraction(1, 5), Fraction(9, 10))


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"colour": 1}, "economics.colour"),
        ({"gas_price": "1"}, "economics.gas_price"),
        ({"voided_percent": 100}, "economics.voided_percent"),
        ({"round_blocks": 0}, "economics.round_blocks"),
        ({"round_blocks": -(1 << 20_000)}, "economics.round_blocks"),
        (["compute_cost"], "economics"),
    ],
)
def test_a_wrong_key_is_named(terms: GameTerms, table: object, key: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_figures(table, terms, PATH)
    assert str(refusal.value.where) == f"config.toml, {key}"


def test_every_amount_is_shown_once_and_every_broken_rule(terms: GameTerms) -> None:
    figures = read_figures({}, terms, PATH)
    names = [rule.name for rule in find_strictest(terms, figures)]
    assert sorted(names) == sorted(vars(terms.amounts)), "all hold: the rule that asks most of each"
    cheap = replace(terms, amounts=replace(terms.amounts, solver_stake=TOKEN_WEI))
    broken = [rule for rule in find_strictest(cheap, figures) if not rule.holds]
    assert len(broken) > 1 and {rule.name for rule in broken} == {"solver_stake"}


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
