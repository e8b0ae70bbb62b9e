"""The weights that a task begins with: drawn from a seed, or fetched under the root that its terms name."""

import asyncio
from dataclasses import dataclass

import torch
from torch import Tensor

from touchstone.node.kit.config import Notify
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.stored_tensors import load_tensor
from touchstone.node.kit.view import View
from touchstone.node.kit.waiting import telling_bytes
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_tensor
from touchstone.protocol.compute.digest import PART_ELEMENTS, tensor_bytes, tensor_root
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.compute.tolerance.compare import MAGNITUDE_LIMIT
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec


def refer_start(spec: TaskSpec) -> BlobRef:
    """Returns the blob of the first weights."""
    return refer_tensor(spec.terms.initial_weights_root, spec.terms.parameter_count)


def compute_start_bytes(training: TrainingSpec, parameter_count: int) -> int:
    """Returns how many bytes the starting weights take on each node's disk, besides all else."""
    return 4 * parameter_count if training.is_start_given else 0


@dataclass(frozen=True)
class StartWeights:
    """Brings the weights that a task begins with into the store."""

    store: BlobStore
    peers: Peers
    notify: Notify

    async def load(self, spec: TaskSpec) -> Tensor:
        """Returns W before any training, and puts it into the store. Raises ProtocolFault if the seed gives
        another root than the terms name, EnvironmentFault if no peer serves starting weights, InvalidInput if
        a weight is too large for limits."""
        if not spec.training.is_start_given:
            weights = await asyncio.to_thread(make_start, spec)
            put = (spec.terms.initial_weights_root, tensor_bytes(weights))
            await asyncio.to_thread(self.store.put_tensor, *put)
            return weights
        ref = await self.fetch(spec)
        weights = await asyncio.to_thread(load_tensor, self.store, ref)
        await asyncio.to_thread(require_sound, weights)
        return weights

    async def fetch(self, spec: TaskSpec) -> BlobRef:
        """Fetches the starting weights into the store, from the submitter or any other peer that has them.
        Raises EnvironmentFault if no peer serves them."""
        ref = refer_start(spec)
        if not self.store.has(ref):
            try:
                async with telling_bytes(
                    self.peers.client, self.notify, ref, "the weights that the task begins with"
                ):
                    await self.peers.fetch(ref, first=spec.terms.submitter)
            except (InvalidInput, ProtocolFault) as fault:
                raise EnvironmentFault(
                    what="no peer serves the task's starting weights",
                    expected=f"{ref.size_bytes} bytes from the submitter or another node of the task",
                    actual=str(fault),
                    where=str(ref.key),
                    remedy="Ask the submitter: its node has to serve the weights. Or name a folder that has "
                    "them with --weights.",
                ) from fault
        return ref


def make_start(spec: TaskSpec) -> Tensor:
    """Returns W made from the task's seed. Raises ProtocolFault if the terms name another root."""
    weights = draw_weights(get_step(spec.training).layout, spec.training.initial_seed)
    root, expected = tensor_root(weights), spec.terms.initial_weights_root
    if root != expected:
        raise ProtocolFault(
            what="the task's initial roots are not those of its seed",
            expected=expected.hex(),
            actual=root.hex(),
            remedy="Do not stake on this task.",
        )
    return weights


def require_start_here(view: View) -> None:
    """Raises EnvironmentFault if this node has a seat or a bond and lacks the starting weights. A node that
    starts with a seat or bond does not fetch them: a slow peer would keep it from its disputes."""
    spec, is_seated = view.spec, has_duties(view.game, view.account)
    ref = refer_start(spec)
    if is_seated and spec.training.is_start_given and not view.stored.has_blob(ref):
        raise EnvironmentFault(
            what="the task's starting weights are not here",
            expected=f"{ref.size_bytes} bytes in the store",
            actual="none",
            where=str(ref.key),
            remedy="They are fetched once a duty needs them; or name a folder that has them: --weights.",
        )


def require_sound(weights: Tensor) -> None:
    """Raises InvalidInput if a weight is so large that limits would accept every claimed value for it."""
    for part in torch.split(weights, PART_ELEMENTS):
        least, greatest = map(float, part.aminmax())
        relax()
        if not -MAGNITUDE_LIMIT < least <= greatest < MAGNITUDE_LIMIT:
            raise InvalidInput(
                what="the task's starting weights are too large",
                expected=f"numbers below {MAGNITUDE_LIMIT:.4g}",
                actual=max(-least, greatest),
                remedy="Do not stake on it; its submitter has to post a task with other weights.",
            )
