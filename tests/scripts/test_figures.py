"""What is assumed of the world, where something is stated and where nothing is."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from protocol.spec.errors import InvalidInput
from protocol.spec.game.terms import GameTerms
from protocol.spec.params import TOKEN_WEI
from scripts.example import TASK_FILE
from scripts.figures import find_strictest, read_figures
from scripts.task_file import read_task_file, sketch_terms
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
