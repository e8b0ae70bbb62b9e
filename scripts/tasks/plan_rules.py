"""Checks a task file's plan against the rules of tasks, and names the file's keys."""

import re
from collections.abc import Iterator
from pathlib import Path

from touchstone.node.submit import RoundPlan, find_plan_malformations
from touchstone.protocol.spec.task_rules import Malformation
from touchstone.protocol.spec.task_spec import count_token_bytes
from touchstone.scripts.data.packed_dataset import PackedDataset, find_largest_token
from touchstone.scripts.tasks.toml_tables import malformed

RULE_KEYS = {
    "betas": "optimizer",
    "task_segments": "rounds",
    "token_count": "dataset",
    "dataset_too_large": "dataset",
}
"""Maps a rule of a task to the key of the task file, if their names differ."""
MAX_NUMBER = (1 << 32) - 1
MAX_SEED = MAX_TAU = (1 << 64) - 1
MAX_UNITS = (1 << 160) - 1


def refuse_bad_plan(path: Path, plan: RoundPlan, packed: PackedDataset) -> None:
    """Raises InvalidInput for the first number of a plan that no task can have, or that does not fit the
    dataset."""
    for key, value, holds, expected in _list_plan_rules(plan, packed):
        if not holds:
            raise malformed(path, key, expected, repr(value))
    for rule in find_plan_malformations(plan, packed.size_bytes):
        key, value = _find_key(plan, rule)
        raise malformed(path, key, rule.expected, repr(value))


def refuse_other_tokens(path: Path, packed: PackedDataset, vocabulary: int) -> None:
    """Raises InvalidInput if the dataset has a number outside the vocabulary."""
    is_full = vocabulary == 1 << 8 * packed.token_bytes
    largest = -1 if is_full else find_largest_token(packed)
    if largest >= vocabulary:
        raise malformed(
            path, "model.vocabulary_size", f"above {largest}, a token of the dataset", str(vocabulary)
        )


def _find_key(plan: RoundPlan, rule: Malformation) -> tuple[str, object]:
    """Returns the key that a rule is about, with its value in the plan; else the table with what was
    found."""
    if hasattr(plan, rule.name):
        return rule.name, rule.actual if rule.name == "limits" else getattr(plan, rule.name)
    if hasattr(plan.schedule, rule.name):
        return f"schedule.{rule.name}", getattr(plan.schedule, rule.name)
    return RULE_KEYS.get(rule.name, rule.name), rule.actual


PlanRule = tuple[str, object, bool, str]
"""(key, value, whether it holds, what is expected)"""


def _list_plan_rules(plan: RoundPlan, packed: PackedDataset) -> Iterator[PlanRule]:
    """Yields basic rules, and whether the plan fits the dataset; each rule comes after those that it
    needs."""
    yield "dataset", f"{packed.size_bytes} bytes", packed.size_bytes > 0, "a file with tokens"
    yield from _list_number_rules(plan)
    vocabulary, width = plan.vocabulary_size, packed.token_bytes
    is_wide = count_token_bytes(vocabulary) == width
    fitting = f"at most {1 << 8 * width}" + (f", above {1 << 4 * width}" if width > 1 else "")
    yield "model.vocabulary_size", vocabulary, is_wide, f"{fitting}: the dataset has {width} bytes a token"
    sha256 = plan.tokenizer_sha256
    is_made = packed.note is None or sha256 == packed.tokenizer_sha256
    expected = packed.tokenizer_sha256 or "no tokenizer: the tokens are bytes"
    yield "tokenizer_sha256", sha256, is_made, expected
    is_hex = re.fullmatch(r"([0-9a-f]{64})?", sha256) is not None
    yield "tokenizer_sha256", sha256, is_hex, "64 hexadecimal digits"
    divides = plan.inner_steps % plan.segment_steps == 0
    yield "segment_steps", plan.segment_steps, divides, f"a divisor of inner_steps, {plan.inner_steps}"
    # Each row has one token more than it predicts from, in training and held out.
    length = plan.sequence_tokens
    tokens, held = packed.size_bytes // width, plan.heldout_tokens
    most = tokens - length - 1
    fits = length < held <= most
    yield "heldout_tokens", held, fits, f"{length + 1} to {most} of the dataset's {tokens} tokens"
    steps, total = plan.rounds * plan.inner_steps, plan.schedule.total_steps
    yield "schedule.total_steps", total, total == steps, f"rounds * inner_steps, {steps}"


def _list_number_rules(plan: RoundPlan) -> Iterator[PlanRule]:
    """Yields the rules that each integer fits where it is stored, and each size is positive."""
    sizes = (
        "rounds", "inner_steps", "segment_steps", "sequences_per_step", "sequence_tokens", "draws",
        "solver_seats", "least_solvers", "least_verifiers",
    )  # fmt: skip
    tables = ("", plan), ("schedule.", plan.schedule), ("windows.", plan.windows)
    for where, table in tables:
        for name, value in vars(table).items():
            if isinstance(value, int):
                least = int(where == "windows." or name in sizes)
                most = MAX_SEED if name == "initial_seed" else MAX_NUMBER
                yield where + name, value, least <= value <= most, f"{least} to {most}"
    for name, value in vars(plan.limits).items():
        most = MAX_TAU if name.startswith("tau_") else MAX_UNITS
        yield f"limits.{name}", value, 0 <= value <= most, f"0 to {most}"
