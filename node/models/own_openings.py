"""Openings of this node's own claims."""

from collections.abc import Mapping

from touchstone.node.kit.view import GetView, View
from touchstone.node.records.claim_records import ClaimWork, WorkProof
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.claim_tree import compute_carried_root, compute_work_leaf
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.state_headers import StateHeader


def compute_leaves(view: View, index: int, work: ClaimWork, delta_root: bytes) -> list[bytes]:
    """Returns the leaves of the tree of this node's claim on round `index`: all boundaries, then the work
    leaf."""
    domain, account, segments = view.domain, view.account, len(work.boundaries) - 1
    leaves = [
        compute_boundary_leaf(
            domain, index, account, b, work.salts[b], compute_state_root(work.boundaries[b])
        )
        for b in range(segments + 1)
    ]
    carried = compute_carried_root(work.boundaries[segments])
    return [*leaves, compute_work_leaf(domain, index, account, segments, delta_root, carried)]


def list_leaves(view: View, index: int) -> list[bytes]:
    """Returns the leaves of this node's finished claim on a round, on its present base root and beacon."""
    work = get_finished(view, index)
    assert work.finished is not None
    return compute_leaves(view, index, work, work.finished.delta_root)


def get_finished(view: View, index: int) -> ClaimWork:
    """Returns this node's finished claim on a round. Raises KeyError if it has none."""
    work = view.claims.find(view.game.rounds[index])
    if work.finished is None:
        raise KeyError(index)
    return work


def find_own_root(view: View, index: int) -> bytes | None:
    """Returns the root of this node's finished claim on a round; None if it has none."""
    game_round = view.game.rounds.get(index)
    if game_round is None or game_round.beacon is None:
        return None
    finished = view.claims.find(game_round).finished
    return None if finished is None else finished.claim_root


def open_boundary(view: View, index: int, boundary: int) -> BoundaryProof:
    """Returns the opening of one boundary of this node's claim."""
    work, path = get_finished(view, index), _compute_path(view, index, boundary)
    return BoundaryProof(work.boundaries[boundary], work.salts[boundary], path)


def list_own_boundaries(view: View, index: int) -> Mapping[int, StateHeader]:
    """Returns the boundaries of this node's own claim of a round; none if it has no claim."""
    try:
        return get_finished(view, index).boundaries
    except KeyError:
        return {}


def compute_own_leaf(view: View, index: int, boundary: int) -> bytes:
    """Returns the leaf of one boundary of this node's claim, without its path."""
    work = get_finished(view, index)
    place = (view.domain, index, view.account, boundary, work.salts[boundary])
    return compute_boundary_leaf(*place, compute_state_root(work.boundaries[boundary]))


def open_work(view: View, index: int) -> WorkProof:
    """Returns the opening of the work leaf of this node's claim."""
    finished = get_finished(view, index).finished
    assert finished is not None
    path = _compute_path(view, index, finished.segments + 1)
    return WorkProof(finished.delta_root, finished.carried_root, path)


def _compute_path(view: View, index: int, leaf: int) -> tuple[bytes, ...]:
    return tuple(merkle.compute_path(merkle.compute_levels(list_leaves(view, index)), leaf))


class OwnClaims:
    """Opens this node's own claims, for rooms that must not import this module."""

    def __init__(self, get_view: GetView) -> None:
        """`get_view` returns the present view."""
        self._look = get_view

    def list_boundaries(self, index: int) -> Mapping[int, StateHeader]:
        """Returns the boundaries of this node's claim on round `index`; none if it has none."""
        return list_own_boundaries(self._look(), index)

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        """Returns the opening of one boundary of this node's claim on round `index`."""
        return open_boundary(self._look(), index, boundary)

    def open_work(self, index: int) -> WorkProof:
        """Returns the opening of the work leaf of this node's claim on round `index`."""
        return open_work(self._look(), index)
