"""What a node knows of the audits of a round: votes, seals, own replays, and what solvers have shown.

All of it is from memory. After a reorg the chain may lack a statement that is listed; who uses one checks it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from touchstone.node.records.audit_records import (
    AuditBook,
    SealMade,
    SealTaken,
    ShownWork,
    VoteMade,
    VoteTaken,
)
from touchstone.node.records.claim_records import WorkProof
from touchstone.node.records.handed_votes import HandedVote, list_handed
from touchstone.node.records.heard_statements import ClaimOpenings, KnownSeal, KnownVote, OwnReplay
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.spec.game.drawn_audits import COMPARED_ENDS, find_stated, get_place
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.statements import Sealed, VoteWord


@dataclass(frozen=True)
class KnownAudits:
    """The records of audits that belong to places on the current chain."""

    book: AuditBook
    game: GameState | None
    """None while the chain does not have the task: then nothing counts as known."""

    def list_votes(self, index: int) -> Iterator[KnownVote]:
        """Votes on claims of a round as the chain has it, this node's own among them; of an auditor that said
        two things, both."""
        book = self.book
        found: list[VoteMade | VoteTaken] = [*book.list_round(index)]
        second = (book.second.get(place) for place in sorted(book.places[index]))
        found += [one for one in second if isinstance(one, VoteTaken)]
        for made in found:
            auditor = self._find_auditor(made.vote)
            if auditor:
                opening = made.opening if isinstance(made, VoteTaken) else book.open_vote(made)
                yield KnownVote(made.vote, made.signature, auditor, opening)

    def list_seals(self, index: int) -> Iterator[KnownSeal]:
        """Yields seals that were handed to this node, of claims of a round as the chain has it."""
        book = self.book
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
        """Yields this node's replays of drawn segments of a round as the chain has it."""
        for made in self.book.list_seals(index):
            if self._find_auditor(made.sealed):
                yield self._read_replay(made)

    def list_wrong_starts(self, index: int) -> Iterator[tuple[int, BoundaryProof]]:
        """Slots of a round, as the chain has it, whose boundary 0 has step numbers that no claim of the round
        starts from; and that boundary."""
        for place, made in self.book.wrong_starts.items():
            if place.round == index and self._find_auditor(made.said):
                yield place.slot, made.first

    def get_openings(self, index: int, slot: int) -> ClaimOpenings:
        """Returns what the solver of a slot has shown to this node of its claim of a round."""
        wrong = dict(self.list_wrong_starts(index))
        boundaries: dict[int, BoundaryProof] = {0: wrong[slot]} if slot in wrong else {}
        work: WorkProof | None = None
        last: BoundaryProof | None = None
        for made in self.book.list_seals(index):
            sealed = made.sealed
            if sealed.slot != slot or not self._find_auditor(sealed):
                continue
            boundaries |= {0: made.first, sealed.segment: made.start}
            vote = self.book.votes.get(get_place(sealed))
            if vote is not None and vote.ends is not None:
                boundaries[sealed.segment + 1] = vote.ends.end
                work, last = WorkProof(**vars(vote.ends.work)), vote.ends.last
        return ClaimOpenings(boundaries, work, last)

    def list_handed(self, index: int, block: int) -> tuple[HandedVote, ...]:
        """Lists votes and openings of a round that the chain lacks and would count in `block`."""
        return () if self.game is None else list_handed(self.book, self.game, block, index)

    def list_works(self) -> Mapping[bytes, ShownWork]:
        """Returns the work leaves of claims, by claim root, as their solvers have shown them to this node."""
        return self.book.works

    def _read_replay(self, made: SealMade) -> OwnReplay:
        said = made.sealed
        ref = StatementRef(said.round, said.slot, said.draw, said.rank)
        vote = self.book.votes.get(get_place(said))
        is_compared = vote is not None and vote.vote.word in COMPARED_ENDS
        end = vote.ends.end if is_compared and vote is not None and vote.ends is not None else None
        exceeds_limits = vote is not None and vote.vote.word == VoteWord.REJECT_STATE
        leaf = vote.vote.named_leaf if vote is not None and exceeds_limits else None
        return OwnReplay(ref, said.segment, made.start, made.own_end, end, leaf, made.salt)

    def _find_auditor(self, said: Sealed) -> str | None:
        """Returns the account that a statement is of; None if it is not of the chain."""
        if self.game is None:
            return None
        stated = find_stated(self.game, get_place(said))
        return None if stated is None else stated.seat.account
