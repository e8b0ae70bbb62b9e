"""`touchstone export`, `eval`, `sample` and `replay`: what anybody may see of a task without a seat.

A model, how good it is and what it writes; and whether a segment of a claim was trained as it should be.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
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
from touchstone.node.exports.model_note import (
    BYTE_VOCABULARY,
    CONFIG_NAME,
    TOKENIZER_NAME,
    check_tokenizer,
    hash_file,
    read_note,
)
from touchstone.node.exports.model_use import Measure, Taste, generate, measure_rows
from touchstone.node.exports.published_model import PublishedModel, read_published
from touchstone.node.joining.dataset import open_data
from touchstone.node.kit.config import PartyConfig
from touchstone.node.loop.opening import open_reader
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.compute.batches import read_known_rows
from touchstone.protocol.compute.program.evaluation import Evaluator
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault, TouchstoneError
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.console import Console, Document, ExitCode, spell_id
from touchstone.scripts.data_pack import PackedDataset, open_dataset
from touchstone.scripts.documents import ByteTokens, FileTokens, Tokens
from touchstone.scripts.home_checks import open_config
from touchstone.scripts.wallet import find_game, read_state
from touchstone.step.step_folder import load_step
from touchstone.verifier import seatless_audit

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""Tokens, flat."""
MAX_TEXT_BYTES = 64 * 1024 * 1024
SHOWN_LOSS = 100.0
"""Above it a perplexity has no meaning, and no float."""


def run_eval(options: argparse.Namespace) -> Document:
    """Measure a model and say what was found."""
    folder, console = Path(options.model), Console()
    if folder.is_dir() and options.step is not None:
        measure = measure_own(options, folder)
    elif folder.is_dir():
        if not (folder / CONFIG_NAME).is_file():
            raise _refuse("a folder without config.json", "one with it, or --step", str(folder))
        model = read_published(folder, with_weights=True)
        length = read_row_tokens(folder, model)
        rows = _list_rows(options, folder, model, length)
        measure = measure_rows(model, islice(rows, max(1, options.tokens // length)))
    else:
        if options.text or options.dataset or options.step:
            named = "--text, --dataset and --step are for the folder of a model"
            raise _refuse(named, "a folder", options.model)
        measure = asyncio.run(measure_task(open_config(options, console), options, console))
    console.say(show_measure(measure))
    perplexity = exp(measure.loss) if measure.loss < SHOWN_LOSS else None
    return {"loss_nats": measure.loss, "perplexity": perplexity, "tokens": measure.tokens}


def measure_own(options: argparse.Namespace, folder: Path) -> Measure:
    """The export of a module that transformers does not have, by the loss of its recorded step, in whole
    batches of that."""
    files = load_step(options.step)
    is_adapted = any(one.name.endswith(LORA_A) for one in files.layout.parameters)
    if is_adapted and (folder / written_model.ADAPTER_FOLDER).is_dir():
        expected = "the step of the module without adapters: an export has them added to its matrices"
        raise _refuse("a step that does not fit the export", expected, str(options.step))
    weights, shape = read_trained(folder, files.layout), files.shape
    if options.dataset is None:
        given = "--text, which takes a folder with config.json" if options.text else "none"
        raise _refuse("no tokens to measure on", "--dataset", given)
    data = _map_heldout(open_dataset(options.dataset))
    every = (torch.where(row < shape.vocabulary_size, row, 0) for row in cut_rows(data, shape.tokens))
    rows = (row for row in every if len(row) == shape.tokens + 1)
    evaluator = Evaluator(files.built, shape.sequences, shape.numeric_format)
    found = evaluator.measure(weights, islice(rows, max(1, options.tokens // shape.tokens)))
    return Measure(found.loss, found.batches * shape.sequences * shape.tokens)


def show_measure(measure: Measure) -> str:
    """Loss and perplexity in words."""
    perplexity = f"{exp(measure.loss):,.2f}" if measure.loss < SHOWN_LOSS else "beyond all bounds"
    return f"loss {measure.loss:.4f} nats a token, perplexity {perplexity}, over {measure.tokens:,} tokens"


def read_row_tokens(folder: Path, model: PublishedModel) -> int:
    """Tokens of a row: those of the task that trained the model, else its context."""
    note = read_note(folder)
    return model.context_tokens if note is None else min(note.row_tokens, model.context_tokens)


def _list_rows(
    options: argparse.Namespace, folder: Path, model: PublishedModel, length: int
) -> Iterator[Tensor]:
    """Rows of the text or of the held-out tokens that the options name."""
    if options.text:
        text = read_text(options.text)
        (tokens,) = open_tokens(folder, model).encode([text])
        data = np.frombuffer(tokens, "u1") if isinstance(tokens, bytes) else np.array(tokens)
        return cut_rows(data, length)
    if options.dataset is None:
        raise _refuse("no tokens to measure on", "--dataset (held-out tokens) or --text", "neither")
    dataset = open_dataset(options.dataset)
    named = find_tokenizer(folder, model)
    if dataset.tokenizer_sha256 != named:
        named = named or "none: bytes"
        raise _refuse("the dataset has another tokenizer than the model", named, dataset.tokenizer_sha256)
    return cut_rows(_map_heldout(dataset), length)


def _map_heldout(dataset: PackedDataset) -> Numbers:
    """The held-out tokens, read as they are needed; of a raw file all of it."""
    kept = 0 if dataset.note is None else dataset.note.token_count
    if not dataset.size_bytes:
        return np.zeros(0, "u1")
    return np.memmap(dataset.tokens, f"<u{dataset.token_bytes}", "r")[kept:]


def cut_rows(data: Numbers, length: int) -> Iterator[Tensor]:
    """Rows of length + 1 tokens (int64) that share one token each, the last one shorter."""
    for start in range(0, max(len(data) - 1, 0), length):
        yield torch.from_numpy(data[start : start + length + 1].astype(np.int64))


def read_text(path: Path) -> str:
    """A text file. Raises InvalidInput where it is missing, too long or not UTF-8."""
    if not path.is_file() or path.stat().st_size > MAX_TEXT_BYTES:
        raise _refuse("no text to measure on", f"a file of at most {MAX_TEXT_BYTES} bytes", str(path))
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise _refuse("the text is not UTF-8", "UTF-8", f"{path}, byte {error.start}") from error


def find_tokenizer(folder: Path, model: PublishedModel) -> str:
    """SHA-256 of the model's tokenizer.json, hex: the one that the task names, else that of the folder; empty
    where tokens are bytes. Raises InvalidInput where there is none and tokens cannot be bytes."""
    note, tokenizer = read_note(folder), folder / TOKENIZER_NAME
    if note is not None:
        return note.tokenizer_sha256
    if tokenizer.is_file():
        return hash_file(tokenizer)
    if model.vocabulary_size != BYTE_VOCABULARY:
        expected = f"{TOKENIZER_NAME}, or a vocabulary of {BYTE_VOCABULARY}"
        raise _refuse("the folder has no tokenizer", expected, f"{model.vocabulary_size} tokens")
    return ""


def open_tokens(folder: Path, model: PublishedModel) -> Tokens:
    """What turns texts into the model's tokens: a tokenizer, or bytes where there is none. Raises
    InvalidInput where it is missing or another one."""
    named = find_tokenizer(folder, model)
    if not named:
        return ByteTokens()
    data = check_tokenizer(folder, bytes.fromhex(named))
    return FileTokens(data, str(folder / TOKENIZER_NAME))


# --- A task -------------------------------------------------------------------------------------------------
async def measure_task(config: PartyConfig, options: argparse.Namespace, console: Console) -> Measure:
    """The newest model that this account may have, on the task's held-out tokens. Raises EnvironmentFault
    where no node serves one of both."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        task, _ = find_game(await read_state(chain), options.model)
    async with open_reader(config) as reader:
        spec, choice, weights = await export.load_newest(reader, config, task)
        training = spec.training
        length = training.sequence_tokens
        most = max(1, options.tokens // length)
        count = min(most, (training.heldout_tokens - 1) // length)
        last = training.heldout_tokens - length - 1
        starts = [training.token_count + last * row // max(count - 1, 1) for row in range(count)]
        try:
            corpus = await open_data(reader.client, reader.store, reader.state, task, spec, config.say)
            await corpus.prepare(starts, length + 1)
        except (EnvironmentFault, ProtocolFault) as fault:
            raise _tell_unserved(fault) from fault
        rows = await asyncio.to_thread(read_known_rows, corpus, training, starts)
        console.say(f"{choice}, on its held-out tokens:")
        step, sequences = get_step(training), training.sequences_per_step
        evaluator = Evaluator(step.built, sequences, training.numeric_format)
        found = await asyncio.to_thread(evaluator.measure, weights, rows.unbind())
        return Measure(found.loss, found.batches * sequences * length)


def _tell_unserved(fault: TouchstoneError) -> EnvironmentFault:
    return EnvironmentFault(
        what="no node serves the held-out tokens of this task",
        expected="one that does: those of a task that is over have ended",
        actual=str(fault),
        remedy="Export the model, then measure its folder: touchstone eval FOLDER with --dataset or --text.",
    )


def run_export(options: argparse.Namespace) -> Document:
    """Write the trained model of a task."""
    tokenizer = getattr(options, "tokenizer", None)
    return asyncio.run(export_model(open_config(options, Console()), options.task, options.out, tokenizer))


async def export_model(config: PartyConfig, name: str, out: Path, tokenizer: Path | None = None) -> Document:
    """Write the newest model of the task called `name` to `out`; raises as `export.run` does."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        task, _ = find_game(await read_state(chain), name)
    choice = await export.run(config, task, out, tokenizer)
    if (out / CONFIG_NAME).is_file():
        config.say(f"Next: touchstone eval {out} --dataset FOLDER, or touchstone sample {out} --prompt TEXT")
    else:
        config.say(f"Next: touchstone eval {out} --step STEP --dataset FOLDER, or load_state_dict in Python")
    facts = {"task": spell_id(task), "folder": str(out), "outer_root": spell_id(choice.root)}
    return facts | {"rounds_trained": choice.after + 1}


# --- Sampling -----------------------------------------------------------------------------------------------
def run_sample(options: argparse.Namespace) -> Document:
    """Write the prompt and what the model goes on with."""
    if options.model.is_dir() and not (options.model / CONFIG_NAME).is_file():
        expected = "a model of transformers; a module of your own takes the tensors by load_state_dict"
        raise _refuse("a folder without config.json", expected, str(options.model))
    model = read_published(options.model, with_weights=True)
    tokens = open_tokens(options.model, model)
    taste = Taste(options.temperature, options.top_k, options.seed)
    (prompt,) = tokens.encode([options.prompt])
    found = [*prompt, *islice(generate(model, list(prompt), taste), options.tokens)]
    text = show_text(tokens.decode(found))
    sys.stdout.write(text + "\n")
    return {"text": text}


def show_text(text: str) -> str:
    """A model's text without control characters: they could steer the terminal."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)


# --- A replay without a seat --------------------------------------------------------------------------------
def run_replay(options: argparse.Namespace) -> Document:
    """Replay one segment without a seat; the exit status is 1 where its end lies beyond the limits."""
    console = Console()
    config = open_config(options, console)
    where = (options.task, options.round, options.solver, options.segment)
    found = asyncio.run(replay_segment(config, *where, console))
    if found["result"] != VoteWord.ACCEPT.name:
        options.exit_status = ExitCode.FOUND
    return found


async def replay_segment(
    config: PartyConfig, name: str, index: int, solver: str, segment: int, console: Console
) -> Document:
    """Replay a segment of the task called `name`, and say what was found. solver: the slot of its claim, or
    its account. Raises as `verifier.replay` does."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        task, game = find_game(await read_state(chain), name)
    claims = game.rounds[index].claims if index in game.rounds else {}
    slots = {claim.account: slot for slot, claim in claims.items()}
    slot = int(solver) if solver.isascii() and solver.isdigit() else slots.get(solver.lower(), -1)
    found = await seatless_audit.replay(config, seatless_audit.Place(task, index, slot, segment))
    for line in tell_replayed(found):
        console.say(line)
    return {
        "task": spell_id(task),
        "round": index,
        "slot": slot,
        "solver": found.solver,
        "segment": segment,
        "result": found.word.name,
        "claimed_end": spell_id(found.claimed_end),
        "own_end": None if found.own_end is None else spell_id(found.own_end),
        "distances": [
            {"quantity": quantity, "distance": distance if isfinite(distance) else None, "limit": limit}
            for quantity, distance, limit in found.distances
        ],
    }


def tell_replayed(found: seatless_audit.Replayed) -> Iterator[str]:
    """What a replay came to, in words."""
    if found.own_end == found.claimed_end and found.word == VoteWord.ACCEPT:
        yield f"{found.word.name}: the own end has the claim's root, {spell_id(found.claimed_end)}"
        return
    for quantity, distance, limit in found.distances:
        yield f"largest distance of the {quantity}: {distance:.3g}, limit {limit:.3g}"
    meaning = {
        VoteWord.ACCEPT: "the claimed end lies inside the limits of the task",
        VoteWord.REJECT_START: "the claim does not start from what the round began with: it has other "
        "weights, other moments, or step numbers of another place",
        VoteWord.REJECT_STATE: "the claimed end is not what this machine comes to. Who is wrong a dispute "
        "computes, from one number of the segment",
    }
    yield f"{found.word.name}: {meaning[found.word]}"


def _refuse(what: str, expected: str, actual: str) -> InvalidInput:
    return InvalidInput(
        what=what, expected=expected, actual=actual, remedy="Correct the options; --help has an example."
    )
