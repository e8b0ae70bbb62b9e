"""Messages between solvers and auditors, their size limits, and claim openings checked against the root.

    handler       auditor -> solver        solver -> auditor
    audit-start   AskStart                 StartShown: boundary 0 and the segment's start
    audit-seal    SealHanded               EndShown: the segment's end, the last boundary, the work leaf
    audit-votes   VotesHanded              VotesTaken
    audit-public  SegmentAsked             SegmentShown: boundary 0, start and end, to any account

The receiver checks every message by its signature or against the claim's root, whoever sent it. The openings
of a claim are boundaries and the work leaf.
"""

from dataclasses import fields
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from touchstone.node.models.global_model import WorkSaid
from touchstone.node.records.audit_records import ShownWork
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.messages import ClaimPath, Form, Message, Signature, Word
from touchstone.protocol.spec.claim_tree import compute_work_leaf, verify_in_claim
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Sealed, Vote, VoteOpening, VoteWord

START, SEAL, VOTES, PUBLIC = "audit-start", "audit-seal", "audit-votes", "audit-public"
"""The names of the request handlers."""
MAX_BYTES = 32 * 1024
VOTES_MAX = 16
"""The most votes in a message. For each one the reader must recover a signature."""
MAX_VOTES_BYTES = 2 * 1024 * VOTES_MAX

Number = Annotated[int, Meta(ge=0, lt=1 << 32)]

Said = TypeVar("Said", bound=Message)


class PlaceSaid(Message, frozen=True):
    """The message form of `AuditPlace`."""

    domain: Word
    round: Number
    base_root: Word
    seed: Word
    slot: Number
    claim_root: Word
    draw: Number
    rank: Number


class HeaderSaid(Message, frozen=True):
    """The message form of `StateHeader`: a state by its roots."""

    weights_root: Word
    first_moment_root: Word
    second_moment_root: Word
    local_step: Number
    global_step: Number


class BoundarySaid(Message, frozen=True):
    """The message form of `BoundaryProof`: a boundary of a claim."""

    header: HeaderSaid
    salt: Word
    path: ClaimPath

    def read(self) -> BoundaryProof:
        """Returns the `BoundaryProof`."""
        return BoundaryProof(StateHeader(*_list_values(self.header)), self.salt, self.path)


class AskStart(Message, frozen=True):
    """Asks a solver for boundary 0 and the start of the asker's segment."""

    place: PlaceSaid


class StartShown(Message, frozen=True):
    """Shows boundary 0 and the start. From now on the asker may fetch the start state."""

    first: BoundarySaid
    start: BoundarySaid


class SegmentAsked(Message, frozen=True):
    """Asks for boundary 0, start and end of a segment. Accounts that do not audit the claim ask this once its
    audits are over."""

    task: Word
    round: Number
    slot: Number
    segment: Number


class SegmentShown(StartShown, frozen=True):
    """Shows boundary 0, start and end. Any account may fetch the states of the segment, as long as they are
    kept."""

    end: BoundarySaid


class SealedSaid(PlaceSaid, frozen=True):
    """The message form of `Sealed`."""

    segment: Number
    start_leaf: Word
    seal: Word


class SealHanded(Message, frozen=True):
    """Hands in an auditor's sealed result, and asks for the claimed end."""

    sealed: SealedSaid
    signature: Signature


class EndShown(Message, frozen=True):
    """The answer to a seal. From now on the asker may fetch the end state, the final weights and the
    pseudo-gradient."""

    end: BoundarySaid
    last: BoundarySaid
    work: WorkSaid


class VoteSaid(SealedSaid, frozen=True):
    """The message form of a `Vote`'s fields."""

    end_leaf: Word
    word: VoteWord
    named_leaf: Number


class OpeningSaid(Message, frozen=True):
    """The message form of a vote's opening: the rest of `VoteOpening`."""

    claim_end_root: Word
    boundary_salt: Word
    own_end_root: Word
    seal_salt: Word


class VoteHanded(Message, frozen=True):
    """A vote, with its opening once that may be shown."""

    vote: VoteSaid
    signature: Signature
    opening: OpeningSaid | None = None

    def read(self) -> tuple[Vote, VoteOpening | None]:
        """Returns the vote and its opening."""
        vote = Vote(*_list_values(self.vote))
        opening = self.opening
        return vote, None if opening is None else VoteOpening(vote, *_list_values(opening))


class VotesHanded(Message, frozen=True):
    """Some votes of a round."""

    votes: Annotated[tuple[VoteHanded, ...], Meta(max_length=VOTES_MAX)]


class VotesTaken(Message, frozen=True):
    """Whether each vote was taken, in order. A vote that was refused may be taken later, when the chain is
    further."""

    are_taken: Annotated[tuple[bool, ...], Meta(max_length=VOTES_MAX)]


def make_form(kind: type[Said]) -> Form[Said]:
    """Returns the parser of a message of this kind."""
    most_bytes = MAX_VOTES_BYTES if kind is VotesHanded else MAX_BYTES
    return Form(kind, most_bytes, f"the message {kind.__name__} is malformed")


def format_boundary(proof: BoundaryProof) -> BoundarySaid:
    """Returns the message for a boundary's opening."""
    return BoundarySaid(HeaderSaid(*_list_fields(proof.header)), proof.salt, tuple(proof.path))


def format_sealed(sealed: Sealed) -> SealedSaid:
    """Returns the message for a sealed result."""
    return SealedSaid(*_list_fields(sealed))


def format_vote(vote: Vote, signature: bytes, opening: VoteOpening | None) -> VoteHanded:
    """Returns the message for a vote, with its opening if that may be shown."""
    shown = None if opening is None else OpeningSaid(*_list_fields(opening)[1:])
    return VoteHanded(VoteSaid(*_list_fields(vote)), signature, shown)


def read_sealed(said: SealedSaid) -> Sealed:
    """Returns the `Sealed` of a message."""
    return Sealed(*_list_values(said))


def _list_fields(value: Any) -> list[Any]:
    return [getattr(value, field.name) for field in fields(value)]


def _list_values(message: Message) -> list[Any]:
    return [getattr(message, name) for name in type(message).__struct_fields__]


def compute_leaf(drawn: DrawnAudit, boundary: int, proof: BoundaryProof) -> bytes:
    """Returns the claim's leaf at a boundary, computed from an opening."""
    root = compute_state_root(proof.header)
    return compute_boundary_leaf(
        drawn.place.domain, drawn.place.round, drawn.solver, boundary, proof.salt, root
    )


def read_boundary(drawn: DrawnAudit, boundary: int, said: BoundarySaid) -> BoundaryProof:
    """Returns a boundary's opening, checked against the claim's root. Raises ProtocolFault if it is wrong."""
    proof = said.read()
    leaf = compute_leaf(drawn, boundary, proof)
    verify_in_claim(drawn.place.claim_root, leaf, boundary, drawn.segments, proof.path)
    return proof


def read_work(drawn: DrawnAudit, said: WorkSaid) -> ShownWork:
    """Returns a work leaf's opening, checked against the claim's root. Raises ProtocolFault if it is
    wrong."""
    place = drawn.place
    roots = (said.delta_root, said.carried_root)
    leaf = compute_work_leaf(place.domain, place.round, drawn.solver, drawn.segments, *roots)
    verify_in_claim(place.claim_root, leaf, drawn.segments + 1, drawn.segments, said.path)
    return ShownWork(*roots, said.path)


def are_steps_right(
    header: StateHeader, first: StateHeader, global_step: int, local_steps: int, *, carries: bool
) -> bool:
    """Returns whether a state has the right step counters: `global_step`, and `local_steps` since the round
    began. Local steps count from boundary 0 if moments carry over, else from zero. They never exceed the
    global ones, so that every end has counters that the chain can hold."""
    local = (first.local_step if carries else 0) + local_steps
    return (header.global_step, header.local_step) == (global_step, local) and local <= global_step
