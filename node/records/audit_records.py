"""Records and indexes an audit room's seals and votes, its own and others', in the journal.

A record is written before the message that makes it irrevocable is sent. An auditor records its seals, votes
and reports. After a restart it finds them, and signs nothing else for the same place. A solver records each
seal that an auditor hands in before it shows the claim's end. It keeps votes of others, so that a restart
loses none.

The index is by place. A place has every field that two statements must share to contradict each other. So one
rule keeps a node from contradicting itself: a place has one seal, one vote and one report, and the vote
repeats the seal.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.messages import Signature, Word
from touchstone.protocol.adapters.store.blobs import BlobKey
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.drawn_audits import AuditPlace, get_place
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.game.unserved_votes import VotePlace
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.signed_reports import DistanceReport
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Sealed, Vote, VoteOpening, VoteWord


@dataclass(frozen=True)
class ShownWork:
    """The work leaf of a claim, as it was shown to this node and checked against the claim's root."""

    delta_root: Word
    carried_root: Word
    path: tuple[Word, ...]


@dataclass(frozen=True)
class SealMade:
    """Written before a seal is sent: the data that it hides. `first` and `start` are boundary 0 and the
    segment's start as the solver showed them; `own_end` is the result of the replay."""

    task: Word
    sealed: Sealed
    salt: Word
    first: BoundaryProof
    start: BoundaryProof
    own_end: StateHeader


@dataclass(frozen=True)
class EndsShown:
    """What a solver showed after the seal: the segment's end, the last boundary, the work leaf."""

    end: BoundaryProof
    last: BoundaryProof
    work: ShownWork


@dataclass(frozen=True)
class VoteMade:
    """Written before a vote is sent: all its fields, and the ends that the auditor saw (None if it saw
    none)."""

    task: Word
    vote: Vote
    signature: Signature
    ends: EndsShown | None


@dataclass(frozen=True)
class SealTaken:
    """Written before the claim's end is shown to an auditor: the seal that the auditor signed."""

    task: Word
    sealed: Sealed
    signature: Signature


@dataclass(frozen=True)
class VoteTaken:
    """A vote signed by its auditor, with the opening once that was shown."""

    task: Word
    vote: Vote
    signature: Signature
    opening: VoteOpening | None


@dataclass(frozen=True)
class WrongStart:
    """Boundary 0 of a claim as its solver showed it, with step counters that no claim of the round starts
    from.

    No auditor can replay such a claim, and any account can prove the fault. `said` is the place, without
    leaves or a seal."""

    task: Word
    said: Sealed
    first: BoundaryProof


@dataclass(frozen=True)
class DistancesReported:
    """Written before anybody sees it: this node's report of the two ends that it compared."""

    task: Word
    report: DistanceReport
    signature: Signature


@dataclass(frozen=True)
class AuditsBegun:
    """The first record of a task: the head when this journal began with it. This node may have sealed draws
    of earlier rounds in another journal that was lost."""

    task: Word
    block: int


RECORDS = (SealMade, VoteMade, SealTaken, VoteTaken, WrongStart, DistancesReported, AuditsBegun)
"""All record types of this room."""


@dataclass
class AuditBook:
    """The index of audit records of one task. `seals`, `votes` and `reports` are this node's own.
    `taken_seals` and `taken_votes` are the first that others handed in for each place and signer; `second`
    has another one that contradicts it, as evidence. `wrong_starts` is evidence against solvers. `held` are
    blobs of running audits that no record names yet. `begun` is the block in `AuditsBegun`, 0 in older
    journals."""

    journal: Journal
    task: bytes
    seals: dict[AuditPlace, SealMade] = field(default_factory=dict)
    votes: dict[AuditPlace, VoteMade] = field(default_factory=dict)
    taken_seals: dict[AuditPlace, SealTaken] = field(default_factory=dict)
    taken_votes: dict[AuditPlace, VoteTaken] = field(default_factory=dict)
    second: dict[AuditPlace, SealTaken | VoteTaken] = field(default_factory=dict)
    wrong_starts: dict[AuditPlace, WrongStart] = field(default_factory=dict)
    reports: dict[AuditPlace, DistancesReported] = field(default_factory=dict)
    places: defaultdict[int, set[AuditPlace]] = field(default_factory=lambda: defaultdict(set))
    """The places with a known statement, by round."""
    versions: Counter[int] = field(default_factory=Counter)
    """The number of indexed records of each round. When it changes, results made from them are made anew."""
    works: dict[bytes, ShownWork] = field(default_factory=dict)
    """Work leaves that solvers showed to this node, by claim root."""
    held: dict[AuditPlace, frozenset[BlobKey]] = field(default_factory=dict)
    offered: set[tuple[AuditPlace, bool, str]] = field(default_factory=set)
    """Own votes that an account has taken since this process began, with or without opening."""
    passed: set[AuditPlace] = field(default_factory=set)
    """Audits whose start was served, but in which a verdict from a replay would not count any more."""
    begun: int = 0

    def __post_init__(self) -> None:
        for record in self.journal.replay():
            self._index(record)

    def has_begun(self, block: int) -> bool:
        """Returns whether this journal has records of the task's audits. They do not count if they began far
        above the head `block`, because then a faulty provider had made that block up."""
        return bool(self.begun or self.versions) and self.begun <= block + REORG_BLOCKS

    def begin(self, block: int) -> bool:
        """Writes down when this journal began with the task, unless it has begun. Returns whether it did.
        `block` must be the present head: below it, a lost journal may have recorded statements of this
        account."""
        is_new = not self.has_begun(block)
        if is_new:
            self.write(AuditsBegun(self.task, block))
        return is_new

    def write(self, record: Any) -> None:
        """Appends a record; on return it is on disk and indexed. Raises InvalidInput if it would contradict
        this node's own seal, vote or report. Then nothing was written, and the caller must send nothing."""
        if isinstance(record, SealMade):
            self._require_new_seal(record)
        elif isinstance(record, VoteMade):
            self._require_new_vote(record)
        elif isinstance(record, DistancesReported) and read_place(record.report) in self.reports:
            raise _contradicts(read_place(record.report), record)
        self.journal.append(record)
        self._index(record)

    def list_unserved(self) -> frozenset[VotePlace]:
        """Returns draws whose UNSERVED vote this node has signed."""
        said = (made.vote for made in self.votes.values() if made.vote.word == VoteWord.UNSERVED)
        return frozenset((vote.round, vote.slot, vote.draw) for vote in said)

    def list_round(self, index: int) -> Iterator[VoteMade | VoteTaken]:
        """Returns votes on claims of a round by place: this node's own, and those it took from others."""
        for place in sorted(self.places[index]):
            vote = self.votes.get(place) or self.taken_votes.get(place)
            if vote is not None:
                yield vote

    def list_own(self, index: int) -> list[VoteMade]:
        """Returns this node's own votes on claims of a round, by place."""
        return [vote for vote in self.list_round(index) if isinstance(vote, VoteMade)]

    def list_seals(self, index: int) -> list[SealMade]:
        """Returns this node's own seals on claims of a round, by place."""
        return [self.seals[place] for place in sorted(self.places[index]) if place in self.seals]

    def list_compared(self, index: int) -> Iterator[tuple[SealMade, EndsShown]]:
        """Yields this node's audits of a round in which the solver showed it the claimed end state."""
        for made in self.list_seals(index):
            vote = self.votes.get(get_place(made.sealed))
            if vote is not None and vote.ends is not None:
                yield made, vote.ends

    def open_vote(self, made: VoteMade) -> VoteOpening | None:
        """Returns the opening of this node's own vote; None if the node saw no end."""
        sealed = self.seals.get(get_place(made.vote))
        if sealed is None or made.ends is None or made.vote.end_leaf == ZERO_WORD:
            return None
        end = made.ends.end
        roots = (compute_state_root(end.header), end.salt, compute_state_root(sealed.own_end))
        return VoteOpening(made.vote, *roots, sealed.salt)

    def _require_new_seal(self, record: SealMade) -> None:
        place = get_place(record.sealed)
        known = self.seals.get(place) or self.votes.get(place)
        if known is not None:
            raise _contradicts(place, known)

    def _require_new_vote(self, record: VoteMade) -> None:
        place = get_place(record.vote)
        sealed = self.seals.get(place)
        if place in self.votes:
            raise _contradicts(place, self.votes[place])
        # A vote may leave its seal out. This node repeats it, because a kept seal can be paid.
        if sealed is not None and record.vote.seal != sealed.sealed.seal:
            raise _contradicts(place, sealed)
        if sealed is None and record.vote.seal != ZERO_WORD:
            raise _contradicts(place, "no seal")

    def _index(self, record: Any) -> None:
        if getattr(record, "task", None) != self.task:
            return
        match record:
            case SealMade():
                self.seals[self._note(record.sealed)] = record
            case VoteMade():
                self.votes[self._note(record.vote)] = record
                if record.ends is not None:
                    self.works[record.vote.claim_root] = record.ends.work
            case SealTaken():
                self._index_seal(record)
            case VoteTaken():
                self._index_vote(record)
            case WrongStart():
                self.wrong_starts[self._note(record.said)] = record
            case DistancesReported():
                self.reports[read_place(record.report)] = record
            case AuditsBegun():
                self.begun = record.block

    def _note(self, said: Sealed) -> AuditPlace:
        place = get_place(said)
        self.places[place.round].add(place)
        self.versions[place.round] += 1
        return place

    def _index_seal(self, record: SealTaken) -> None:
        place = self._note(record.sealed)
        if self.taken_seals.setdefault(place, record).sealed != record.sealed:
            self.second.setdefault(place, record)

    def _index_vote(self, record: VoteTaken) -> None:
        place = self._note(record.vote)
        known = self.taken_votes.setdefault(place, record)
        if known.vote != record.vote:
            self.second.setdefault(place, record)
        elif known.opening is None:
            self.taken_votes[place] = record


def read_place(report: DistanceReport) -> AuditPlace:
    """Returns the place that a report is about."""
    where = (report.domain, report.round, report.base_root, report.seed, report.slot, report.claim_root)
    return AuditPlace(*where, report.draw, report.rank)


def _contradicts(place: AuditPlace, known: object) -> InvalidInput:
    return InvalidInput(
        what="this node has signed something else about the same draw",
        expected="one seal, one vote and one report for a draw and rank; the vote repeats the seal",
        actual=f"{type(known).__name__} of round {place.round} slot {place.slot} draw {place.draw}",
        remedy="Repeat what the journal has, or sign nothing.",
    )


def make_sealed(place: AuditPlace, segment: int, start_leaf: bytes, seal: bytes) -> Sealed:
    """Returns the statement `Sealed` for a place."""
    where = (place.domain, place.round, place.base_root, place.seed, place.slot, place.claim_root)
    return Sealed(*where, place.draw, place.rank, segment, start_leaf, seal)
