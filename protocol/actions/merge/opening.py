"""Openings of this node's own claims: of a boundary, and of the work leaf with the pseudo-gradient."""

from protocol.actions.merge.book import ClaimWork, WorkProof
from protocol.actions.runtime.party import Party
from protocol.adapters.chain.types import BoundaryProof
from protocol.spec import merkle
from protocol.spec.claim_tree import compute_carried_root, compute_work_leaf
from protocol.spec.codec import compute_boundary_leaf, compute_state_root


def compute_leaves(party: Party, index: int, work: ClaimWork, delta_root: bytes) -> list[bytes]:
    """The leaves of the tree of a claim of this node on round `index`: all boundaries, then the work leaf."""
    domain, account, segments = party.task.domain, party.account, len(work.boundaries) - 1
    leaves = [
        compute_boundary_leaf(
            domain, index, account, b, work.salts[b], compute_state_root(work.boundaries[b])
        )
        for b in range(segments + 1)
    ]
    carried = compute_carried_root(work.boundaries[segments])
    return [*leaves, compute_work_leaf(domain, index, account, segments, delta_root, carried)]


def list_leaves(party: Party, index: int) -> list[bytes]:
    """The leaves of this node's finished claim on a round, on the base root and beacon that stand."""
    work = get_finished(party, index)
    assert work.finished is not None
    return compute_leaves(party, index, work, work.finished.delta_root)


def get_finished(party: Party, index: int) -> ClaimWork:
    """This node's finished claim on a round. Raises KeyError where it has none."""
    work = party.task.claims.find(party.game.rounds[index])
    if work.finished is None:
        raise KeyError(index)
    return work


def open_boundary(party: Party, index: int, boundary: int) -> BoundaryProof:
    """The opening of one boundary of this node's claim."""
    work, path = get_finished(party, index), _compute_path(party, index, boundary)
    return BoundaryProof(work.boundaries[boundary], work.salts[boundary], path)


def open_work(party: Party, index: int) -> WorkProof:
    """The opening of the work leaf of this node's claim."""
    finished = get_finished(party, index).finished
    assert finished is not None
    path = _compute_path(party, index, finished.segments + 1)
    return WorkProof(finished.delta_root, finished.carried_root, path)


def _compute_path(party: Party, index: int, leaf: int) -> tuple[bytes, ...]:
    return tuple(merkle.compute_path(merkle.compute_levels(list_leaves(party, index)), leaf))


class OwnClaims:
    """The same for rooms that must not know of this one."""

    def __init__(self, party: Party) -> None:
        self._party = party

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        """The opening of one boundary of this node's claim on round `index`."""
        return open_boundary(self._party, index, boundary)

    def open_work(self, index: int) -> WorkProof:
        """The opening of the work leaf of this node's claim on round `index`."""
        return open_work(self._party, index)
