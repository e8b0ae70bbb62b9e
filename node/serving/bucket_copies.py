"""Copies of blobs in the node's bucket."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.joining.start_weights import refer_start
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.party import Party
from touchstone.node.kit.stored_step import list_step_keys
from touchstone.node.kit.view import View
from touchstone.node.records.round_seats import find_own_slot
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.store.bucket import Bucket


@dataclass(frozen=True)
class CopyToBucket:
    """Upload what is missing in the bucket, and delete what is not on the disk any more. is_large: of what is
    there for the whole task; that may take hours, and what rounds need does not wait for it."""

    is_large: bool = False

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault where the storage fails, InvalidInput where anybody may read the bucket.
        Peers get the bytes from the disk then."""
        bucket = party.bucket
        assert bucket is not None, "only a node with a bucket has this duty"
        if bucket.there is None:
            there = await bucket.learn()
            party.say(
                f"the bucket {bucket.settings.bucket} takes copies; it has {len(there)} of this node's blobs"
            )
        if not self.is_large:
            await bucket.remove(list_gone(party, bucket))
        # What is asked for soon goes first, and what is wanted may change meanwhile.
        while missing := [key for key in list_missing(party, bucket) if _is_large(key) == self.is_large]:
            await bucket.put(missing[0], party.store.get_path(missing[0]))


def list_copies(party: Party, block: int) -> Iterator[Duty]:
    """At most two duties, while bucket and disk differ."""
    bucket = party.bucket
    if bucket is None:
        return
    missing = {_is_large(key) for key in list_missing(party, bucket)}
    if bucket.there is None or False in missing or list_gone(party, bucket):
        yield CopyToBucket()
    if bucket.there is not None and True in missing:
        yield CopyToBucket(is_large=True)


def _is_large(key: BlobKey) -> bool:
    return key.kind is not BlobKind.DELTA


def list_gone(party: Party, bucket: Bucket) -> list[BlobKey]:
    """Copies of what is not on the disk any more."""
    return [key for key in bucket.there or {} if party.store.get_size_bytes(key) is None]


def list_missing(party: Party, bucket: Bucket) -> list[BlobKey]:
    """What belongs into the bucket and is not whole there, the newest claim first."""
    there, missing = bucket.there or {}, list[BlobKey]()
    for key in _list_wanted(party.view):
        size = party.store.get_size_bytes(key)
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
