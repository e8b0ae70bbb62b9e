"""`touchstone eval`: measures a model's loss on held-out tokens or on a text."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import exp, isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from touchstone.node.exports import export, written_model
from touchstone.node.exports.lora_export import A as LORA_A
from touchstone.node.exports.model_folder import read_trained
from touchstone.node.exports.model_note import CONFIG_NAME, read_note
from touchstone.node.exports.model_use import Measure, measure_rows
from touchstone.node.exports.published_model import PublishedModel, read_published
from touchstone.node.joining.dataset import open_data
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.reader import open_reader
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.compute.batches import list_heldout_starts, read_known_rows
from touchstone.protocol.compute.program.evaluation import Evaluator, LossMeasure
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault, TouchstoneError
from touchstone.scripts.account.task_names import find_game, read_state
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.data.packed_dataset import PackedDataset, open_dataset
from touchstone.scripts.documents.model_documents import EvalDocument
from touchstone.scripts.home.node_config import open_config
from touchstone.scripts.models.model_texts import find_tokenizer, open_tokens, read_text, refuse_input
from touchstone.step.step_folder import load_step

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""Tokens, flat."""
SHOWN_LOSS = 100.0
"""For a larger loss a perplexity has no meaning, and exceeds a float."""


@dataclass(frozen=True)
class MeasureChoice:
    """What an operator measures: a folder, or the model of a task, on at most `tokens` tokens. `dataset` or
    `text` has the tokens to measure on. `step` is the recorded step of a module that transformers does not
    have."""

    model: str
    tokens: int
    dataset: Path | None = None
    text: Path | None = None
    step: Path | None = None


def measure_model(wanted: MeasureChoice, home: Path, password_file: Path | None) -> EvalDocument:
    """Measures a model and tells the result. `home` and `password_file` are those of the account that asks
    for a task's model."""
    folder, console = Path(wanted.model), Console()
    if folder.is_dir() and wanted.step is not None:
        measure = measure_own(wanted, folder, wanted.step)
    elif folder.is_dir():
        if not (folder / CONFIG_NAME).is_file():
            raise refuse_input("a folder without config.json", "one with it, or --step", str(folder))
        model = read_published(folder, with_weights=True)
        length = read_row_tokens(folder, model)
        rows = _list_rows(wanted, folder, model, length)
        measure = measure_rows(model, islice(rows, max(1, wanted.tokens // length)))
    else:
        if wanted.text or wanted.dataset or wanted.step:
            named = "--text, --dataset and --step are for the folder of a model"
            raise refuse_input(named, "a folder", wanted.model)
        measure = asyncio.run(measure_task(open_config(home, password_file, console), wanted, console))
    console.notify(show_measure(measure))
    perplexity = exp(measure.loss) if measure.loss < SHOWN_LOSS else None
    error = measure.standard_error
    is_known = error is not None and isfinite(error)
    return EvalDocument(measure.loss, error if is_known else None, perplexity, measure.tokens)


def measure_own(wanted: MeasureChoice, folder: Path, step: Path) -> Measure:
    """Measures an exported module that transformers does not have. The loss is that of its recorded step, in
    whole batches."""
    files = load_step(step)
    is_adapted = any(one.name.endswith(LORA_A) for one in files.layout.parameters)
    if is_adapted and (folder / written_model.ADAPTER_FOLDER).is_dir():
        expected = "the step of the module without adapters: an export has them added to its matrices"
        raise refuse_input("a step that does not fit the export", expected, str(step))
    weights, shape = read_trained(folder, files.layout), files.shape
    if wanted.dataset is None:
        given = "--text, which takes a folder with config.json" if wanted.text else "none"
        raise refuse_input("no tokens to measure on", "--dataset", given)
    data = _map_heldout(open_dataset(wanted.dataset))
    every = (torch.where(row < shape.vocabulary_size, row, 0) for row in cut_rows(data, shape.tokens))
    rows = (row for row in every if len(row) == shape.tokens + 1)
    evaluator = Evaluator(files.built, shape.sequences, shape.numeric_format)
    found = evaluator.measure(weights, islice(rows, max(1, wanted.tokens // shape.tokens)))
    return describe_batches(found, shape.sequences * shape.tokens)


def describe_batches(found: LossMeasure, batch_tokens: int) -> Measure:
    """Returns what was measured on batches of this many tokens."""
    error = found.standard_error if found.batches > 1 else None
    return Measure(found.loss, found.batches * batch_tokens, error)


def show_measure(measure: Measure) -> str:
    """Describes loss, standard error and perplexity."""
    perplexity = f"{exp(measure.loss):,.2f}" if measure.loss < SHOWN_LOSS else "beyond all bounds"
    known = measure.standard_error
    error = "unknown: measured once" if known is None else f"{known:.4f}"
    return (
        f"loss {measure.loss:.4f} nats a token (standard error {error}), perplexity {perplexity}, "
        f"over {measure.tokens:,} tokens"
    )


def read_row_tokens(folder: Path, model: PublishedModel) -> int:
    """Returns the number of tokens in a row: that of the task that trained the model, else the model's
    context length."""
    note = read_note(folder)
    return model.context_tokens if note is None else min(note.row_tokens, model.context_tokens)


def _list_rows(wanted: MeasureChoice, folder: Path, model: PublishedModel, length: int) -> Iterator[Tensor]:
    """Yields rows of the text, or of the held-out tokens, that the options name."""
    if wanted.text:
        text = read_text(wanted.text)
        (tokens,) = open_tokens(folder, model).encode([text])
        data = np.frombuffer(tokens, "u1") if isinstance(tokens, bytes) else np.array(tokens)
        return cut_rows(data, length)
    if wanted.dataset is None:
        raise refuse_input("no tokens to measure on", "--dataset (held-out tokens) or --text", "neither")
    dataset = open_dataset(wanted.dataset)
    named = find_tokenizer(folder, model)
    if dataset.tokenizer_sha256 != named:
        named = named or "none: bytes"
        raise refuse_input(
            "the dataset has another tokenizer than the model", named, dataset.tokenizer_sha256
        )
    return cut_rows(_map_heldout(dataset), length)


def _map_heldout(dataset: PackedDataset) -> Numbers:
    """Returns the held-out tokens, read as they are needed; for a raw file, all tokens."""
    kept = 0 if dataset.note is None else dataset.note.token_count
    if not dataset.size_bytes:
        return np.zeros(0, "u1")
    return np.memmap(dataset.tokens, f"<u{dataset.token_bytes}", "r")[kept:]


def cut_rows(data: Numbers, length: int) -> Iterator[Tensor]:
    """Yields rows of length + 1 tokens (int64), each sharing one token with the next; the last one is
    shorter."""
    for start in range(0, max(len(data) - 1, 0), length):
        yield torch.from_numpy(data[start : start + length + 1].astype(np.int64))


async def measure_task(config: NodeConfig, wanted: MeasureChoice, console: Console) -> Measure:
    """Returns the newest model that this account may read, measured on the task's held-out tokens. Raises
    EnvironmentFault if no node serves the model or the tokens."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        task, _ = find_game(await read_state(chain), wanted.model)
    async with open_reader(config) as reader:
        spec, choice, weights = await export.load_newest(reader, config, task)
        training = spec.training
        length = training.sequence_tokens
        starts = list_heldout_starts(training, max(1, wanted.tokens // length))
        try:
            corpus = await open_data(reader.client, reader.store, reader.state, task, spec, config.notify)
            await corpus.prepare(starts, length + 1)
        except (EnvironmentFault, ProtocolFault) as fault:
            raise _make_unserved_fault(fault) from fault
        rows = await asyncio.to_thread(read_known_rows, corpus, training, starts)
        console.notify(f"{choice}, on its held-out tokens:")
        step, sequences = get_step(training), training.sequences_per_step
        evaluator = Evaluator(step.built, sequences, training.numeric_format)
        found = await asyncio.to_thread(evaluator.measure, weights, rows.unbind())
        return describe_batches(found, sequences * length)


def _make_unserved_fault(fault: TouchstoneError) -> EnvironmentFault:
    return EnvironmentFault(
        what="no node serves the held-out tokens of this task",
        expected="one that does: those of a task that is over have ended",
        actual=str(fault),
        remedy="Export the model, then measure its folder: touchstone eval FOLDER with --dataset or --text.",
    )
