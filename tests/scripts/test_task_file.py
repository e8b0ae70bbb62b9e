"""The task file of the manual becomes a task that nodes accept; a wrong one is refused by the key."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from node.submit import build_spec
from protocol.spec.economics import assume_figures, read_sampling, refuse_paying_cheats
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from protocol.spec.params import DEVNET, TOKEN_WEI
from scripts.task_file import compute_disk_bytes, read_task_file
from tests.e2e.pace import LEAST_FACTOR, widen
from tests.e2e.plan import WINDOWS

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "task.toml"


@pytest.fixture
def example() -> str:
    return MANUAL.read_text()


def write(folder: Path, text: str) -> Path:
    (folder / "corpus.bin").write_bytes(bytes(range(256)) * 1000)
    (folder / "task.toml").write_text(text)
    return folder / "task.toml"


def test_the_example_of_the_manual_is_a_task(tmp_path: Path, example: str) -> None:
    file = read_task_file(write(tmp_path, example))
    assert file.plan.windows == replace(widen(WINDOWS, LEAST_FACTOR), enrol=600), "those of the demo"
    assert file.plan.amounts == DEVNET.amounts
    assert file.plan.outer_learning_rate == nearest(0.7)
    assert file.plan.accept.tau_m == pytest.approx(7.6e-5 * 2**64)
    assert file.plan.accept.tau_r == pytest.approx(1.2e-7 * 2**64)
    # Small enough to be built here; the rules that nodes apply are the same.
    model = replace(file.plan.model, hidden_size=16, intermediate_size=32, layer_count=1)
    spec = build_spec(replace(file.plan, model=model), file.dataset.read_bytes(), "0x" + 40 * "1", bytes(32))
    assert spec.training.token_count == 156_000


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('preset = "devnet"', 'preset = "moon"', "preset"),
        ('"corpus.bin"', '"missing.bin"', "dataset"),
        ("rounds = 4\n", "", "rounds"),
        ("rounds = 4", 'rounds = "4"', "rounds"),
        ("rounds = 4", "rounds = true", "rounds"),
        ("rounds = 4", "rounds = 4\ncolour = 1", "colour"),
        ("hidden_size = 128\n", "", "model.hidden_size"),
        ("hidden_size = 128", "hidden_size = 128\nwidth = 3", "model.width"),
        ("\nwarmup_steps = 40", "\nwarmup_steps = 2.5", "schedule.warmup_steps"),
        ('solver_pay = "10"', 'solver_pay = "many"', "amount"),
        ("enrol = 600", "enroll = 600", "windows.enroll"),
        ("tau_m = 7.6e-5", "tau_m = inf", "accept.tau_m"),
        ("[model]", "[modl]", "model"),
        ("rounds = 4", "rounds = = 4", "TOML"),
        ('amounts = "given"', 'amounts = "guessed"', "economics.amounts"),
        ("gas_price = 100_000_000_000", 'gas_price = "1"', "economics.gas_price"),
        ("owned_percent = 50", "owned_percent = 100", "figures"),
        ("grinding_choices = 1", "choices = 1", "economics.choices"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, example: str, old: str, new: str, key: str) -> None:
    assert old in example
    with pytest.raises(InvalidInput, match=key):
        read_task_file(write(tmp_path, example.replace(old, new, 1)))


def test_amounts_are_checked_against_what_the_file_states(tmp_path: Path, example: str) -> None:
    figures = read_task_file(write(tmp_path, example)).figures
    stated = 'compute_cost = "3"', 'outside_gain = "10"', "owned_percent = 50", "grinding_choices = 1"
    assert all(line in example for line in stated)
    assert figures == assume_figures(10 * TOKEN_WEI)
    dear = example.replace('compute_cost = "3"', 'compute_cost = "4.5"').replace(
        "percent = 50", "percent = 25"
    )
    other = read_task_file(write(tmp_path, dear)).figures
    assert (other.cost_wei, other.owned) == (9 * TOKEN_WEI // 2, Fraction(1, 4))
    # Without the table the usual figures are assumed, in proportion to the pay.
    start, end = example.index("[economics]"), example.index("[windows]")
    bare = (example[:start] + example[end:]).replace('solver_pay = "10"', 'solver_pay = "20"')
    assert read_task_file(write(tmp_path, bare)).figures == assume_figures(20 * TOKEN_WEI)


def test_amounts_can_be_derived(tmp_path: Path, example: str) -> None:
    text = example.replace('amounts = "given"', 'amounts = "derived"').replace('"10"', '"12"')
    file = read_task_file(write(tmp_path, text))
    assert file.plan.amounts != DEVNET.amounts and file.plan.amounts.solver_pay == 12 * TOKEN_WEI
    refuse_paying_cheats(file.plan.amounts, read_sampling(file.plan), file.figures)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="task.toml"):
        read_task_file(tmp_path / "task.toml")


def test_disk_counts_every_state_of_every_round(tmp_path: Path, example: str) -> None:
    file = read_task_file(write(tmp_path, example))
    model = replace(file.plan.model, hidden_size=16, intermediate_size=32, layer_count=1)
    terms = build_spec(
        replace(file.plan, model=model), file.dataset.read_bytes(), "0x" + 40 * "1", bytes(32)
    ).terms
    states = 4 * (40 // 10 + 1) * 12 * terms.parameter_count
    assert states < compute_disk_bytes(terms, 1000) < 1.2 * states
