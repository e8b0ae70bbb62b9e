"""Writing the trained model as a folder, and keeping a task's last one.

Exporting only reads: it needs an account, but neither coin nor stake. Any account may export a settled model.
A newer one is for accounts with a seat and for the task's submitter, and may still fall in a contest.

A task's last model is kept in its submitter's home, before the nodes that computed it end. Nodes end when a
task is closed, and solvers and whistleblowers alone keep models. So the submitter fetches the newest model as
soon as no round runs and none is about to begin. Where its root falls later, or the task goes on, it fetches
the next one.
"""

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from touchstone.node.exports.lora_export import describe_for_peft, find_adapters, merge, name_for_peft
from touchstone.node.exports.model_folder import (
    CONFIG_NAME,
    MAX_CONFIG_BRACKETS,
    NOTE_NAME,
    SAFETENSORS_METADATA,
    SAFETENSORS_NAME,
    TOKENIZER_NAME,
    ModelNote,
    check_tokenizer,
    format_note,
    format_tokenizer_config,
    list_file_names,
)
from touchstone.node.exports.tensor_file import Tensors, fill, measure_tensors, save_tensors
from touchstone.node.joining.task_inputs import make_start
from touchstone.node.joining.task_step import as_reader, fetch_step
from touchstone.node.kit.config import JOURNAL_FILE, PartyConfig
from touchstone.node.kit.party import Party, list_peers
from touchstone.node.kit.stored_tensors import load_tensor
from touchstone.node.kit.view import View
from touchstone.node.loop.opening import RECORDS, Reader, open_reader
from touchstone.node.models.global_model import ask_outer, load_outer
from touchstone.node.models.outer_step import find_oldest
from touchstone.node.records.claim_records import ClaimBook, OuterShown
from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_tensor
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.known_steps import TaskStep, get_step
from touchstone.protocol.spec.codec import decode_training
from touchstone.protocol.spec.containers import OuterHeader, TaskSpec
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault, TouchstoneError
from touchstone.protocol.spec.game.state import GameRound, GameState, RoundPhase
from touchstone.protocol.spec.game.terms import make_spec
from touchstone.protocol.spec.game.timing import get_live_round, is_start_alive
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.weights_layout import encode_layout

SETTLED = "every root before it stands, the time for contests is over, and none is open"


LAYOUT_NAME, ADAPTER_FOLDER = "layout.json", "adapter"
NOT_WRITTEN = frozenset({
    "auto_map", "custom_pipelines", "attn_implementation", "experts_implementation", "quantization_config",
})  # fmt: skip
"""Fields of a config.json by which transformers loads code or another class; an export has plain float32."""


@dataclass(frozen=True)
class Choice:
    """A model to export: its outer root, and the round after which it is the global model (-1: the first
    one)."""

    root: bytes
    after: int

    def __str__(self) -> str:
        return "the model before any training" if self.after < 0 else f"the model after round {self.after}"


async def run(config: PartyConfig, task: bytes, out: Path, tokenizer: Path | None = None) -> Choice:
    """Write the newest global model of `task` that this account may have to `out`. Every byte is checked
    against the roots on chain. tokenizer: a tokenizer.json, or a folder that has it, to put beside it.
    Returns which model it is.

    Raises InvalidInput (no model for this account yet, another tokenizer than the task's) and
    EnvironmentFault (no chain, no node serves it)."""
    async with open_reader(config) as reader:
        game, block = reader.state.games[task], reader.state.head_block
        named = read_spec(reader, task).training.tokenizer_sha256
        copy = None if tokenizer is None else check_tokenizer(tokenizer, named)
        spec, choice, weights = await load_newest(reader, config, task)
        step = get_step(spec.training)
        note = ModelNote(spec.training.sequence_tokens, named.hex() if any(named) else "")
        await asyncio.to_thread(write_model, out, weights, step, note, copy)
        if step.layout.config and clean_config(step.layout.config) is None:
            config.say(f"{out} has no config.json: the task has another text in its place")
        if any(named) and copy is None:
            config.say(f"{out} lacks the tokenizer.json with SHA-256 {named.hex()}: name it with --tokenizer")
        newest = choose_newest(game)
        if newest.after > choice.after:
            config.say(f"{newest} is not for this account yet. {_advise(game, block)}")
        is_final = choice.after < 0 or choice == choose_settled(game, block)
        config.say(f"wrote {choice} to {out}" + ("" if is_final else "; a contest could still replace it"))
        return choice


async def load_newest(reader: Reader, config: PartyConfig, task: bytes) -> tuple[TaskSpec, Choice, Tensor]:
    """The spec of a task, the newest model that this account may have, and its flat weights (float32). Raises
    as `run` does."""
    game, spec = reader.state.games[task], read_spec(reader, task)
    refuse_broken(find_training_malformations(spec))
    block, is_member = reader.state.head_block, reader.state.is_staked(reader.account)
    choice = choose(game, reader.account, is_member=is_member, block=block)
    if choice is None:
        raise explain_refusal(game, block)
    await fetch_step(as_reader(reader, task, spec, config.say), spec)
    return spec, choice, await load_weights(reader, config, task, spec, choice)


def read_spec(reader: Reader, task: bytes) -> TaskSpec:
    """The spec as it was posted."""
    return make_spec(reader.state.task_terms[task], decode_training(reader.state.texts[task]))


# --- Which model --------------------------------------------------------------------------------------------
def choose(game: GameState, account: str, *, is_member: bool, block: int) -> Choice | None:
    """The newest model that an account may have at `block`; None where it may have none that was trained."""
    if is_member or account == game.terms.submitter:
        return choose_newest(game)
    return choose_settled(game, block)


def choose_newest(game: GameState) -> Choice:
    """The model of the last posted root that is not contested; else the one that the known rounds began
    with."""
    contested = {contest.round for contest in game.contests.values()}
    roots = [one for one in _list_posted(game) if one.index not in contested]
    return _name(roots[-1]) if roots else _choose_base(game)


def _choose_base(game: GameState) -> Choice:
    """The model before the oldest round that the chain has not forgotten."""
    oldest, root = find_oldest(game)
    return Choice(root, -1 if root == game.terms.root else oldest - 1)


def choose_settled(game: GameState, block: int) -> Choice | None:
    """The newest model that nothing replaces any more; None where none was trained."""
    base = _choose_base(game)
    found = base if base.after >= 0 else None
    contested = {contest.round for contest in game.contests.values()}
    for one in _list_posted(game):
        # A root that falls takes all later ones with it.
        if one.index in contested or block <= one.root_until:
            break
        found = _name(one)
    return found


def _list_posted(game: GameState) -> Iterator[GameRound]:
    return (one for _, one in sorted(game.rounds.items()) if one.phase == RoundPhase.POSTED)


def _name(game_round: GameRound) -> Choice:
    assert game_round.root is not None
    return Choice(game_round.root, game_round.index)


def explain_refusal(game: GameState, block: int) -> InvalidInput:
    """Why an account without a seat gets no model, and what it can do. block: the chain's head."""
    count = len(list(_list_posted(game)))
    return InvalidInput(
        what="no model of this task is for every account yet",
        expected=f"a root that is settled: {SETTLED}",
        actual=f"{count} roots posted, none settled at block {block}" + ", closed" * game.is_closed,
        remedy=_advise(game, block),
    )


def _advise(game: GameState, block: int) -> str:
    first = next((one for one in _list_posted(game) if block <= one.root_until), None)
    if first is None and game.is_closed:
        return "Nothing: the task is closed, and no further root will be posted."
    when = "a root is posted" if first is None else f"block {first.root_until + 1} (it is {block} now)"
    return (
        f"Wait until {when}, and export again. An account with a seat in some task and the task's submitter "
        "need not wait."
    )


# --- Its bytes ----------------------------------------------------------------------------------------------
async def load_weights(
    reader: Reader, config: PartyConfig, task: bytes, spec: TaskSpec, choice: Choice
) -> Tensor:
    """The weights of a model: from the task's seed, from this home, or from any node that shows them. Raises
    EnvironmentFault where none does."""
    pin_kernels(config.threads)
    peers, last = list(reader.state.network.peers.values()), "no peer is there"
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
        remedy="Try again while a solver or a whistleblower of the task is up: these keep its models. Where "
        "a node of this home works on another task now, stop it first: then the home's own models are read.",
    )


def find_own_header(home: Path, task: bytes, root: bytes) -> OuterHeader | None:
    """What a node of this home has computed behind an outer root; None where it has not, or runs: then it is
    asked as any other."""
    path = home / JOURNAL_FILE
    if not path.exists():
        return None
    try:
        with Journal(path, RECORDS) as journal:
            return ClaimBook(journal, task).outer.get(root)
    except TouchstoneError:
        return None


async def _load_first(reader: Reader, spec: TaskSpec, peers: list[Peer]) -> Tensor:
    """W before any training: given weights from the own store, or from a peer, the submitter first. Raises
    InvalidInput where there is no peer."""
    if not spec.training.is_start_given:
        return await asyncio.to_thread(make_start, spec)
    first = OuterHeader(spec.terms.initial_weights_root, spec.terms.zero_root)
    submitter_first = sorted(peers, key=lambda one: one.account != spec.terms.submitter)
    return await _load(reader, spec, first, submitter_first)


async def _answer_self(header: OuterHeader) -> OuterHeader:
    return header


async def _load(reader: Reader, spec: TaskSpec, header: OuterHeader, peers: list[Peer]) -> Tensor:
    """W of an outer state, from the own store or from a peer that shows it."""
    ref = refer_tensor(header.weights_root, spec.terms.parameter_count)
    if not reader.store.has(ref):
        await reader.client.fetch_from_any(peers, ref)
    return await asyncio.to_thread(load_tensor, reader.store, ref)


def write_model(
    folder: Path,
    weights: Tensor,
    step: TaskStep,
    note: ModelNote | None = None,
    tokenizer: bytes | None = None,
) -> None:
    """The folder of a model: `model.safetensors` with all parameters by their names in the module, frozen
    ones included, for `load_state_dict`; the layout, and the config.json where the layout has one, for
    transformers; the tokenizer where there is one. Adapters are added to their matrices there, and lie in the
    folder `adapter` as PEFT has them. Raises InvalidInput, before anything is written, where the folder has
    the model of another step or the disk too little room, and OSError where the disk refuses a file."""
    layout = encode_layout(step.layout)
    _refuse_other(folder, layout)
    tensors, config = list_tensors(weights, step), clean_config(step.layout.config)
    large, small = dict[Path, Tensors](), dict[Path, bytes]()
    if adapters := find_adapters(tensors):
        large[folder / ADAPTER_FOLDER / "adapter_model.safetensors"] = name_for_peft(adapters)
        small[folder / ADAPTER_FOLDER / "adapter_config.json"] = describe_for_peft(
            adapters, config is not None
        )
    merged = merge(tensors, adapters)
    renamed = list_file_names((config or b"").decode())
    written = {name: new for name, new in renamed.items() if new not in merged}
    large[folder / SAFETENSORS_NAME] = {written.get(name, name): one for name, one in merged.items()}
    small[folder / LAYOUT_NAME] = layout
    if config is not None:
        small[folder / CONFIG_NAME] = config
    if note is not None:
        small[folder / NOTE_NAME] = format_note(note)
        if tokenizer is not None:
            small[folder / TOKENIZER_NAME] = tokenizer
            small[folder / "tokenizer_config.json"] = format_tokenizer_config(note.row_tokens)
    large_bytes = sum(measure_tensors(one, SAFETENSORS_METADATA) for one in large.values())
    require_room(folder, large_bytes + sum(map(len, small.values())))
    for path, content in large.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_tensors(path, content, SAFETENSORS_METADATA)
    for path, data in small.items():
        replace_file(path, data)


def _refuse_other(folder: Path, layout: bytes) -> None:
    """A file that this model does not have would stay, and another program would read both as one model."""
    held = folder / LAYOUT_NAME
    if held.is_file() and (held.stat().st_size != len(layout) or held.read_bytes() != layout):
        raise InvalidInput(
            what="the folder has the model of another task",
            expected=f"a {LAYOUT_NAME} of this task, or none",
            actual=str(held),
            remedy="Name a new folder; nothing was written.",
        )


def list_tensors(weights: Tensor, step: TaskStep) -> dict[str, Tensor]:
    """All parameters of a model by their names in the module, none of them copied."""
    program, constants = step.built.program, step.built.constants
    frozen = {buffer.constant_root: number for number, buffer in enumerate(program.buffers)}
    tensors = {
        entry.name: weights[offset : offset + entry.size].view(entry.shape)
        for entry, offset in step.layout.list_places()
    }
    for one in step.layout.frozen:
        held = constants[frozen[one.root]].view(one.shape) if one.root else fill(one.number, one.shape)
        tensors[one.name] = held
    return tensors


def clean_config(text: str) -> bytes | None:
    """The config.json of an export, without fields by which transformers would load code. text: of a layout,
    which may be a stranger's. None where it is no table in JSON, or has too many tables and lists."""
    if text.count("[") + text.count("{") > MAX_CONFIG_BRACKETS:
        return None
    try:
        content = json.loads(text, object_hook=_drop_fields)
        return json.dumps(content, indent=2).encode() + b"\n" if isinstance(content, dict) else None
    except (ValueError, RecursionError):
        return None


def _drop_fields(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name.lstrip("_") not in NOT_WRITTEN}


def require_room(folder: Path, needed_bytes: int) -> None:
    """Raises InvalidInput where the disk of a folder, which need not be there, has fewer bytes free."""
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    free_bytes = shutil.disk_usage(nearest).free
    if needed_bytes > free_bytes:
        raise InvalidInput(
            what="the disk has too little room for the model",
            expected=f"{needed_bytes} bytes free",
            actual=f"{free_bytes} bytes",
            where=str(folder),
            remedy="Make room, or name a folder on a larger disk.",
        )


# --- Keeping the last model ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class KeepModel:
    """Fetch a model, and once its bytes survive a power cut write down what stands behind its root: the
    journal tells that it is kept."""

    choice: Choice

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault or ProtocolFault where no peer serves the model now, or the disk does not
        take it."""
        claims, task = party.task.claims, party.task.task
        header = await load_outer(party, self.choice.root)
        ref = _refer(party.view, header)
        await party.client.fetch_from_any(list_peers(party, task), ref)
        await asyncio.to_thread(party.store.flush, ref.key)
        if self.choice.root not in claims.kept:
            claims.write(OuterShown(task, header.weights_root, header.momentum_root))
        party.say(f"kept {self.choice} in this home: touchstone export 0x{task.hex()}")


def list_duties(party: Party, block: int) -> Iterator[KeepModel]:
    """The newest model, while no round runs and no start is asked for, as long as this home lacks it."""
    game, choice = party.game, choose_newest(party.game)
    is_standing = get_live_round(game) is None and not is_start_alive(game, block)
    if is_standing and choice.after >= 0 and not _is_kept(party, choice):
        yield KeepModel(choice)


def _is_kept(party: Party, choice: Choice) -> bool:
    claims = party.task.claims
    return choice.root in claims.kept and party.store.has(_refer(party.view, claims.outer[choice.root]))


def _refer(view: View, header: OuterHeader) -> BlobRef:
    return refer_tensor(header.weights_root, view.spec.terms.parameter_count)
