"""The first round: writing the trained model as a folder that `transformers` loads.

Whoever exports reads only: it needs an account, and neither coin nor stake. A settled model is for anybody; a
newer one is for staked accounts and for the task's submitter, and may still be replaced in a contest.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from protocol.actions.global_model import GlobalModel, get_start
from protocol.actions.join import read_spec
from protocol.actions.party import PartyConfig
from protocol.actions.reader import Reader, open_reader
from protocol.compute.determinism import pin_kernels
from protocol.compute.export import SAFETENSORS_METADATA, SAFETENSORS_NAME, export_tensors, export_texts
from protocol.spec.containers import ModelConfig, OuterHeader, TaskSpec
from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from protocol.spec.round import RoundState, get_merge_by, get_model, is_model_settled
from protocol.spec.task import TaskState
from protocol.spec.task_rules import refuse_malformed_task


@dataclass(frozen=True)
class Choice:
    """A model to export: its roots, and the round after which it is the global model (-1: the first one)."""

    header: OuterHeader
    after: int

    def __str__(self) -> str:
        return "the model before any training" if self.after < 0 else f"the model after round {self.after}"


async def run(config: PartyConfig, task: bytes, out: Path) -> None:
    """Write the newest global model of `task` that this account may have to `out`. Every byte is checked
    against the roots on chain.

    Raises InvalidInput (unknown task, no model for this account yet) and EnvironmentFault (no chain, nobody
    serves the model)."""
    async with open_reader(config) as reader:
        spec = read_spec(reader, task)
        refuse_malformed_task(spec)
        state = reader.view.tasks[task]
        choice = choose(state, reader.account, reader.view.network.is_staked(reader.account))
        if choice is None:
            raise explain_refusal(state, reader.view.head_block)
        weights = await load_weights(reader, task, spec, choice, config.threads)
        await asyncio.to_thread(write_model, out, weights, spec.training.model)
        newest = choose_newest(state)
        if newest.after > choice.after:
            config.say(f"{newest} is not for this account yet. {_advise(state, reader.view.head_block)}")
        is_final = choice.after < 0 or is_model_settled(state.rounds[choice.after])
        config.say(f"wrote {choice} to {out}" + ("" if is_final else "; a contest could still replace it"))


# --- Which model --------------------------------------------------------------------------------------------
def choose(state: TaskState, account: str, is_staked: bool) -> Choice | None:
    """The newest model that an account may have; None where it may have none that was trained."""
    if is_staked or account == state.terms.submitter:
        return choose_newest(state)
    return choose_settled(state)


def choose_newest(state: TaskState) -> Choice:
    """The model after the last posted root that nobody contests, else what the newest round starts from."""
    newest = state.rounds[-1]
    if newest.outer is not None and not newest.is_contested:
        return _name(state, get_model(newest), newest.index)
    return _name(state, get_start(newest), newest.index - 1)


def choose_settled(state: TaskState) -> Choice | None:
    """The newest model that nothing replaces any more; None where none was trained."""
    settled = [one for one in state.rounds if is_model_settled(one)]
    found = _name(state, get_model(settled[-1]), settled[-1].index) if settled else None
    return None if found is None or found.after < 0 else found


def _name(state: TaskState, header: OuterHeader, after: int) -> Choice:
    is_first = header.weights_root == state.terms.initial_weights_root
    return Choice(header, -1 if is_first else after)


def explain_refusal(state: TaskState, block: int) -> InvalidInput:
    """Why an account without stake gets no model, and what it can do. block: the chain's head."""
    newest = state.rounds[-1]
    return InvalidInput(
        what="no model of this task is for every account yet",
        expected="a round whose model is settled",
        actual=f"round {newest.index} at block {block}, " + ("closed" if state.is_closed else "not settled"),
        remedy=_advise(state, block),
    )


def _advise(state: TaskState, block: int) -> str:
    if state.is_closed:
        return "Nothing: the task is closed, and nothing more will be settled."
    newest = state.rounds[-1]
    due = max(estimate_settled_block(newest), block + 1)
    return (
        f"Wait until round {newest.index} is settled, at about block {due} (it is {block} now), and export "
        "again. An account with a stake (`touchstone stake`) and the task's submitter need not wait."
    )


def estimate_settled_block(state: RoundState) -> int:
    """The block from which the model after a round can be settled: known once its root is posted, before that
    the latest one. A contest moves it."""
    return get_merge_by(state) + state.terms.windows.merge if state.ready_block is None else state.ready_block


# --- Its bytes ----------------------------------------------------------------------------------------------
async def load_weights(reader: Reader, task: bytes, spec: TaskSpec, choice: Choice, threads: int) -> Tensor:
    """The weights of a model: from this home, from the task's seed, or from any node that shows them. Raises
    EnvironmentFault where none does."""
    pin_kernels(threads)
    rounds = reader.view.tasks[task].rounds
    model = GlobalModel(
        spec, reader.store, reader.client, reader.view.network, rounds.__getitem__, lambda root: None
    )
    try:
        return await model.load_weights(choice.header)
    except (ProtocolFault, EnvironmentFault, InvalidInput) as fault:
        raise EnvironmentFault(
            what=f"nobody serves {choice}",
            expected=f"its bytes from one of {len(reader.view.network.peers)} announced nodes",
            actual=str(fault),
            remedy="Try again while nodes of the task are up: each that took part serves its models.",
        ) from fault


def write_model(folder: Path, weights: Tensor, model: ModelConfig) -> None:
    """The folder: weights and configuration. Tokens are the bytes of a text, so there is no tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(export_tensors(weights, model), folder / SAFETENSORS_NAME, SAFETENSORS_METADATA)
    for name, text in export_texts(model).items():
        (folder / name).write_text(text, encoding="utf-8")
