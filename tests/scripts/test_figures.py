"""What is assumed of the world, where something is stated and where nothing is."""

import io
import tomllib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import rich.console
from eth_account import Account

from tests.protocol.spec.profiles import make_profile
from tests.scripts.network import fail
from tests.scripts.schemas import check
from tests.scripts.test_task_file import write
from touchstone.node.submit import RoundPlan
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.signed_profiles import write_profile
from touchstone.protocol.spec.calibration_profile import Profile
from touchstone.protocol.spec.calibration_rules import merge_profiles
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS_2S, BOUNDS_12S, BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.calibration.limit_policy import write_policy
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.tasks.figures import read_figures
from touchstone.scripts.tasks.task_creation import justify
from touchstone.scripts.tasks.task_example import TASK_FILE
from touchstone.scripts.tasks.task_file import TaskFile, read_task_file, sketch_terms
from touchstone.scripts.tasks.terms_checks import find_strictest, refuse_other_bounds
from touchstone.scripts.tasks.toml_tables import build_container

PATH = Path("config.toml")


@pytest.fixture
def terms(tmp_path: Path) -> GameTerms:
    return sketch_terms(read_task_file(write(tmp_path, TASK_FILE.read_text())).plan)


def test_what_is_not_stated_follows_from_the_task(terms: GameTerms) -> None:
    figures = read_figures({}, terms, PATH)
    assert (figures.cost, figures.gain) == (3 * TOKEN_WEI, 10 * TOKEN_WEI)
    assert (figures.withholding_gain, figures.drift_gain) == (TOKEN_WEI, 0)
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
    justify(file, BOUNDS_LOCAL, console)
    for name in vars(file.plan.amounts):
        assert name in shown.getvalue()
    assert "C + gas of a round" in shown.getvalue() and "(wrong)" not in shown.getvalue()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (set_window(respond=3), "windows.respond"),
        (set_window(dispute=600), "windows.dispute"),
        (set_window(audit_max=6), "windows.audit_max"),
        (set_amount(query_bond=0), "amounts.query_bond"),
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
        justify(broken, BOUNDS_LOCAL, make_console()[0])
    assert key in str(refusal.value.where).split(", ")


def test_the_limits_of_a_slow_chain_are_not_those_of_a_local_one(file: TaskFile) -> None:
    with pytest.raises(InvalidInput, match="preset 12s"):
        justify(file, BOUNDS_12S, make_console()[0])


def test_contracts_that_forget_sooner_are_refused() -> None:
    refuse_other_bounds(BOUNDS_2S, BOUNDS_2S)
    refuse_other_bounds(replace(BOUNDS_2S, header_blocks=250), BOUNDS_2S)
    with pytest.raises(InvalidInput, match="proof_commit_blocks >= 200"):
        refuse_other_bounds(BOUNDS_LOCAL, BOUNDS_2S)


def write_three(folder: Path, **changes: object) -> tuple[list[Path], list[Profile]]:
    paths, profiles = [], []
    for number in (1, 2, 3):
        key = AccountKey(Account.from_key(bytes(31) + bytes([number])))
        change = changes if number == 3 else {}
        profiles.append(make_profile(number, operator=key.address.lower(), **change))
        paths.append(folder / f"{number}.json")
        write_profile(paths[-1], profiles[-1], key)
    return paths, profiles


def test_policy_writes_the_tables_of_a_task_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, profiles = write_three(tmp_path)
    found = check("policy", write_policy(paths, tmp_path / "limits.toml"))
    text = (tmp_path / "limits.toml").read_text()
    assert text == capsys.readouterr().out and all(p.operator in text for p in profiles)
    tables, merged = tomllib.loads(text), merge_profiles(profiles)
    assert set(tables) == {"limits"}
    assert {name: int(value) for name, value in found["limits"].items()} == tables["limits"]
    assert build_container(Limits, tables["limits"], tmp_path) == merged


def test_policy_refuses_in_four_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, profiles = write_three(tmp_path, subject=replace(make_profile().subject, segment_steps=5))
    lines = fail(capsys, "policy", *map(str, paths))
    assert "profiles of different tasks" in lines[0] and profiles[2].operator in lines[0]


def test_policy_wants_every_signature(tmp_path: Path) -> None:
    paths, _ = write_three(tmp_path)
    paths[1].write_text(paths[1].read_text().replace('"segments":32', '"segments":33'))
    with pytest.raises(InvalidInput, match="the signature of"):
        write_policy(paths, None)
