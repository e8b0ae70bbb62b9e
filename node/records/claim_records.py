"""Records and indexes a node's claims and merges in the journal.

Records have the fields that recovery needs and that nothing else knows. `basis` is a hash of what a claim was
trained from (`compute_basis`). After a reorg or the fall of a root, a round may have another base root or
beacon. Then new records have another basis, and records of the old basis do not count.

`ClaimBook` indexes the records of this node's own claims and merges of one task. It is read once at the
start, then updated with every record that is written through it.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from touchstone.node.records.once_per_block import OncePerBlock
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.messages import Signature, Word
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.signed_reports import HeldoutReport, LossReport
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader


def compute_basis(base_root: bytes, beacon: bytes) -> bytes:
    """Returns a hash of what a round's claim is trained from: base root, beacon and carried moments."""
    return sha256(base_root + beacon).digest()


@dataclass(frozen=True)
class ClaimSaltsDrawn:
    """Written before training: the salts of boundaries 0 .. n of a round's claim. Earlier records of this
    claim do not count any more."""

    task: Word
    round: int
    basis: Word
    salts: tuple[Word, ...]


@dataclass(frozen=True)
class ClaimBoundaryReached:
    """Written during training: the roots of a boundary's state, which is in the store."""

    task: Word
    round: int
    basis: Word
    boundary: int
    weights_root: Word
    first_moment_root: Word
    second_moment_root: Word
    local_step: int
    global_step: int


@dataclass(frozen=True)
class SegmentTrained:
    """Written when a segment is trained, before its boundary: the losses of its steps, in millionths of a
    nat."""

    task: Word
    round: int
    basis: Word
    segment: int
    steps: int
    first_micronats: int
    last_micronats: int
    total_micronats: int


@dataclass(frozen=True)
class ClaimFinished:
    """Written before the claim is sent: its contents. A node that finds this record never commits to anything
    else on this basis, unless it began the claim anew later; then this one was never sent."""

    task: Word
    round: int
    basis: Word
    claim_root: Word
    segments: int
    delta_root: Word
    carried_root: Word


@dataclass(frozen=True)
class WorkShown:
    """The checked work leaf of another solver's claim. A contest of the merged root needs it, and its solver
    may not show it again."""

    task: Word
    round: int
    solver: str
    claim_root: Word
    delta_root: Word
    carried_root: Word
    path: tuple[Word, ...]


@dataclass(frozen=True)
class MergeMade:
    """Written before this node signs a merge: the outer step that it computed over the claims of these slots,
    in shard order."""

    task: Word
    round: int
    base_root: Word
    slots: tuple[int, ...]
    claim_roots: tuple[Word, ...]
    weights_root: Word
    momentum_root: Word


@dataclass(frozen=True)
class OuterShown:
    """The outer header of a model that this home keeps, as a peer showed it. Written after the weights are on
    disk."""

    task: Word
    weights_root: Word
    momentum_root: Word


@dataclass(frozen=True)
class ContestMade:
    """Written before a contest is sent: its salt. It keeps each attempt from being opened twice."""

    task: Word
    round: int
    root: Word
    root_until: int
    attempt: int
    salt: Word


@dataclass(frozen=True)
class LossReported:
    """Written before anybody sees it: this node's report of the losses of a claim. It never reports other
    losses of that claim."""

    task: Word
    report: LossReport
    signature: Signature


@dataclass(frozen=True)
class HeldoutReported:
    """Written before anybody sees it: this node's report of a model's held-out loss. It never reports another
    loss of that model."""

    task: Word
    report: HeldoutReport
    signature: Signature


RECORDS = (
    ClaimSaltsDrawn, ClaimBoundaryReached, SegmentTrained, ClaimFinished, WorkShown, MergeMade, OuterShown,
    ContestMade, LossReported, HeldoutReported,
)  # fmt: skip
"""All record types of this room."""


class MergeKey(NamedTuple):
    """Identifies a merge: slots in shard order, and the roots of their claims. Roots alone are not enough,
    because two slots may have the same one."""

    round: int
    base_root: bytes
    slots: tuple[int, ...]
    claim_roots: tuple[bytes, ...]


class ClaimName(NamedTuple):
    """Identifies a claim by the fields of its work leaf. A root alone is not enough: another seat may have
    the same root, or the same seat in a later round."""

    round: int
    solver: str
    claim_root: bytes


@dataclass(frozen=True)
class WorkProof:
    """The work leaf of a claim, which is the last leaf of its tree, and its path. Twin:
    `StatementTypes.sol`."""

    delta_root: bytes
    carried_root: bytes
    path: tuple[bytes, ...]


@dataclass
class ClaimWork:
    """This node's claim of one round on one base root and beacon, as far as it is trained. `boundaries` are
    by number; `trained` has the losses of each segment."""

    salts: tuple[bytes, ...] = ()
    boundaries: dict[int, StateHeader] = field(default_factory=dict)
    trained: dict[int, SegmentTrained] = field(default_factory=dict)
    finished: ClaimFinished | None = None


@dataclass
class WantedMerges:
    """Merges that solvers of the waiting round asked this node to sign, and that it has not computed yet.
    Only the last request of each account is kept."""

    by_account: dict[str, MergeKey] = field(default_factory=dict)
    notices: OncePerBlock = field(default_factory=OncePerBlock)

    def note(self, account: str, key: MergeKey) -> bool:
        """Notes that an account asks for this merge, and forgets requests for another round or base root.
        Returns whether it is the first request for this merge."""
        is_news = key not in self.by_account.values()
        same = {other: one for other, one in self.by_account.items() if one[:2] == key[:2]}
        self.by_account = {**same, account: key}
        return is_news


@dataclass
class ClaimBook:
    """The index of records of claims and merges. `works` are by round and basis, `merges` by key, `proofs`
    are checked work leaves. `contests` are by round, root, end of window and attempt. `kept` are outer roots
    of models that this home keeps. `reports` are losses by round and claim root,
    `heldout` those of models on held-out tokens, by the number of rounds behind the model and its root.

    These are in memory alone, because they can be found again. `outer` has headers of outer roots.
    `shown_deltas` are pseudo-gradients that any account may read, with the number of work leaves that they
    came from. `fetched` are claims whose pseudo-gradient is in the store. `begun` is the initial model, once
    made from the seed. `wanted` are merges that peers asked this node to sign, `signatures` those of merges
    by seat number. `seen` is when something was first seen to be due. `fitting` is how many votes fit into a
    transaction beside the root, for rounds with many."""

    journal: Journal
    task: bytes
    works: dict[tuple[int, bytes], ClaimWork] = field(default_factory=lambda: defaultdict(ClaimWork))
    merges: dict[MergeKey, MergeMade] = field(default_factory=dict)
    outer: dict[bytes, OuterHeader] = field(default_factory=dict)
    contests: dict[tuple[int, bytes, int, int], ContestMade] = field(default_factory=dict)
    kept: set[bytes] = field(default_factory=set)
    proofs: dict[ClaimName, WorkProof] = field(default_factory=dict)
    shown_deltas: tuple[int, frozenset[bytes]] = (0, frozenset())
    reports: dict[tuple[int, bytes], LossReported] = field(default_factory=dict)
    heldout: dict[tuple[int, bytes], HeldoutReported] = field(default_factory=dict)
    fetched: set[ClaimName] = field(default_factory=set)
    begun: OuterHeader | None = None
    wanted: WantedMerges = field(default_factory=WantedMerges)
    signatures: dict[MergeKey, dict[int, bytes]] = field(default_factory=dict)
    seen: dict[tuple[int, Hashable], int] = field(default_factory=dict)
    fitting: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for record in self.journal.replay():
            self._index(record)

    def write(self, record: Any) -> None:
        """Appends a record; on return it is on disk and indexed. Raises InvalidInput for a second report of a
        claim or a model. Then nothing was written, and the caller must show nothing."""
        if isinstance(record, LossReported | HeldoutReported):
            self._require_new_report(record.report)
        self.journal.append(record)
        self._index(record)

    def find(self, game_round: GameRound) -> ClaimWork:
        """Returns the work on a round's present base root and beacon; an empty one if there is none."""
        assert game_round.beacon is not None
        return self.works[game_round.index, compute_basis(game_round.base_root, game_round.beacon)]

    def _require_new_report(self, report: LossReport | HeldoutReport) -> None:
        if isinstance(report, LossReport):
            is_known = (report.round, report.claim_root) in self.reports
            about = f"the claim of round {report.round}"
        else:
            is_known = (report.rounds_done, report.root) in self.heldout
            about = f"the model after {report.rounds_done} rounds"
        if is_known:
            raise InvalidInput(
                what="this node has already reported the losses of a claim or a model",
                expected="one report of each",
                actual=f"a second one of {about}",
                remedy="Show the report that the journal has.",
            )

    def _index(self, record: Any) -> None:
        if getattr(record, "task", None) != self.task:
            return
        if isinstance(record, MergeMade):
            self._index_merge(record)
        elif isinstance(record, WorkShown):
            name = ClaimName(record.round, record.solver, record.claim_root)
            self.proofs[name] = WorkProof(record.delta_root, record.carried_root, record.path)
        elif isinstance(record, OuterShown):
            self.kept.add(self._index_outer(record))
        elif isinstance(record, ContestMade):
            attempt = (record.round, record.root, record.root_until, record.attempt)
            self.contests[attempt] = record
        elif isinstance(record, LossReported):
            self.reports[record.report.round, record.report.claim_root] = record
        elif isinstance(record, HeldoutReported):
            self.heldout[record.report.rounds_done, record.report.root] = record
        elif isinstance(record, ClaimSaltsDrawn | ClaimBoundaryReached | SegmentTrained | ClaimFinished):
            self._index_claim(self.works[record.round, record.basis], record)

    def _index_outer(self, record: MergeMade | OuterShown) -> bytes:
        header = OuterHeader(record.weights_root, record.momentum_root)
        root = compute_outer_root(header)
        self.outer[root] = header
        return root

    def _index_merge(self, record: MergeMade) -> None:
        key = MergeKey(record.round, record.base_root, record.slots, record.claim_roots)
        self.merges[key] = record
        self._index_outer(record)

    @staticmethod
    def _index_claim(
        work: ClaimWork, record: ClaimSaltsDrawn | ClaimBoundaryReached | SegmentTrained | ClaimFinished
    ) -> None:
        match record:
            case ClaimSaltsDrawn():  # The first record of a claim. A second one begins the claim anew.
                work.salts, work.finished = record.salts, None
                work.boundaries.clear()
                work.trained.clear()
            case SegmentTrained():
                work.trained[record.segment] = record
            case ClaimFinished():
                work.finished = record
            case ClaimBoundaryReached():
                roots = (record.weights_root, record.first_moment_root, record.second_moment_root)
                work.boundaries[record.boundary] = StateHeader(*roots, record.local_step, record.global_step)
