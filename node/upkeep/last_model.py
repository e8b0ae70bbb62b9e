"""Keeps a task's last model in a submitter's home."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.config import Notify
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.global_model import GlobalModel
from touchstone.node.models.model_choice import Choice, choose_newest
from touchstone.node.records.claim_records import ClaimBook, OuterShown
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_tensor
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.spec.game.timing import get_live_round, is_start_alive
from touchstone.protocol.spec.state_headers import OuterHeader


@dataclass(frozen=True)
class KeepModel:
    """Fetch a model, then record the outer header of its root. The record is written once the bytes would
    survive a power cut, and says that this home keeps the model."""

    choice: Choice

    async def perform(self, room: "LastModel") -> None:
        """Fetches the model. Raises EnvironmentFault or ProtocolFault if no peer serves it now, or the disk
        refuses it."""
        claims, task = room.claims, room.get_view().task
        header = await room.model.load_outer(self.choice.root)
        ref = _refer(room.get_view(), header)
        await room.client.fetch_from_any(room.peers.list(), ref)
        await asyncio.to_thread(room.store.flush, ref.key)
        if self.choice.root not in claims.kept:
            claims.write(OuterShown(task, header.weights_root, header.momentum_root))
        room.notify(f"kept {self.choice} in this home: touchstone export 0x{task.hex()}")


def list_duties(view: View, block: int) -> Iterator[KeepModel]:
    """Yields the duty to fetch the newest model if this home lacks it, while no round runs and none is about
    to start."""
    game, choice = view.game, choose_newest(view.game)
    is_standing = get_live_round(game) is None and not is_start_alive(game, block)
    if is_standing and choice.after >= 0 and not _is_kept(view, choice):
        yield KeepModel(choice)


def _is_kept(view: View, choice: Choice) -> bool:
    claims = view.claims
    return choice.root in claims.kept and view.stored.has_blob(_refer(view, claims.outer[choice.root]))


def _refer(view: View, header: OuterHeader) -> BlobRef:
    return refer_tensor(header.weights_root, view.spec.terms.parameter_count)


@dataclass(frozen=True)
class LastModel:
    """Keeps the last model of a task on the disk once the task ends."""

    get_view: GetView
    store: BlobStore
    client: BlobClient
    peers: Peers
    claims: ClaimBook
    notify: Notify
    model: GlobalModel
