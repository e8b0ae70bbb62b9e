"""Keeps copies in this node's bucket of what any account may read, now or once a round closes.

    pseudo-gradient of an own claim    from the commitment on: until the close the bucket is private, and no
                                       peer is sent there
    of the submitter: the dataset, and the weights that the task begins with, where they are given

Nothing else goes there. States, traces and single steps are for few accounts, some of them for the drawn
auditors alone. What is deleted from the disk is deleted from the bucket.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from protocol.actions.merge.merge_records import find_own_slot
from protocol.actions.runtime.party import Duty, Party
from protocol.actions.runtime.task_inputs import refer_start
from protocol.adapters.blobs import BlobKey, BlobKind
from protocol.adapters.bucket import Bucket


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


def list_duties(party: Party, block: int) -> Iterator[Duty]:
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
    for key in _list_wanted(party):
        size = party.store.get_size_bytes(key)
        if size is not None and there.get(key) != size and bucket.may_upload(key):
            missing.append(key)
    return missing


def _list_wanted(party: Party) -> Iterator[BlobKey]:
    game, spec = party.game, party.task.spec
    for game_round in sorted(game.rounds.values(), key=lambda one: -one.index):
        slot = find_own_slot(game, game_round, party.account)
        claim = None if slot is None else game_round.claims.get(slot)
        if claim is not None and game_round.beacon is not None:
            finished = party.task.claims.find(game_round).finished
            if finished is not None and finished.claim_root == claim.claim_root:
                yield BlobKey(BlobKind.DELTA, finished.delta_root)
    if party.account == game.terms.submitter:
        if spec.training.is_start_given:
            yield refer_start(spec).key
        yield BlobKey(BlobKind.DATASET, spec.training.dataset_root)
