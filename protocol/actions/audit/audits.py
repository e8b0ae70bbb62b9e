"""What the audit room offers the other rooms of the node: `party.task.audits`. All of it from memory."""

from collections.abc import Iterator

from protocol.actions.audit.handing import HandedVote, list_handed
from protocol.actions.audit.messages import MAX_BYTES, MAX_VOTES_BYTES, SEAL, START, VOTES
from protocol.actions.audit.records import SealMade, SealTaken, VoteMade, VoteTaken
from protocol.actions.audit.room import AuditRoom
from protocol.actions.audit.serve import may_read, show_start, take_seal
from protocol.actions.audit.taking import take_votes
from protocol.actions.dispute.sources import ClaimOpenings, KnownSeal, KnownVote, OwnReplay
from protocol.actions.merge.book import WorkProof
from protocol.adapters.blobs import BlobKind
from protocol.adapters.chain.types import BoundaryProof
from protocol.adapters.messages import Message
from protocol.adapters.wire.desk import Desk
from protocol.spec.game.auditing import find_drawn, get_place
from protocol.spec.game.state import StatementRef
from protocol.spec.statements import Sealed, VoteWord

BODY_BYTES = {START: MAX_BYTES, SEAL: MAX_BYTES, VOTES: MAX_VOTES_BYTES}
"""The desks of this room, and how long a message to each may be."""
COMPARED_ENDS = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA})
"""Words after which both ends were compared."""
_ANSWERS = {START: show_start, SEAL: take_seal, VOTES: take_votes}


class Audits:
    """The audits of the joined task. room: for this room's own functions."""

    def __init__(self, room: AuditRoom) -> None:
        self.room = room

    async def answer(self, desk: str, account: str, body: bytes) -> Message:
        """What a desk of this room answers to a peer. Raises ProtocolFault or EnvironmentFault."""
        return await _ANSWERS[desk](self.room, account, body)

    def make_desks(self) -> dict[str, Desk]:
        """Who answers peers, by the names of the desks."""
        return {
            name: Desk(most, lambda account, body, desk=name: self.answer(desk, account, body))  # type: ignore[misc]
            for name, most in BODY_BYTES.items()
        }

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """Whether a blob was shown to this account in an audit."""
        return may_read(self.room, account, kind, root)

    def list_handed(self, index: int) -> tuple[HandedVote, ...]:
        """Votes and openings of a round that the chain lacks and would count now, as `judge` takes them."""
        return list_handed(self.room, index)

    # --- What is known, for disputes ------------------------------------------------------------------------
    def list_votes(self, index: int) -> Iterator[KnownVote]:
        """Votes on claims of a round as the chain has it, this node's own among them; of an auditor that said
        two things, both."""
        book = self.room.book
        found: list[VoteMade | VoteTaken] = [*book.list_round(index)]
        second = (book.second.get(place) for place in sorted(book.places[index]))
        found += [one for one in second if isinstance(one, VoteTaken)]
        for made in found:
            auditor = self._find_auditor(made.vote)
            if auditor:
                opening = made.opening if isinstance(made, VoteTaken) else book.open_vote(made)
                yield KnownVote(made.vote, made.signature, auditor, opening)

    def list_seals(self, index: int) -> Iterator[KnownSeal]:
        """Seals that were handed to this node, of claims of a round as the chain has it."""
        book = self.room.book
        places = sorted(book.places[index])
        found = [book.taken_seals.get(place) for place in places] + [
            book.second.get(place) for place in places
        ]
        for taken in found:
            if not isinstance(taken, SealTaken):
                continue
            auditor = self._find_auditor(taken.sealed)
            if auditor:
                yield KnownSeal(taken.sealed, taken.signature, auditor)

    def list_replays(self, index: int) -> Iterator[OwnReplay]:
        """This node's replays of drawn segments of a round as the chain has it."""
        for made in self.room.book.list_seals(index):
            if self._find_auditor(made.sealed):
                yield self._read_replay(made)

    def list_wrong_starts(self, index: int) -> Iterator[tuple[int, BoundaryProof]]:
        """Slots of a round, as the chain has it, whose boundary 0 has step numbers that no claim of the round
        starts from; and that boundary."""
        for place, made in self.room.book.wrong_starts.items():
            if place.round == index and self._find_auditor(made.said):
                yield place.slot, made.first

    def get_openings(self, index: int, slot: int) -> ClaimOpenings:
        """What the solver of a slot has shown to this node of its claim of a round."""
        wrong = dict(self.list_wrong_starts(index))
        boundaries: dict[int, BoundaryProof] = {0: wrong[slot]} if slot in wrong else {}
        work: WorkProof | None = None
        last: BoundaryProof | None = None
        for made in self.room.book.list_seals(index):
            sealed = made.sealed
            if sealed.slot != slot or not self._find_auditor(sealed):
                continue
            boundaries |= {0: made.first, sealed.segment: made.start}
            vote = self.room.book.votes.get(get_place(sealed))
            if vote is not None and vote.ends is not None:
                boundaries[sealed.segment + 1] = vote.ends.end
                work, last = WorkProof(**vars(vote.ends.work)), vote.ends.last
        return ClaimOpenings(boundaries, work, last)

    def list_works(self) -> dict[bytes, WorkProof]:
        """Work leaves of claims, by claim root, as their solvers have shown them to this node."""
        found = ((made.vote.claim_root, made.ends) for made in self.room.book.votes.values())
        return {root: WorkProof(**vars(ends.work)) for root, ends in found if ends is not None}

    def _read_replay(self, made: SealMade) -> OwnReplay:
        said = made.sealed
        ref = StatementRef(said.round, said.slot, said.draw, said.rank)
        vote = self.room.book.votes.get(get_place(said))
        is_compared = vote is not None and vote.vote.word in COMPARED_ENDS
        end = vote.ends.end if is_compared and vote is not None and vote.ends is not None else None
        is_beyond = vote is not None and vote.vote.word == VoteWord.REJECT_STATE
        leaf = vote.vote.named_leaf if vote is not None and is_beyond else None
        return OwnReplay(ref, said.segment, made.start, made.own_end, end, leaf, made.salt)

    def _find_auditor(self, said: Sealed) -> str | None:
        """The account that a statement is of; None where it is not of the chain."""
        drawn = find_drawn(self.room.get_game(), get_place(said))
        return None if drawn is None else drawn.seat.account
