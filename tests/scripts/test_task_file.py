"""The task file of the manual becomes a task that nodes accept; a wrong one is refused by the key."""

import re
import sys
import tomllib
from dataclasses import asdict, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tests.scripts.test_data_pack import make_tokenizer
from touchstone.node.submit import build_task
from touchstone.protocol.compute.batches import open_corpus
from touchstone.protocol.economics.money_rules import check_money
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, GAME_WINDOWS
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.training_codec import decode_training, encode_training
from touchstone.scripts.command_line.command_errors import render_error
from touchstone.scripts.command_line.typed_amounts import parse_tokens
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.data.packed_dataset import DatasetNote
from touchstone.scripts.tasks.task_creation import refuse_other_root
from touchstone.scripts.tasks.task_example import TASK_FILE
from touchstone.scripts.tasks.task_file import read_task_file, sketch_terms
from touchstone.scripts.tasks.task_sizes import compute_disk_bytes


@pytest.fixture
def example() -> str:
    return TASK_FILE.read_text()


def write(folder: Path, text: str) -> Path:
    (folder / "corpus.bin").write_bytes(bytes(range(256)) * 1000)
    (folder / "task.toml").write_text(text)
    return folder / "task.toml"


def test_the_example_of_the_manual_is_a_task(tmp_path: Path, example: str) -> None:
    file = read_task_file(write(tmp_path, example))
    terms = sketch_terms(file.plan)
    assert check_terms(terms, BOUNDS_LOCAL) is None
    assert all(rule.holds for rule in check_money(terms, file.figures) if not rule.is_advice)
    assert file.plan.outer_learning_rate == nearest(0.7)
    assert file.plan.limits.tau_m == pytest.approx(1.9e-4 * 2**64)
    assert file.plan.limits.tau_r == pytest.approx(1.2e-7 * 2**64)
    posted, training = build_task(file.plan, file.dataset.read_bytes(), "0x" + 40 * "1", bytes(32))
    assert training.token_count == 156_000 and posted.amounts == file.plan.amounts


def test_windows_come_from_the_preset(tmp_path: Path, example: str) -> None:
    start, end = example.index("[windows]"), example.index("[limits]")
    bare = example[:start] + example[end:]
    for name, windows in GAME_WINDOWS.items():
        text = bare.replace('preset = "local"', f'preset = "{name}"')
        assert read_task_file(write(tmp_path, text)).plan.windows == windows


@pytest.mark.parametrize(("named", "meant"), [("exact", "exact15"), ("exact20", "exact20")])
def test_an_exact_task_needs_no_limits(tmp_path: Path, example: str, named: str, meant: str) -> None:
    bare = f'numeric_format = "{named}"\n' + example[: example.index("[limits]")]
    plan = read_task_file(write(tmp_path, bare)).plan
    assert plan.numeric_format == meant and sketch_terms(plan).is_exact
    assert not any(vars(plan.limits).values())


@pytest.mark.parametrize("stated", ['"exact8"', '"Exact"', '"exact16"', '""', "15", '["exact"]'])
def test_a_format_that_is_not_offered_is_named_before_limits_are_asked_for(
    tmp_path: Path, example: str, stated: str
) -> None:
    bare = f"numeric_format = {stated}\n" + example[: example.index("[limits]")]
    with pytest.raises(InvalidInput, match="numeric_format: expected one of .*, exact20, exact,"):
        read_task_file(write(tmp_path, bare))


def test_a_task_without_limits_is_told_of_the_format_that_needs_none(tmp_path: Path, example: str) -> None:
    path = write(tmp_path, example[: example.index("[limits]")])
    with pytest.raises(InvalidInput, match='numeric_format = "exact", which needs none, got the key is'):
        read_task_file(path)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('preset = "local"', 'preset = "moon"', "preset"),
        ('"corpus.bin"', '"missing.bin"', "dataset"),
        ('preset = "local"', 'preset = "12s"', "windows.dispute"),
        ('preset = "local"', 'preset = "2s"', "1800 or more, the least of preset 2s"),
        ('solver_pay = "10"', 'solver_pay = "1"', "amounts.solver_pay"),
        ("rounds = 4\n", "", "rounds"),
        ("rounds = 4", 'rounds = "4"', "rounds"),
        ("rounds = 4", "rounds = true", "rounds"),
        ("rounds = 4", "rounds = 4\ncolour = 1", "colour"),
        ("hidden_size = 128\n", "", "model.hidden_size"),
        ("hidden_size = 128", "hidden_size = 128\nwidth = 3", "model.width"),
        ("\nwarmup_steps = 8 ", "\nwarmup_steps = 2.5 ", "schedule.warmup_steps"),
        ('solver_pay = "10"', 'solver_pay = "many"', "amount"),
        ("train_min = 640", "train_least = 640", "windows.train_least"),
        ("draws = 1", "draw = 1", "draw"),
        ("inner_steps = 40", "inner_steps = 0", "inner_steps"),
        ("tau_m = 1.9e-4", "tau_m = inf", "limits.tau_m"),
        ("[model]", "[modl]", "model"),
        ("rounds = 4", "rounds = = 4", "TOML"),
        ('amounts = "derived"', 'amounts = "guessed"', "economics.amounts"),
        ('amounts = "derived"', 'amounts = "given"', "amounts.solver_stake"),
        ('solver_pay = "10" ', 'solver_pay = "10"\naudit_pay = "1" ', "amounts.audit_pay"),
        ("gas_price = 100_000_000_000", 'gas_price = "1"', "economics.gas_price"),
        ("owned_percent = 50", "owned_percent = 100", "economics.owned_percent"),
        ("owned_percent = 50", "owned = 50", "economics.owned"),
        ("owned_percent = 50", "owned_percent = 150", "economics.owned_percent"),
        ("gas_price = 100_000_000_000", "gas_price = -1", "economics.gas_price"),
        ("segment_steps = 10", "segment_steps = 0", "segment_steps"),
        ("segment_steps = 10", "segment_steps = 7", "a divisor of inner_steps, 40"),
        ("rounds = 4", "rounds = -4", "rounds"),
        ("rounds = 4", 'rounds = 4\nnumeric_format = "fp8"', "numeric_format"),
        ("sequence_tokens = 128", "sequence_tokens = 256", "sequence_tokens: expected 1 .. 128"),
        ("heldout_tokens = 100000", "heldout_tokens = 100000000", "heldout_tokens"),
        ("heldout_tokens = 100000", "heldout_tokens = -1", "heldout_tokens"),
        ("total_steps = 160", "total_steps = 10", "schedule.total_steps"),
        ("tau_m = 1.9e-4", "tau_m = -1.9e-4", "limits.tau_m"),
        ("tau_m = 1.9e-4", 'tau_m = "1.9e-4"', "a number such as 1.9e-4"),
        ('solver_pay = "10"', 'solver_pay = "ten"', "amounts.solver_pay"),
        ('solver_pay = "10"', "", "amounts.solver_pay"),
        ("rounds = 4", "rounds = 4\ncolor = 1", "dataset"),
        ("segment_steps = 10", "segment_steps = 40", "segment_steps"),
        ("\nleast_solvers = 1", "\nleast_solvers = 0", "least_solvers"),
        ("outer_momentum = 0.6", "outer_momentum = nan", "outer_momentum"),
        ("outer_learning_rate = 0.7", "outer_learning_rate = -1", "outer_learning_rate"),
        ("carry_moments = 0", "carry_moments = -1", "carry_moments"),
        ("initial_seed = 1", "initial_seed = -1", "initial_seed"),
        ("sequences_per_step = 8", "sequences_per_step = 4294967296", "sequences_per_step"),
        ("\nhead_count = 4", "\nhead_count = 0", "model.head_count"),
        ("\nhead_count = 4", "\nhead_count = 3", "model.head_count"),
        ("layer_count = 4", "layer_count = 1000000000", "model"),
        ("peak_learning_rate = 0.002", "peak_learning_rate = 2", "schedule.peak_learning_rate"),
        ("total_steps = 160", "total_steps = 200", "schedule.total_steps"),
        ("tau_m = 1.9e-4", "tau_m = 1", "limits"),
        ("tau_m = 1.9e-4", "tau_m = 1e30", "limits.tau_m"),
        ("vocabulary_size = 256", "vocabulary_size = 300", "model.vocabulary_size"),
        ("vocabulary_size = 256", "vocabulary_size = 100", "above 255, a token of the dataset"),
        ("[schedule]", "[optimizer]\nbeta1 = 1\n[schedule]", "optimizer.beta1: expected in"),
        ("[model]", "[model]\nnorm_epsilon = 1e-50", "model.norm_epsilon: expected at least"),
        ('dataset = "corpus.bin"', "", "dataset: .* the key is missing"),
        ("[schedule]", "[optimizer]\nclip_norm = 0\n[schedule]", "optimizer.clip_norm"),
        ("[economics]", "[[economics]]", "economics"),
        ("owned_percent = 50", "owned_percent = 99", "economics"),
        ("owned_percent = 50", "owned_percent = 50\nround_blocks = 0", "economics.round_blocks"),
        ("owned_percent = 50", "owned_percent = 50\ndetected_percent = 0", "economics.detected_percent"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(
    tmp_path: Path, example: str, old: str, new: str, key: str
) -> None:
    assert old in example
    path = write(tmp_path, example.replace(old, new, 1))
    with pytest.raises(InvalidInput, match=key) as error:
        read_task_file(path)
    assert str(path) in error.value.where + error.value.remedy, "the author is told where to correct it"
    assert "stake" not in error.value.remedy


@pytest.mark.parametrize(
    ("old", "new", "nearest"),
    [
        ("rounds = 4", "round = 4", "rounds"),
        ("peak_learning_rate", "peek_learning_rate", "peak_learning_rate"),
        ("owned_percent", "own_percent", "owned_percent"),
    ],
)
def test_an_unknown_key_is_told_the_nearest(
    tmp_path: Path, example: str, old: str, new: str, nearest: str
) -> None:
    assert old in example
    with pytest.raises(InvalidInput) as error:
        read_task_file(write(tmp_path, example.replace(old, new, 1)))
    assert str(error.value.expected).endswith(f"; the nearest is {nearest}")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"corpus.bin"', f'"{"x" * 300}"', "dataset"),
        ('"corpus.bin"', f'"{"x" * 5000}"', "dataset"),
        ('solver_pay = "10"', f'solver_pay = "{"1" * 4000}"', "amounts.solver_pay"),
        ('solver_pay = "10"', f'solver_pay = "{"1" * 5000}"', "amounts.solver_pay"),
        ('preset = "local"', f'preset = "{"x" * 5000}"', "preset"),
        ("rounds = 4", f"rounds = 0x{'f' * 5000}", "rounds"),
        ("owned_percent = 50", f"owned_percent = 0x{'f' * 5000}", "economics.owned_percent"),
        ("owned_percent = 50", f"owned_percent{'.a' * 5000} = 50", "economics.owned_percent.a.a"),
        ("rounds = 4", f"rounds = {'[' * 90}{']' * 90}", "rounds"),
    ],
)
def test_what_is_far_too_long_is_refused_by_its_key_in_a_few_words(
    tmp_path: Path, example: str, old: str, new: str, key: str
) -> None:
    """The system takes no such name, and Python shows no integer of so many digits."""
    path = write(tmp_path, example.replace(old, new, 1))
    with pytest.raises(InvalidInput) as error:
        read_task_file(path)
    assert error.value.where == f"{path}, {key}"
    assert len(render_error(error.value).splitlines()) == 4 and len(str(error.value.actual)) < 100


def test_a_file_that_python_cannot_read_to_its_depth_is_malformed(tmp_path: Path) -> None:
    path, limit = write(tmp_path, f"rounds = {'[' * 900}{']' * 900}"), sys.getrecursionlimit()
    sys.setrecursionlimit(900)
    try:
        with pytest.raises(InvalidInput, match="RecursionError"):
            read_task_file(path)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    ("old", "new", "expected", "actual"),
    [
        ("rounds = 4\n", "", "an integer", "the key is missing"),
        ('solver_pay = "10"', "", "the pay of a round", "the key is missing"),
        ("\ndraws = 1", "\ndraws = 0", "1 to 4294967295", "0"),
        ("\ndraws = 1", "\ndraws = -1", "1 to 4294967295", "-1"),
        ("\nsolver_seats = 4", "\nsolver_seats = -1", "1 to 4294967295", "-1"),
        ("\nlate_chance = 32768", "\nlate_chance = 70000", "late_chance <= 65536", "70000"),
        ("train_min = 640", "train_min = -1", "1 to 4294967295", "-1"),
    ],
)
def test_a_wrong_number_and_a_missing_key_are_told_so(
    tmp_path: Path, example: str, old: str, new: str, expected: str, actual: str
) -> None:
    assert old in example
    with pytest.raises(InvalidInput) as error:
        read_task_file(write(tmp_path, example.replace(old, new, 1)))
    assert (error.value.expected, str(error.value.actual)) == (expected, actual)
    assert "Amount" not in error.value.what


def test_given_amounts_are_all_or_derived(tmp_path: Path, example: str) -> None:
    given = example.replace('amounts = "derived"', 'amounts = "given"')
    start, end = given.index("[amounts]"), given.index("[economics]")
    for text in (given, given[:start] + given[end:]):
        path = write(tmp_path, text)
        with pytest.raises(InvalidInput, match="the key is missing") as error:
            read_task_file(path)
        assert error.value.where == f"{path}, amounts.solver_stake"
        assert error.value.expected == 'all eleven amounts, or economics.amounts = "derived"'


def test_amounts_are_checked_against_what_the_file_states(tmp_path: Path, example: str) -> None:
    stated = read_task_file(write(tmp_path, example)).figures
    start, end = example.index("compute_cost"), example.index("[windows]")
    assumed = read_task_file(write(tmp_path, example[:start] + example[end:])).figures
    assert stated == assumed, "the manual states what is assumed where nothing is stated"
    dear = example.replace('compute_cost = "3"', 'compute_cost = "4.5"').replace(
        "percent = 50", "percent = 25"
    )
    other = read_task_file(write(tmp_path, dear)).figures
    assert (other.cost, other.owned) == (9 * TOKEN_WEI // 2, Fraction(1, 4))
    assert other.round_blocks == 640 and other.gas.vote == (190_000 + 12 * 1_100) * 10**11


def test_derived_amounts_can_be_given_and_are_the_same(tmp_path: Path, example: str) -> None:
    derived = read_task_file(write(tmp_path, example)).plan.amounts
    lines = "\n".join(f"{name} = {wei}" for name, wei in asdict(derived).items())
    start, end = example.index('solver_pay = "10"'), example.index("[economics]")
    given = f"{example[:start]}{lines}\n{example[end:]}".replace('amounts = "derived"', 'amounts = "given"')
    assert tomllib.loads(given)["economics"]["amounts"] == "given"
    assert read_task_file(write(tmp_path, given)).plan.amounts == derived
    assert derived.solver_pay == 10 * TOKEN_WEI


def test_the_pay_is_the_submitters_own_and_is_never_raised_for_it(tmp_path: Path, example: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_task_file(write(tmp_path, example.replace('solver_pay = "10"', 'solver_pay = "1"')))
    least = re.fullmatch(r"at least (\S+) tokens", str(refused.value.expected))
    assert least is not None and refused.value.actual == "1 tokens"
    for pay in (least[1], f"{least[1]}5"):
        text = example.replace('solver_pay = "10"', f'solver_pay = "{pay}"')
        assert read_task_file(write(tmp_path, text)).plan.amounts.solver_pay == parse_tokens(pay)
    below = Decimal(least[1]) - Decimal("0.001")
    with pytest.raises(InvalidInput):
        read_task_file(write(tmp_path, example.replace('solver_pay = "10"', f'solver_pay = "{below}"')))


def test_the_least_pay_that_is_told_is_enough_where_costs_follow_from_it(
    tmp_path: Path, example: str
) -> None:
    """Without compute_cost a larger pay states a larger cost."""
    text = re.sub(r"(?m)^compute_cost.*\n", "", example)
    with pytest.raises(InvalidInput) as refused:
        read_task_file(write(tmp_path, text.replace('solver_pay = "10"', 'solver_pay = "0.05"')))
    least = str(refused.value.expected).split()[2]
    text = text.replace('solver_pay = "10"', f'solver_pay = "{least}"')
    assert read_task_file(write(tmp_path, text)).plan.amounts.solver_pay == parse_tokens(least)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"task\.toml.*no such file"):
        read_task_file(tmp_path / "task.toml")


def test_an_empty_dataset_and_a_missing_table_are_said_by_name(tmp_path: Path, example: str) -> None:
    path = write(tmp_path, example)
    (tmp_path / "corpus.bin").write_bytes(b"")
    with pytest.raises(InvalidInput, match="a file with tokens"):
        read_task_file(path)
    start, end = example.index("[model]"), example.index("[schedule]")
    with pytest.raises(InvalidInput, match="a table with step, or the sizes of a decoder"):
        read_task_file(write(tmp_path, example[:start] + example[end:]))


def test_disk_counts_what_is_whole_and_a_start_of_each_that_can_be_asked_about(
    tmp_path: Path, example: str
) -> None:
    terms, count = sketch_terms(read_task_file(write(tmp_path, example)).plan), 1_000_000
    whole = (2 + 3) * (40 // 10 + 1) * 12 * count
    """Two rounds and three guesses of the next one."""
    assert 1000 + whole < compute_disk_bytes(terms, count, 1000) < 2 * whole
    many, more, one = (replace(terms, rounds=rounds) for rounds in (1_000, 2_000, 1))
    asked, contested = 1 + 17, 1 + 5
    """Of 640 blocks each in 2 * 480 + 9,600 and in 3,000 blocks."""
    older = asked * (12 + 65 / 64) + contested * (4 + 4 * 65 / 64)
    assert compute_disk_bytes(many, count, 0) == compute_disk_bytes(more, count, 0) == whole + older * count
    assert compute_disk_bytes(one, count, 0) < whole


# Packed datasets
def pack_words(folder: Path) -> DatasetNote:
    """The folder `packed`, of two bytes a token."""
    (folder / "words.txt").write_text("the quick ing er ly ed " * 20_000)
    tokenizer = make_tokenizer(folder / "tokenizer.json")
    return pack(PackPlan([folder / "words.txt"], folder / "packed", tokenizer=tokenizer, heldout=0.2))


def test_a_packed_folder_says_what_the_file_leaves_out(tmp_path: Path, example: str) -> None:
    note = pack_words(tmp_path)
    text = example.replace('"corpus.bin"', '"packed"').replace("vocabulary_size = 256\n", "")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("heldout_tokens"))
    file = read_task_file(write(tmp_path, text))
    assert file.plan.heldout_tokens == note.heldout_tokens
    assert file.plan.vocabulary_size == note.vocabulary_size == 312
    assert file.plan.tokenizer_sha256 == note.tokenizer_sha256
    data = file.dataset.read_bytes()
    posted, training = build_task(file.plan, data, "0x" + 40 * "1", bytes(32))
    assert training.dataset_root.hex() == note.root and training.token_bytes == 2
    assert (training.token_count, training.heldout_tokens) == (note.token_count, note.heldout_tokens)
    assert training.tokenizer_sha256.hex() == note.tokenizer_sha256
    assert decode_training(encode_training(training)) == training
    open_corpus(data, training)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("vocabulary_size = 256", "vocabulary_size = 256", "model.vocabulary_size"),
        ("vocabulary_size = 256", "vocabulary_size = 70_000", "model.vocabulary_size"),
        ("vocabulary_size = 256", "vocabulary_size = 257", "above [0-9]+, a token of the dataset"),
        ("rounds = 4", 'rounds = 4\ntokenizer_sha256 = "00"', "tokenizer_sha256"),
    ],
)
def test_a_plan_that_does_not_fit_the_packed_tokens_is_refused_by_its_key(
    tmp_path: Path, example: str, old: str, new: str, key: str
) -> None:
    pack_words(tmp_path)
    text = example.replace('"corpus.bin"', '"packed"').replace(old, new)
    if "tokenizer_sha256" in new:
        text = text.replace("vocabulary_size = 256\n", "")
    with pytest.raises(InvalidInput, match=key):
        read_task_file(write(tmp_path, text))


def test_other_tokens_than_were_packed_are_not_posted(tmp_path: Path, example: str) -> None:
    note = pack_words(tmp_path)
    text = example.replace('"corpus.bin"', '"packed"').replace("vocabulary_size = 256\n", "")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("heldout_tokens"))
    file = read_task_file(write(tmp_path, text))
    refuse_other_root(file, bytes.fromhex(note.root))
    with pytest.raises(InvalidInput, match="not those that were packed"):
        refuse_other_root(file, bytes(32))
