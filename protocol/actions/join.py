"""Joining a task: read it from the chain, refuse it when it could hurt, fetch its data.

All of this happens before any stake is exposed for it.
"""

import asyncio
from typing import Protocol

from protocol.actions.party import Party
from protocol.actions.rehearse import rehearse_task
from protocol.actions.view import View
from protocol.adapters.blobs import BlobKey, BlobKind, BlobRef
from protocol.adapters.chain import Chain
from protocol.compute.data import open_corpus
from protocol.compute.determinism import pin_kernels
from protocol.compute.facts import require_step_root
from protocol.compute.liveness import require_live_parameters
from protocol.compute.program import require_program
from protocol.spec.codec import decode_training
from protocol.spec.containers import TaskSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.task_rules import refuse_malformed_task


async def catch_up(party: Party) -> None:
    """Fold all events up to the head."""
    batch = await anext(party.batches)
    party.view.take(batch)


async def join_task(party: Party, task: bytes) -> None:
    """Work on `task` from now on. Raises InvalidInput for an unknown or malformed task, and what
    fetching and the rehearsal of a step raise."""
    pin_kernels(party.config.threads)
    spec = read_spec(party, task)
    refuse_malformed_task(spec)
    await asyncio.to_thread(require_live_parameters, spec.training)
    await asyncio.to_thread(require_program, spec.training)
    await asyncio.to_thread(require_step_root, spec)
    data = await fetch_dataset(party, spec)
    corpus = await asyncio.to_thread(open_corpus, data, spec.training)
    await rehearse_task(party, task, spec, corpus)
    party.join(task, spec, corpus)
    await party.model.load_start(0)


class Known(Protocol):
    """A chain, and what it tells."""

    @property
    def chain(self) -> Chain:
        """Where it is read."""

    @property
    def view(self) -> View:
        """All that it told."""


def read_spec(party: Known, task: bytes) -> TaskSpec:
    """The spec as it stands in the task's creation event."""
    state = party.view.tasks.get(task)
    if state is None:
        known = ", ".join(f"0x{name.hex()}" for name in party.view.tasks) or "none"
        raise InvalidInput(
            what="unknown task",
            expected=f"a task of registry {party.chain.deployment.registry}: {known}",
            actual=f"0x{task.hex()}",
            remedy="Copy the id from `touchstone status` or from who posted it.",
        )
    return TaskSpec(state.terms, decode_training(state.training))


async def fetch_dataset(party: Party, spec: TaskSpec) -> bytes:
    """The raw tokens, from the store, the submitter or any other peer."""
    training, submitter = spec.training, spec.terms.submitter
    size = (training.token_count + training.heldout_tokens) * training.token_bytes
    ref = BlobRef(BlobKey(BlobKind.DATASET, training.dataset_root), size)
    if not party.store.has(ref):
        party.say(f"fetching the dataset, {size / 1e6:.1f} MB")
        peers = sorted(party.view.network.others(party.account), key=lambda peer: peer.account != submitter)
        await party.client.fetch_from_any(peers, ref)
    return await asyncio.to_thread(party.store.get, ref)
