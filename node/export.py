"""Writing the trained model as a folder that `transformers` loads."""

import asyncio
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from protocol.actions.join import catch_up, join_task
from protocol.actions.party import Party, PartyConfig, open_party
from protocol.compute.export import SAFETENSORS_METADATA, SAFETENSORS_NAME, export_tensors, export_texts
from protocol.spec.containers import ModelConfig, OuterHeader
from protocol.spec.round import RoundState


async def run(config: PartyConfig, task: bytes, out: Path) -> None:
    """Write the newest global model of `task` to `out`. Every byte is checked against the roots on chain.

    Raises InvalidInput (unknown task) and EnvironmentFault (no chain, nobody serves the model)."""
    async with open_party(config) as party:
        await catch_up(party)
        await join_task(party, task)
        outer = await party.model.load(get_newest(party))
        await asyncio.to_thread(write_model, out, outer.weights, party.spec.training.model)
        party.say(f"wrote the model to {out}")


def get_newest(party: Party) -> OuterHeader:
    """The roots of the newest model: after the last merged round, else what the newest round starts from."""
    newest: RoundState = party.view.tasks[party.task].rounds[-1]
    if newest.outer is not None and not newest.is_contested:
        return OuterHeader(newest.outer.weights_root, newest.outer.momentum_root)
    return OuterHeader(newest.weights_root, newest.momentum_root)


def write_model(folder: Path, weights: Tensor, model: ModelConfig) -> None:
    """The folder: weights and configuration. Tokens are the bytes of a text, so there is no tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(export_tensors(weights, model), folder / SAFETENSORS_NAME, SAFETENSORS_METADATA)
    for name, text in export_texts(model).items():
        (folder / name).write_text(text, encoding="utf-8")
