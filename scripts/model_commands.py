"""`touchstone export`, `eval`, `sample` and `replay`: what anybody may see of a task without a seat.

A model, how good it is and what it writes; and whether a segment of a claim was trained as it should be.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from math import exp, isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from node import export
from node.model_folder import TOKENIZER_NAME, ModelNote, check_tokenizer, read_model
from protocol.actions.runtime.config import PartyConfig
from protocol.actions.runtime.joining import open_data
from protocol.actions.runtime.opening import open_reader
from protocol.adapters.chain.chain_client import open_game_chain
from protocol.compute.model.batches import read_known_rows
from protocol.compute.model.reference_model import Measure, Taste, generate, measure_rows
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault, TouchstoneError
from protocol.spec.statements import VoteWord
from scripts.console import Console, Document, ExitCode, spell_id
from scripts.data_pack import PackedDataset, open_dataset
from scripts.documents import ByteTokens, FileTokens, Tokens
from scripts.home_checks import open_config
from scripts.wallet import find_game, read_state
from verifier import verifier

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""Tokens, flat."""
MAX_TEXT_BYTES = 64 * 1024 * 1024
SHOWN_LOSS = 100.0
"""Above it a perplexity has no meaning, and no float."""


def run_eval(options: argparse.Namespace) -> Document:
    """Measure a model and say what was found."""
    folder, console = Path(options.model), Console()
    if folder.is_dir():
        note, weights = read_model(folder)
        rows = _list_rows(options, note, folder)
        measure = measure_rows(weights, note.model, islice(rows, *_limit(options, note.model)))
    else:
        if options.text or options.dataset:
            raise _refuse("--text and --dataset are for the folder of a model", "a folder", options.model)
        measure = asyncio.run(measure_task(open_config(options, console), options, console))
    console.say(show_measure(measure))
    perplexity = exp(measure.loss) if measure.loss < SHOWN_LOSS else None
    return {"loss_nats": measure.loss, "perplexity": perplexity, "tokens": measure.tokens}


def show_measure(measure: Measure) -> str:
    """Loss and perplexity in words."""
    perplexity = f"{exp(measure.loss):,.2f}" if measure.loss < SHOWN_LOSS else "beyond all bounds"
    return f"loss {measure.loss:.4f} nats a token, perplexity {perplexity}, over {measure.tokens:,} tokens"


def _limit(options: argparse.Namespace, model: ModelConfig) -> tuple[int]:
    return (max(1, options.tokens // model.context_tokens),)


def _list_rows(options: argparse.Namespace, note: ModelNote, folder: Path) -> Iterator[Tensor]:
    """Rows of the text or of the held-out tokens that the options name."""
    if options.text:
        text = read_text(options.text)
        (tokens,) = open_tokens(folder, note).encode([text])
        data = np.frombuffer(tokens, "u1") if isinstance(tokens, bytes) else np.array(tokens)
        return cut_rows(data, note.model.context_tokens)
    if options.dataset is None:
        raise _refuse("no tokens to measure on", "--dataset (held-out tokens) or --text", "neither")
    dataset = open_dataset(options.dataset)
    if dataset.tokenizer_sha256 != note.tokenizer_sha256:
        named = note.tokenizer_sha256 or "none: bytes"
        raise _refuse("the dataset has another tokenizer than the model", named, dataset.tokenizer_sha256)
    return cut_rows(_map_heldout(dataset), note.model.context_tokens)


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


def open_tokens(folder: Path, note: ModelNote) -> Tokens:
    """What turns texts into the model's tokens: the folder's tokenizer.json, or bytes where the task names
    none. Raises InvalidInput where it is missing or another one."""
    if not note.tokenizer_sha256:
        return ByteTokens()
    data = check_tokenizer(folder, bytes.fromhex(note.tokenizer_sha256))
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
        length, most = training.sequence_tokens, _limit(options, training.model)[0]
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
        return await asyncio.to_thread(partial(measure_rows, weights, training.model), rows.unbind())


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
    config.say(f"Next: touchstone eval {out} --dataset FOLDER, or touchstone sample {out} --prompt TEXT")
    facts = {"task": spell_id(task), "folder": str(out), "outer_root": spell_id(choice.root)}
    return facts | {"rounds_trained": choice.after + 1}


# --- Sampling -----------------------------------------------------------------------------------------------
def run_sample(options: argparse.Namespace) -> Document:
    """Write the prompt and what the model goes on with."""
    note, weights = read_model(options.model)
    tokens = open_tokens(options.model, note)
    taste = Taste(options.temperature, options.top_k, options.seed)
    (prompt,) = tokens.encode([options.prompt])
    found = [*prompt, *islice(generate(weights, note.model, list(prompt), taste), options.tokens)]
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
    found = await verifier.replay(config, verifier.Place(task, index, slot, segment))
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


def tell_replayed(found: verifier.Replayed) -> Iterator[str]:
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
