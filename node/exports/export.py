"""Exports the trained model of a task as a folder."""

import asyncio
from functools import partial
from pathlib import Path

from torch import Tensor

from touchstone.node.exports.byte_tokenizer import make_byte_tokenizer
from touchstone.node.exports.model_note import BYTE_VOCABULARY, ModelNote, check_tokenizer
from touchstone.node.exports.written_model import clean_config, write_model
from touchstone.node.joining.task_step import as_reader, fetch_step
from touchstone.node.kit.config import JOURNAL_FILE, NodeConfig
from touchstone.node.kit.reader import Reader, open_reader
from touchstone.node.kit.stored_tensors import load_tensor
from touchstone.node.models.global_model import ask_outer
from touchstone.node.models.model_choice import (
    Choice,
    advise,
    choose,
    choose_newest,
    choose_settled,
    explain_refusal,
)
from touchstone.node.models.start_weights import make_start
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.record_kinds import RECORDS
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault, TouchstoneError
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.training_codec import decode_training


async def run(config: NodeConfig, task: bytes, out: Path, tokenizer: Path | None = None) -> Choice:
    """Writes the newest global model of `task` that this account may read into the folder `out`. Every byte
    is checked against the roots on chain. `tokenizer` is a tokenizer.json, or a folder with one, to be copied
    there; if tokens are bytes, one for bytes is written without it. Returns the model that it wrote.

    Raises InvalidInput (no model for this account yet, another tokenizer than the task's) and
    EnvironmentFault (no chain, no node serves it)."""
    async with open_reader(config) as reader:
        game, block = reader.state.games[task], reader.state.head_block
        training = read_spec(reader, task).training
        named = training.tokenizer_sha256
        copy = None if tokenizer is None else check_tokenizer(tokenizer, named)
        if copy is None and not any(named) and training.vocabulary_size == BYTE_VOCABULARY:
            copy = make_byte_tokenizer()
        spec, choice, weights = await load_newest(reader, config, task)
        step = get_step(spec.training)
        note = ModelNote(spec.training.sequence_tokens, named.hex() if any(named) else "")
        await asyncio.to_thread(write_model, out, weights, step, note, copy)
        if step.layout.config and clean_config(step.layout.config) is None:
            config.notify(f"{out} has no config.json: the one in the task is not valid")
        if any(named) and copy is None:
            config.notify(
                f"{out} lacks the tokenizer.json with SHA-256 {named.hex()}: name it with --tokenizer"
            )
        newest = choose_newest(game)
        if newest.after > choice.after:
            config.notify(f"this account may not have {newest} yet. {advise(game, block)}")
        is_final = choice.after < 0 or choice == choose_settled(game, block)
        config.notify(f"wrote {choice} to {out}" + ("" if is_final else "; a contest could still replace it"))
        return choice


async def load_newest(reader: Reader, config: NodeConfig, task: bytes) -> tuple[TaskSpec, Choice, Tensor]:
    """Returns the spec of a task, the newest model that this account may read, and its flat weights
    (float32). Raises as `run` does."""
    game, spec = reader.state.games[task], read_spec(reader, task)
    refuse_broken(find_training_malformations(spec))
    block, is_member = reader.state.head_block, reader.state.is_staked(reader.account)
    choice = choose(game, reader.account, is_member=is_member, block=block)
    if choice is None:
        raise explain_refusal(game, block)
    await fetch_step(as_reader(reader, task, spec, config.notify), spec)
    return spec, choice, await load_weights(reader, config, task, spec, choice)


def read_spec(reader: Reader, task: bytes) -> TaskSpec:
    """Returns the spec of a task as its submitter posted it."""
    return make_spec(reader.state.task_terms[task], decode_training(reader.state.texts[task]))


async def load_weights(
    reader: Reader, config: NodeConfig, task: bytes, spec: TaskSpec, choice: Choice
) -> Tensor:
    """Returns the weights of a model: from the task's seed, from this home, or from any node that shows them.
    Raises EnvironmentFault if none does."""
    pin_kernels(config.threads)
    peers, last = list(reader.state.network.peers.values()), "no peer is available"
    if choice.after < 0:
        return await _load_first(reader, spec, peers)
    own = await asyncio.to_thread(find_own_header, config.home, task, choice.root)
    asks = [] if own is None else [partial(_answer_self, own)]
    asks += [partial(ask_outer, reader.client, task, choice.root, peer) for peer in peers]
    for ask in asks:
        try:
            return await _load(reader, spec, await ask(), peers)
        except (ProtocolFault, EnvironmentFault, InvalidInput) as fault:
            last = str(fault)
    raise EnvironmentFault(
        what=f"no peer serves {choice}",
        expected=f"its bytes from one of {len(peers)} announced nodes",
        actual=last,
        remedy="Try again while a solver or a whistleblower of the task is up: these keep its models. If "
        "a node of this home works on another task now, stop it first: then the home's own models are read.",
    )


def find_own_header(home: Path, task: bytes, root: bytes) -> OuterHeader | None:
    """Returns the outer header of an outer root, if a node of this home has computed it. Returns None if not,
    or if that node runs now: then it is asked like any other node."""
    path = home / JOURNAL_FILE
    if not path.exists():
        return None
    try:
        with Journal(path, RECORDS) as journal:
            return ClaimBook(journal, task).outer.get(root)
    except TouchstoneError:
        return None


async def _load_first(reader: Reader, spec: TaskSpec, peers: list[Peer]) -> Tensor:
    """Returns W before any training: starting weights from this home, or from a peer, the submitter first.
    Raises InvalidInput if there is no peer."""
    if not spec.training.is_start_given:
        return await asyncio.to_thread(make_start, spec)
    first = OuterHeader(spec.terms.initial_weights_root, spec.terms.zero_root)
    submitter_first = sorted(peers, key=lambda one: one.account != spec.terms.submitter)
    return await _load(reader, spec, first, submitter_first)


async def _answer_self(header: OuterHeader) -> OuterHeader:
    return header


async def _load(reader: Reader, spec: TaskSpec, header: OuterHeader, peers: list[Peer]) -> Tensor:
    """Returns W of an outer state, from this home or from a peer."""
    ref = refer_tensor(header.weights_root, spec.terms.parameter_count)
    if not reader.store.has(ref):
        await reader.client.fetch_from_any(peers, ref)
    return await asyncio.to_thread(load_tensor, reader.store, ref)
