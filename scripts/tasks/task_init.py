"""`touchstone task init`: writes a task file from answers.

Known values are not asked for: vocabulary, held-out tokens and tokenizer come from the dataset, the shape of
a recorded step from its folder. Each question has an option, so that the command also runs without a
terminal.
"""

import json
import os.path
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from touchstone.protocol.adapters.files.durable_files import naming
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.logged_terms import count_contest_levels
from touchstone.protocol.spec.game.presets import BOUNDS, GAME_WINDOWS
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_spec import count_token_bytes
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.typed_input import read_path
from touchstone.scripts.data.packed_dataset import PackedDataset, open_dataset
from touchstone.scripts.documents.posting_documents import TaskInitDocument
from touchstone.scripts.tasks.answer_checks import (
    HELDOUT_ROWS,
    blame_answers,
    check_answers,
    check_length,
    is_heldout_missing,
)
from touchstone.scripts.tasks.decoder_table import count_parameters
from touchstone.scripts.tasks.task_file import TaskFile, read_task_file, sketch_terms
from touchstone.scripts.tasks.terms_checks import refuse_bad_terms
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.step_folder import load_step

INNER_STEPS, SEGMENT_STEPS = 40, 10
MOST_WARMUP, WARMUP_PART, DECAY_PART = 40, 20, 5
"""The rate rises over one of WARMUP_PART of all steps, and falls over the last of DECAY_PART."""
FRESH_RATE, GIVEN_RATE = 0.002, 0.0002
"""Peak learning rates. The one for new weights would destroy what given weights have learned."""
RESPOND, LEAST_DISPUTE = 300, 3_000
"""Blocks of a local chain. A dispute must outlast a contest, which is longer for a larger model."""
HELDOUT_PART = 100
"""In a raw file, one token in this many is held out."""

SIZES = {
    "tiny": DecoderConfig(256, 64, 176, 2, 2, 2, 128),
    "small": DecoderConfig(256, 128, 416, 4, 4, 4, 128),
    "medium": DecoderConfig(256, 384, 1024, 6, 6, 6, 256),
    "large": DecoderConfig(256, 768, 2048, 12, 12, 12, 512),
}
"""Sizes of plain decoders. The vocabulary comes from the dataset."""
FRESH_MODEL = """\
[model]                       # {size}: {parameters:,} parameters
vocabulary_size = {model.vocabulary_size}
hidden_size = {model.hidden_size}
intermediate_size = {model.intermediate_size}
layer_count = {model.layer_count}
head_count = {model.head_count}
kv_head_count = {model.kv_head_count}
context_tokens = {model.context_tokens}
"""
NAMED_MODEL = """\
[model]                       # {parameters:,} parameters
step = {named}
"""
TEMPLATE = """\
dataset = {dataset}
preset = "{preset}"              # windows for this block time: 12s, 2s, or local for an own chain

rounds = {rounds}
inner_steps = {inner_steps}              # H: steps of a solver in a round
segment_steps = {segment_steps}            # k: steps that one audit repeats
solver_seats = 4              # solvers that train in a round; more may wait
draws = 1                     # q: audits of each claim; a round needs three verifiers for each
late_chance = 32768           # of 65536: half of the claims get a late audit by a whistleblower
least_solvers = 1             # with fewer seats than these no round begins
least_verifiers = 3
least_whistleblowers = 3
carry_moments = 0             # 1: a solver's moments go on in its next round; 0: they begin at zero
outer_learning_rate = 0.7     # of the step that merges the solvers' claims
outer_momentum = 0.6
sequences_per_step = {sequences:<9}# rows of a step
sequence_tokens = {row:<12}# tokens of a row
{heldout}{seed}numeric_format = "{format}"      # exact: the same bits on every machine, and no limits

{model}
[schedule]
peak_learning_rate = {rate:<8}# 0.002 for weights that begin anew, 0.0002 for weights that were trained before
warmup_steps = {warmup_steps:<15}# a twentieth of all steps, at most {most_warmup}
inner_warmup_steps = 8        # after each reset of the moments
decay_steps = {decay_steps:<16}# over the last fifth of all steps the rate falls
final_ratio = 0.1             # of the peak, at the end
total_steps = {total_steps:<16}# rounds * inner_steps

[amounts]                     # a figure in quotes is in whole tokens, a bare integer in wei
solver_pay = "{pay}"             # of a round; all others are derived from it

[economics]                   # what the amounts are checked against; each figure has a default
amounts = "derived"
{windows}"""
LOCAL_WINDOWS = """
[windows]                     # blocks of a quarter to half a second; the clock skips what no node needs
train_min = 640               # a round waits this long for the slower third, or until all have committed
train_max = 960               # then a round closes
audit_max = 480               # from the close, for votes
post = 120                    # after that, for the new root
respond = {respond}                 # for an answer in a dispute, a query or a contest
dispute = {dispute:<20}# from the close, for opening a dispute
query = 9600                  # after the votes, for querying the signer of one
"""


@dataclass(frozen=True)
class Question:
    """One question. `default` is used if nothing is typed; empty if an answer is required."""

    option: str
    text: str
    default: str = ""


@dataclass(frozen=True)
class Choice:
    """The model that a task trains. `table` is the text for the file, `row` the tokens of a row, `sequences`
    the rows of a step. `is_given` says that it begins with the recorded module's weights."""

    table: str
    vocabulary_size: int
    parameters: int
    row: int
    sequences: int = 8
    numeric_format: str = "exact"
    is_given: bool = False


MILLIONS = ", ".join(f"{count_parameters(size) / 1e6:.2g}" for size in SIZES.values())
SIZE = Question(
    "size",
    f"Size of the model: {', '.join(SIZES)} (of {MILLIONS} million parameters where tokens are bytes)",
    "small",
)
QUESTIONS = (
    Question("dataset", "Dataset: a folder of `touchstone data pack`, or a raw file of one byte a token"),
    SIZE,
    Question("rounds", "Rounds", "4"),
    Question("pay", "Pay of a solver's round, in whole tokens", "10"),
    Question("preset", f"Time of a block of the chain: {', '.join(GAME_WINDOWS)}", "local"),
)


def ask_task(out: Path, given: Mapping[str, str | None], step: Path | None) -> TaskInitDocument:
    """Asks what is not given, and writes the file. `given` has answers by option; `step` is the folder of a
    recorded step. Raises InvalidInput if an answer cannot be used, or is missing without a terminal; then
    nothing is written."""
    console = Console()
    if out.exists():
        raise _refuse("the task file would replace a file", "a new path", str(out), "Choose another --out.")
    if step is not None and given["size"] is not None:
        raise _refuse(
            "two options say the size of the model", "--size or --step", "both",
            "Leave --size out: the folder says it.",
        )  # fmt: skip
    is_asked, ask = sys.stdin.isatty(), lambda text: console.rich.input(text, markup=False)
    questions = [one for one in QUESTIONS if step is None or one is not SIZE]
    answers = {one.option: answer(one, given[one.option], ask if is_asked else None) for one in questions}
    file = write_task_file(out, answers, step)
    console.notify(f"wrote {out}: {file.plan.count_parameters():,} parameters, {file.plan.rounds} rounds")
    notify_tokenizer(file, console)
    console.notify(f"Next: touchstone task check --config {out}, then touchstone task create --config {out}")
    return TaskInitDocument(str(out), file.plan.count_parameters(), file.plan.rounds)


def answer(question: Question, given: str | None, ask: Callable[[str], str] | None) -> str:
    """Returns the option's value, else what is typed, else the default. `ask` is None without a terminal.
    Raises InvalidInput if there is no answer."""
    if given is not None:
        return given
    if ask is None and not question.default:
        raise _refuse(
            "a question has no answer, and there is no terminal to ask", question.text,
            f"no --{question.option}", f"Give --{question.option}.",
        )  # fmt: skip
    shown = f"{question.text} [{question.default}]: " if question.default else f"{question.text}: "
    typed = ask(shown).strip() if ask is not None else ""
    if not typed and not question.default:
        raise _refuse("a question has no answer", question.text, "nothing", f"Give --{question.option}.")
    return typed or question.default


def write_task_file(out: Path, answers: dict[str, str], step: Path | None = None) -> TaskFile:
    """Writes a task file, and returns its contents. Before the file gets its name `out`, it is read as
    posting reads it. `step` is the folder of a recorded step, if the task trains one; then no answer names a
    size. Raises InvalidInput for the first answer that cannot be used, and if the folder has no whole
    step."""
    dataset = open_answered(read_path(answers["dataset"]))
    choice = choose_fresh(answers["size"], dataset) if step is None else choose_recorded(step, out)
    refuse_other_width(dataset, choice)
    check_answers(answers, INNER_STEPS // SEGMENT_STEPS)
    check_length(dataset, choice.row, answers, step)
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(out.name + ".partial")
    try:
        with naming(out):
            aside.write_text(render_task(out, dataset, choice, answers), encoding="utf-8")
        file = read_task_file(aside)
        refuse_bad_terms(sketch_terms(file.plan), BOUNDS[answers["preset"]], "")
        aside.rename(out)
    except InvalidInput as refusal:
        raise blame_answers(refusal, aside, answers, step) from refusal
    finally:
        aside.unlink(missing_ok=True)
    return replace(file, path=out)


def refuse_other_width(packed: PackedDataset, choice: Choice) -> None:
    """Raises InvalidInput if the dataset's tokens have another number of bytes than the model's."""
    tokens = choice.vocabulary_size
    if count_token_bytes(tokens) != packed.token_bytes:
        raise _refuse(
            "the tokens of the dataset are not those of the model",
            f"{count_token_bytes(tokens)} bytes each, for a vocabulary of {tokens}",
            f"{packed.token_bytes}, for one of {packed.vocabulary_size}",
            "Pack it with the model's tokenizer: touchstone data pack --tokenizer.",
        )


def open_answered(path: Path) -> PackedDataset:
    """Opens the dataset at a path. Raises InvalidInput if there is none."""
    if not path.exists():
        actual = f"{path.absolute()} is not there"
        raise _refuse("no dataset", "a folder or a file", actual, "Correct --dataset.")
    return open_dataset(path)


def choose_fresh(size: str, packed: PackedDataset) -> Choice:
    """Returns a plain decoder of this size. Raises InvalidInput if the size is unknown."""
    if size not in SIZES:
        raise _refuse("not a size", " or ".join(SIZES), size, "Correct --size.")
    model = replace(SIZES[size], vocabulary_size=packed.vocabulary_size)
    count = count_parameters(model)
    table = FRESH_MODEL.format(size=size, parameters=count, model=model)
    return Choice(table, model.vocabulary_size, count, model.context_tokens)


def choose_recorded(folder: Path, out: Path) -> Choice:
    """Returns a recorded step that begins with the weights of its module."""
    files, named = load_step(folder), json.dumps(name_beside(folder, out))
    shape, count = files.shape, files.layout.count
    if shape.numeric_format not in PRODUCT_BITS:
        raise _refuse(
            "the recorded step needs limits, which are measured",
            "an exact step, which needs none",
            shape.numeric_format,
            "Record it in an exact format, or write the file by hand, with [limits] of `touchstone policy`.",
        )
    table = NAMED_MODEL.format(parameters=count, named=named)
    return Choice(
        table,
        shape.vocabulary_size,
        count,
        shape.tokens,
        shape.sequences,
        shape.numeric_format,
        is_given=True,
    )


def name_beside(path: Path, out: Path) -> str:
    """Returns a path as the task file at `out` must write it."""
    return os.path.relpath(path.resolve(), out.parent.resolve())


def render_task(out: Path, packed: PackedDataset, choice: Choice, answers: dict[str, str]) -> str:
    """Returns the text of the file."""
    path = packed.tokens if packed.note is None else packed.tokens.parent
    tokens, rounds = packed.size_bytes // packed.token_bytes, int(answers["rounds"])
    row, steps = choice.row, rounds * INNER_STEPS
    held = max(HELDOUT_ROWS * row, tokens // HELDOUT_PART)
    is_local, levels = answers["preset"] == "local", count_contest_levels(choice.parameters)
    dispute = max(LEAST_DISPUTE, 2 * levels * RESPOND)
    comment = "# the last tokens of the dataset: they measure, they do not train"
    return TEMPLATE.format(
        # JSON's strings are TOML's.
        dataset=json.dumps(name_beside(path, out)),
        preset=answers["preset"],
        rounds=rounds,
        inner_steps=INNER_STEPS,
        segment_steps=SEGMENT_STEPS,
        row=row,
        sequences=choice.sequences,
        format=choice.numeric_format,
        heldout=f"heldout_tokens = {held}       {comment}\n" if is_heldout_missing(packed, row) else "",
        seed="" if choice.is_given else "initial_seed = 1\n",
        model=choice.table,
        rate=GIVEN_RATE if choice.is_given else FRESH_RATE,
        warmup_steps=min(MOST_WARMUP, steps // WARMUP_PART),
        most_warmup=MOST_WARMUP,
        decay_steps=steps // DECAY_PART,
        total_steps=steps,
        pay=answers["pay"],
        windows=LOCAL_WINDOWS.format(respond=RESPOND, dispute=dispute) if is_local else "",
    )


def notify_tokenizer(file: TaskFile, console: Console) -> None:
    """Warns if the dataset was packed with another tokenizer than the recorded model's. No rule of a task can
    notice that."""
    made_with, own = file.packed.tokenizer_sha256, file.plan.step.shape.tokenizer_sha256
    if file.weights is None or own == made_with:
        return
    if not own:
        console.notify(
            "the recorded step names no tokenizer: make sure that the dataset has that of its model"
        )
    else:
        other = f"SHA-256 {made_with}" if made_with else "none, its tokens are bytes"
        console.notify(
            f"WARNING: the dataset was packed with another tokenizer ({other}) than that of the recorded "
            "model. Its weights mean nothing on such tokens: pack the dataset with `--tokenizer` and the "
            "folder that was recorded"
        )


def _refuse(what: str, expected: str, actual: str, remedy: str) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, remedy=remedy)
