"""The journal's records of this node's own claims and merges of one task, indexed.

Read once at the start, then kept in step with every record that is written through it.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from protocol.actions.merge.records import (
    ClaimBoundaryReached,
    ClaimFinished,
    ClaimSaltsDrawn,
    ContestMade,
    MergeMade,
    WorkShown,
    compute_basis,
)
from protocol.adapters.journal import Journal
from protocol.spec.codec import compute_outer_root
from protocol.spec.containers import OuterHeader, StateHeader
from protocol.spec.game.state import GameRound


class MergeKey(NamedTuple):
    """What a merge is of: slots in shard order, and the roots of their claims. Roots alone would not do: two
    slots may have the same one."""

    round: int
    base_root: bytes
    slots: tuple[int, ...]
    claim_roots: tuple[bytes, ...]


class ClaimName(NamedTuple):
    """A claim by what its work leaf names. A root alone would not do: another seat may have committed to the
    same one, or the same seat in a later round."""

    round: int
    solver: str
    claim_root: bytes


@dataclass(frozen=True)
class WorkProof:
    """The work leaf of a claim, the last one of its tree, and its path. Twin: `StatementTypes.sol`."""

    delta_root: bytes
    carried_root: bytes
    path: tuple[bytes, ...]


@dataclass
class ClaimWork:
    """This node's claim of one round on one base root and beacon, as far as it is. boundaries: by number."""

    salts: tuple[bytes, ...] = ()
    boundaries: dict[int, StateHeader] = field(default_factory=dict)
    finished: ClaimFinished | None = None


@dataclass
class ClaimBook:
    """works: by round and basis; merges: by what they are of; proofs: work leaves that were checked against
    their claim; contests: by round, root, the end of its window and attempt.

    In memory alone, since it can be had again: outer, what stands behind outer roots; fetched, claims whose
    pseudo-gradient is in the store; wanted, merges that a peer asked to sign; signatures of merges by seat
    number; seen, when something was first seen to be due."""

    journal: Journal
    task: bytes
    works: dict[tuple[int, bytes], ClaimWork] = field(default_factory=lambda: defaultdict(ClaimWork))
    merges: dict[MergeKey, MergeMade] = field(default_factory=dict)
    outer: dict[bytes, OuterHeader] = field(default_factory=dict)
    contests: dict[tuple[int, bytes, int, int], ContestMade] = field(default_factory=dict)
    proofs: dict[ClaimName, WorkProof] = field(default_factory=dict)
    fetched: set[ClaimName] = field(default_factory=set)
    wanted: set[MergeKey] = field(default_factory=set)
    signatures: dict[MergeKey, dict[int, bytes]] = field(default_factory=dict)
    seen: dict[tuple[int, Hashable], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for record in self.journal.replay():
            self._index(record)

    def write(self, record: Any) -> None:
        """Append a record; on return it is on disk and indexed."""
        self.journal.append(record)
        self._index(record)

    def find(self, game_round: GameRound) -> ClaimWork:
        """The work on a round's base root and beacon that stand; an empty one where there is none."""
        assert game_round.beacon is not None
        return self.works[game_round.index, compute_basis(game_round.base_root, game_round.beacon)]

    def _index(self, record: Any) -> None:
        if getattr(record, "task", None) != self.task:
            return
        if isinstance(record, MergeMade):
            self._index_merge(record)
        elif isinstance(record, WorkShown):
            name = ClaimName(record.round, record.solver, record.claim_root)
            self.proofs[name] = WorkProof(record.delta_root, record.carried_root, record.path)
        elif isinstance(record, ContestMade):
            attempt = (record.round, record.root, record.root_until, record.attempt)
            self.contests[attempt] = record
        elif isinstance(record, ClaimSaltsDrawn | ClaimBoundaryReached | ClaimFinished):
            self._index_claim(self.works[record.round, record.basis], record)

    def _index_merge(self, record: MergeMade) -> None:
        header = OuterHeader(record.weights_root, record.momentum_root)
        key = MergeKey(record.round, record.base_root, record.slots, record.claim_roots)
        self.merges[key] = record
        self.outer[compute_outer_root(header)] = header

    @staticmethod
    def _index_claim(work: ClaimWork, record: ClaimSaltsDrawn | ClaimBoundaryReached | ClaimFinished) -> None:
        match record:
            case ClaimSaltsDrawn():  # The first record of a claim; another one begins it anew.
                work.salts, work.finished = record.salts, None
                work.boundaries.clear()
            case ClaimFinished():
                work.finished = record
            case ClaimBoundaryReached():
                roots = (record.weights_root, record.first_moment_root, record.second_moment_root)
                work.boundaries[record.boundary] = StateHeader(*roots, record.local_step, record.global_step)
