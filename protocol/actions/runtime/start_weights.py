"""The weights that a task begins with: made from its seed, or given and fetched from its nodes.

Given ones are a tensor under a root that the task's terms name. It comes in chunks, each proven as it comes,
from the submitter or from any other node of the task: each keeps it as long as it works on the task.
"""

import asyncio

import torch
from torch import Tensor

from protocol.actions.runtime.party import Party, list_peers
from protocol.actions.stored_tensors import load_tensor
from protocol.adapters.blobs import BlobRef, refer_tensor
from protocol.compute.audit.compare import UNSOUND_FROM
from protocol.compute.digest import PART_ELEMENTS, tensor_bytes, tensor_root
from protocol.compute.model.reference_model import init_parameters
from protocol.compute.program.tensor_allocator import relax
from protocol.spec.containers import TaskSpec, TrainingSpec
from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from protocol.spec.game.pools import find_seat


def refer_start(spec: TaskSpec) -> BlobRef:
    """The blob of the first weights."""
    return refer_tensor(spec.terms.initial_weights_root, spec.terms.parameter_count)


def compute_start_bytes(training: TrainingSpec, parameter_count: int) -> int:
    """What given weights take of each node's disk, beside all else."""
    return 4 * parameter_count if training.is_start_given else 0


async def load_start(party: Party, task: bytes, spec: TaskSpec) -> Tensor:
    """W before any training; it is in the store then. Raises ProtocolFault where the seed does not give the
    root of the terms, EnvironmentFault where no peer serves given weights, InvalidInput where no result on
    them could be accepted."""
    if not spec.training.is_start_given:
        weights = await asyncio.to_thread(make_start, spec)
        put = (spec.terms.initial_weights_root, tensor_bytes(weights))
        await asyncio.to_thread(party.store.put_tensor, *put)
        return weights
    ref = await fetch_start(party, task, spec)
    weights = await asyncio.to_thread(load_tensor, party.store, ref)
    await asyncio.to_thread(require_sound, weights)
    return weights


def make_start(spec: TaskSpec) -> Tensor:
    """W from the task's seed. Raises ProtocolFault where the terms name another root."""
    weights = init_parameters(spec.training.model, spec.training.initial_seed)
    root, expected = tensor_root(weights), spec.terms.initial_weights_root
    if root != expected:
        raise ProtocolFault(
            what="the task's initial roots are not those of its seed",
            expected=expected.hex(),
            actual=root.hex(),
            remedy="Do not stake on this task.",
        )
    return weights


async def fetch_start(party: Party, task: bytes, spec: TaskSpec) -> BlobRef:
    """Have given weights in the store, from the submitter or any other peer that has them. Raises
    EnvironmentFault where none serves them."""
    ref = refer_start(spec)
    if not party.store.has(ref):
        party.say(f"fetching the weights that the task begins with, {ref.size_bytes / 1e6:.1f} MB")
        try:
            await party.client.fetch_from_any(list_peers(party, task, first=spec.terms.submitter), ref)
        except (InvalidInput, ProtocolFault) as fault:
            raise EnvironmentFault(
                what="no peer serves the weights that the task begins with",
                expected=f"{ref.size_bytes} bytes from the submitter or another node of the task",
                actual=str(fault),
                where=str(ref.key),
                remedy="Ask the submitter, who has to serve them; or name a folder that has them: --weights.",
            ) from fault
    return ref


def require_start_here(party: Party) -> None:
    """Raises EnvironmentFault where this node has a seat and lacks the given weights. A node that starts with
    a seat asks nobody for them: who serves them as slowly as it may would keep it from its disputes."""
    spec, is_seated = party.task.spec, find_seat(party.game, party.account) is not None
    ref = refer_start(spec)
    if is_seated and spec.training.is_start_given and not party.store.has(ref):
        raise EnvironmentFault(
            what="the weights that the task begins with are not here",
            expected=f"{ref.size_bytes} bytes in the store",
            actual="none",
            where=str(ref.key),
            remedy="They are fetched once a duty needs them; or name a folder that has them: --weights.",
        )


def require_sound(weights: Tensor) -> None:
    """Raises InvalidInput for a weight so large that every comparison refuses it: all honest work on it would
    go unpaid."""
    for part in torch.split(weights, PART_ELEMENTS):
        least, greatest = map(float, part.aminmax())
        relax()
        if not -UNSOUND_FROM < least <= greatest < UNSOUND_FROM:
            raise InvalidInput(
                what="the weights that the task begins with are too large",
                expected=f"numbers below {UNSOUND_FROM:.4g}",
                actual=max(-least, greatest),
                remedy="Do not stake on it; its submitter has to post a task with other weights.",
            )
