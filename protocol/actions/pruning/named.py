"""Which blobs the records of a task name, whether they are still needed or not.

What no record names (a state that is being fetched or replayed, a pseudo-gradient of another solver after a
restart) is a stray: `duties.py` deletes it later, and never at first sight.
"""

from collections.abc import Iterable, Iterator

from protocol.actions.audit.book import AuditBook
from protocol.actions.merge.book import ClaimBook
from protocol.adapters.blobs import BlobKey, BlobKind
from protocol.adapters.journal import Journal
from protocol.spec.containers import OuterHeader, StateHeader


def name_tensors(*roots: bytes) -> Iterator[BlobKey]:
    """Tensors by their roots."""
    return (BlobKey(BlobKind.TENSOR, root) for root in roots)


def name_delta(root: bytes) -> BlobKey:
    """A pseudo-gradient by its root."""
    return BlobKey(BlobKind.DELTA, root)


def name_state(header: StateHeader) -> Iterator[BlobKey]:
    """W, m and v of a state."""
    return name_tensors(header.weights_root, header.first_moment_root, header.second_moment_root)


def name_outer(header: OuterHeader) -> Iterator[BlobKey]:
    """W and momentum of an outer state."""
    return name_tensors(header.weights_root, header.momentum_root)


def list_named(claims: ClaimBook, audits: AuditBook) -> frozenset[BlobKey]:
    """Every blob that a record of the task names, or that was fetched for it by name."""
    return frozenset([*_list_claimed(claims), *_list_audited(audits)])


def list_foreign(journal: Journal, task: bytes) -> frozenset[BlobKey]:
    """The same of all other tasks of the journal."""
    others = {getattr(record, "task", task) for record in journal.replay()} - {task}
    return frozenset(
        key for one in others for key in list_named(ClaimBook(journal, one), AuditBook(journal, one))
    )


def _list_claimed(claims: ClaimBook) -> Iterator[BlobKey]:
    for work in list(claims.works.values()):
        yield from _chain(name_state(header) for header in list(work.boundaries.values()))
        if work.finished is not None:
            yield name_delta(work.finished.delta_root)
    for made in list(claims.merges.values()):
        yield from name_tensors(made.weights_root, made.momentum_root)
    yield from _chain(name_outer(header) for header in list(claims.outer.values()))
    yield from (name_delta(proof.delta_root) for proof in list(claims.proofs.values()))


def _list_audited(audits: AuditBook) -> Iterator[BlobKey]:
    for sealed in list(audits.seals.values()):
        yield from _chain(map(name_state, (sealed.start.header, sealed.own_end)))
    for vote in list(audits.votes.values()):
        if vote.ends is not None:
            yield from _chain(map(name_state, (vote.ends.end.header, vote.ends.last.header)))
            yield name_delta(vote.ends.work.delta_root)


def _chain(groups: Iterable[Iterable[BlobKey]]) -> Iterator[BlobKey]:
    return (key for group in groups for key in group)
