"""Checks the answers of `touchstone task init`. An error names options, and what to change in them.

The task file is read as posting reads it. Its errors name keys that the operator has not written, in a file
that is not there any more, so they are told anew.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import GAME_WINDOWS
from touchstone.protocol.spec.params import MAX_TASK_SEGMENTS
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.command_line.typed_amounts import parse_tokens
from touchstone.scripts.data.packed_dataset import PackedDataset

Answers = Mapping[str, str]
"""Answers by option."""
MAX_ROUND_DIGITS, SHOWN = 9, 80
HELDOUT_ROWS = 10
"""The least rows that are held out of a dataset whose note does not say how many tokens are."""
DATASET, SIZE, STEP, ROUNDS, PAY, PRESET = "dataset", "size", "step", "rounds", "pay", "preset"
BLAMED: dict[str, tuple[str, ...]] = {
    "dataset": (DATASET,), "tokenizer_sha256": (DATASET,), "heldout_tokens": (DATASET, SIZE),
    "model.vocabulary_size": (DATASET, SIZE), "rounds": (ROUNDS,), "inner_steps": (ROUNDS,),
    "schedule": (ROUNDS,), "amounts": (PAY,), "economics": (PAY,), "preset": (PRESET,),
    "windows": (PRESET, SIZE),
}  # fmt: skip
"""The options that decide a key of the task file, by the key or its table. All other keys follow from the
size, or from the recorded step."""
BOUND = re.compile(r"(\w+) ([<>]=) (\d+)")


def check_answers(answers: Answers, segments: int) -> None:
    """Raises InvalidInput for the first of rounds, preset and pay that no task has. `segments` are those of a
    round."""
    rounds, most = answers[ROUNDS], MAX_TASK_SEGMENTS // segments
    is_number = rounds.isascii() and rounds.isdecimal() and len(rounds) <= MAX_ROUND_DIGITS
    if not is_number or not 1 <= int(rounds) <= most:
        raise InvalidInput(
            what="not a number of rounds",
            expected=f"1 to {most}",
            actual=rounds[:SHOWN],
            where=f"--{ROUNDS} {rounds[:SHOWN]}",
            remedy="Correct it.",
        )
    if answers[PRESET] not in GAME_WINDOWS:
        raise InvalidInput(
            what="not a preset",
            expected=" or ".join(GAME_WINDOWS),
            actual=answers[PRESET][:SHOWN],
            remedy=f"Correct --{PRESET}.",
        )
    try:
        parse_tokens(answers[PAY])
    except InvalidInput as refusal:
        raise InvalidInput(
            what=refusal.what,
            expected=refusal.expected,
            actual=refusal.actual,
            where=f"--{PAY}",
            remedy=refusal.remedy,
        ) from refusal


def check_length(packed: PackedDataset, row: int, answers: Answers, step: Path | None) -> None:
    """Raises InvalidInput if a dataset has too few tokens for a row to train on and rows to hold out. `row`
    is the number of tokens in a row."""
    tokens = packed.size_bytes // packed.token_bytes
    held = HELDOUT_ROWS * row if is_heldout_missing(packed, row) else _count_heldout(packed)
    if tokens > held + row:
        return
    other = "or a smaller --size" if step is None else "or record the step with shorter rows"
    raise InvalidInput(
        what=f"the dataset is too short for rows of {row} tokens",
        expected=f"{held + row + 1:,} tokens or more",
        actual=f"{tokens:,} tokens",
        where=_name_options((DATASET, SIZE), answers, step),
        remedy=f"Give more text, {other}.",
    )


def is_heldout_missing(packed: PackedDataset, row: int) -> bool:
    """Returns whether a dataset does not hold out a whole row by itself."""
    return _count_heldout(packed) <= row


def _count_heldout(packed: PackedDataset) -> int:
    return 0 if packed.note is None else packed.note.heldout_tokens


def blame_answers(refusal: InvalidInput, file: Path, answers: Answers, step: Path | None) -> InvalidInput:
    """Returns the refusal of a task file as one of the answers that it was written from; unchanged if it is
    about neither the file nor one of its keys. `step` is the folder of a recorded step, if there is one."""
    key = str(refusal.where).removeprefix(str(file)).removeprefix(", ")
    options = BLAMED.get(key, BLAMED.get(key.partition(".")[0]))
    if options is None and not str(refusal.where).startswith(str(file)):
        return refusal
    options = options or (SIZE,)
    expected, actual = (str(one).replace(f"{file}", "the file") for one in (refusal.expected, refusal.actual))
    remedy = "Change one of these." if len(options) > 1 else "Change it."
    if options == (PAY,):
        remedy = "Give more pay."
    if options == (PAY,) and (bound := BOUND.fullmatch(expected)) and actual.isdecimal():
        name, sign, wei = bound.groups()
        is_most, actual = sign == "<=", format_tokens(int(actual))
        least = "at most" if is_most else "at least"
        expected = f"a {name.replace('_', ' ')} of {least} {format_tokens(int(wei))}"
        remedy = "Give less pay." if is_most else remedy
    return InvalidInput(
        what="these answers make no task",
        expected=expected,
        actual=actual,
        where=_name_options(options, answers, step),
        remedy=remedy,
    )


def _name_options(options: tuple[str, ...], answers: Answers, step: Path | None) -> str:
    """Returns options with their answers, the recorded step in the place of the size."""
    named = [
        (STEP, str(step)) if one == SIZE and step is not None else (one, answers[one]) for one in options
    ]
    return ", ".join(f"--{name} {value[:SHOWN]}" for name, value in named)
