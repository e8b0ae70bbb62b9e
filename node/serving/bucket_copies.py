"""Copies of blobs in the node's bucket."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.config import Notify
from touchstone.node.kit.stored_step import list_step_keys
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.start_weights import refer_start
from touchstone.node.records.round_seats import find_own_slot
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.store.bucket import Bucket


@dataclass(frozen=True)
class CopyToBucket:
    """Upload what the bucket lacks, and delete what is not on the disk any more. If `is_large`, upload the
    blobs of the whole task; that may take hours, and blobs of rounds do not wait for it."""

    is_large: bool = False

    async def perform(self, room: "BucketCopies") -> None:
        """Uploads and deletes. Raises EnvironmentFault if the storage fails, InvalidInput if anybody may read
        the bucket. Peers get the bytes from the disk then."""
        bucket = room.bucket
        assert bucket is not None, "only a node with a bucket has this duty"
        if bucket.there is None:
            there = await bucket.learn()
            room.notify(
                f"the bucket {bucket.settings.bucket} takes copies; it has {len(there)} of this node's blobs"
            )
        if not self.is_large:
            await bucket.remove(list_gone(room.get_view(), bucket))
        # Blobs that are asked for soon go first, and the list may change meanwhile.
        while missing := [
            key for key in list_missing(room.get_view(), bucket) if _is_large(key) == self.is_large
        ]:
            await bucket.put(missing[0], room.store.get_path(missing[0]))


@dataclass(frozen=True)
class BucketCopies:
    """Keeps the bucket equal to the disk."""

    get_view: GetView
    store: BlobStore
    notify: Notify
    bucket: Bucket | None


def list_duties(bucket: Bucket | None, view: View, block: int) -> Iterator[CopyToBucket]:
    """Lists at most two duties, while the bucket differs from the disk."""
    if bucket is None:
        return
    missing = {_is_large(key) for key in list_missing(view, bucket)}
    if bucket.there is None or False in missing or list_gone(view, bucket):
        yield CopyToBucket()
    if bucket.there is not None and True in missing:
        yield CopyToBucket(is_large=True)


def _is_large(key: BlobKey) -> bool:
    return key.kind is not BlobKind.DELTA


def list_gone(view: View, bucket: Bucket) -> list[BlobKey]:
    """Returns copies of blobs that are not on the disk any more."""
    return [key for key in bucket.there or {} if view.stored.get_size_bytes(key) is None]


def list_missing(view: View, bucket: Bucket) -> list[BlobKey]:
    """Returns blobs that the bucket must have and lacks in whole or in part, those of the newest claim
    first."""
    there, missing = bucket.there or {}, list[BlobKey]()
    for key in _list_wanted(view):
        size = view.stored.get_size_bytes(key)
        if size is not None and there.get(key) != size and bucket.may_upload(key):
            missing.append(key)
    return missing


def _list_wanted(view: View) -> Iterator[BlobKey]:
    game, spec = view.game, view.spec
    for game_round in sorted(game.rounds.values(), key=lambda one: -one.index):
        slot = find_own_slot(game, game_round, view.account)
        claim = None if slot is None else game_round.claims.get(slot)
        if claim is not None and game_round.beacon is not None:
            finished = view.claims.find(game_round).finished
            if finished is not None and finished.claim_root == claim.claim_root:
                yield BlobKey(BlobKind.DELTA, finished.delta_root)
    if view.account == game.terms.submitter:
        if spec.training.is_start_given:
            yield refer_start(spec).key
        yield from sorted(list_step_keys(spec.training), key=str)
        yield BlobKey(BlobKind.DATASET, spec.training.dataset_root)
