"""What a node's journal has of its claims and merges, and their index.

Journal records have the fields that recovery needs and that nothing else knows. basis: what a claim was
trained from (`compute_basis`). After a reorg or a fall a round may have another base root or beacon. Then its
new records have another basis, and records of the old basis count for nothing.

`ClaimBook` indexes the records of this node's own claims and merges of one task. It is read once at the
start, then kept in step with every record that is written through it.
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
from touchstone.protocol.spec.signed_reports import LossReport
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader


def compute_basis(base_root: bytes, beacon: bytes) -> bytes:
    """Returns one word for what a round's claim is trained from."""
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
    """Written during training: the state at a boundary is in the store under these roots."""

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
    """While training, before the boundary behind a segment is written down: the losses of its steps, in
    millionths of a nat."""

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
    else on this basis, unless it began the claim anew afterwards: then this claim was never sent."""

    task: Word
    round: int
    basis: Word
    claim_root: Word
    segments: int
    delta_root: Word
    carried_root: Word


@dataclass(frozen=True)
class WorkShown:
    """The work leaf of another solver's claim, once it was checked: a contest of the merged root needs it,
    and its solver may not show it again."""

    task: Word
    round: int
    solver: str
    claim_root: Word
    delta_root: Word
    carried_root: Word
    path: tuple[Word, ...]


@dataclass(frozen=True)
class MergeMade:
    """Written before it is signed: the outer step that this node computed over the claims of these slots, in
    shard order."""

    task: Word
    round: int
    base_root: Word
    slots: tuple[int, ...]
    claim_roots: tuple[Word, ...]
    weights_root: Word
    momentum_root: Word


@dataclass(frozen=True)
class OuterShown:
    """What stands behind an outer root, as a peer has shown it: of a model that this home keeps. Its weights
    are on disk before."""

    task: Word
    weights_root: Word
    momentum_root: Word


@dataclass(frozen=True)
class ContestMade:
    """Written before a contest is sent: its salt, so that each attempt is opened once."""

    task: Word
    round: int
    root: Word
    root_until: int
    attempt: int
    salt: Word


@dataclass(frozen=True)
class LossReported:
    """Written before it is shown to anybody: what this node reports of the losses of a claim. It never
    reports anything else of that claim."""

    task: Word
    report: LossReport
    signature: Signature


RECORDS = (
    ClaimSaltsDrawn, ClaimBoundaryReached, SegmentTrained, ClaimFinished, WorkShown, MergeMade, OuterShown,
    ContestMade, LossReported,
)  # fmt: skip
"""All kinds of this room."""


class MergeKey(NamedTuple):
    """What identifies a merge: slots in shard order, and the roots of their claims. Roots alone would not do:
    two slots may have the same one."""

    round: int
    base_root: bytes
    slots: tuple[int, ...]
    claim_roots: tuple[bytes, ...]


class ClaimName(NamedTuple):
    """Identifies a claim by the fields of its work leaf. A root alone would not do: another seat may have
    committed to the same root, or the same seat in a later round."""

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
    """This node's claim of one round on one base root and beacon, as far as it is. boundaries: by number;
    trained: losses by segment."""

    salts: tuple[bytes, ...] = ()
    boundaries: dict[int, StateHeader] = field(default_factory=dict)
    trained: dict[int, SegmentTrained] = field(default_factory=dict)
    finished: ClaimFinished | None = None


@dataclass
class WantedMerges:
    """Merges that solvers of the waiting round asked this node to sign, while it has not computed them: of
    each account the one that it asked for last."""

    by_account: dict[str, MergeKey] = field(default_factory=dict)
    notices: OncePerBlock = field(default_factory=OncePerBlock)

    def note(self, account: str, key: MergeKey) -> bool:
        """Notes that an account asks for this merge, and forgets requests for another round or base root.
        Returns whether no account had asked for this merge before."""
        is_news = key not in self.by_account.values()
        same = {other: one for other, one in self.by_account.items() if one[:2] == key[:2]}
        self.by_account = {**same, account: key}
        return is_news


@dataclass
class ClaimBook:
    """works: by round and basis; merges: by what they are of; proofs: work leaves that were checked against
    their claim; contests: by round, root, the end of its window and attempt; kept: outer roots of the models
    that this home keeps; reports: of losses, by round and claim root.

    In memory alone, since it can be had again: most of outer, what stands behind outer roots; shown_deltas,
    pseudo-gradients that any account may have, and of how many work leaves; fetched, claims whose
    pseudo-gradient is in the store; begun, the initial model, once it was made from the seed; wanted, merges
    that peers asked to sign; signatures of merges by seat number; seen, when something was first seen to be
    due; fitting, of rounds with many votes, how many of them the root leaves room for in a transaction."""

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
        claim: then nothing was written, and nothing may be shown."""
        if isinstance(record, LossReported):
            self._require_new_report(record.report)
        self.journal.append(record)
        self._index(record)

    def find(self, game_round: GameRound) -> ClaimWork:
        """Returns the work on a round's base root and beacon that stand; an empty one if there is none."""
        assert game_round.beacon is not None
        return self.works[game_round.index, compute_basis(game_round.base_root, game_round.beacon)]

    def _require_new_report(self, report: LossReport) -> None:
        if (report.round, report.claim_root) in self.reports:
            raise InvalidInput(
                what="this node has already reported the losses of this claim",
                expected="one report of the losses of a claim",
                actual=f"a second one of round {report.round}",
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
            case ClaimSaltsDrawn():  # The first record of a claim; another one begins it anew.
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
