"""Lists what a node knows of a round's audits: votes, seals, own replays, openings by solvers.

All of it comes from memory. After a reorg the chain may lack a listed statement, so the caller checks.
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
    """None while the chain does not have the task; then no audits count as known."""

    def list_votes(self, index: int) -> Iterator[KnownVote]:
        """Returns votes on claims that the chain has in a round, this node's own included. If an auditor
        signed two different votes, both are listed."""
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
        """Yields seals that were handed to this node, on claims that the chain has in a round."""
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
        """Yields this node's replays of drawn segments, on claims that the chain has in a round."""
        for made in self.book.list_seals(index):
            if self._find_auditor(made.sealed):
                yield self._read_replay(made)

    def list_wrong_starts(self, index: int) -> Iterator[tuple[int, BoundaryProof]]:
        """Returns the slots of a round whose boundary 0 has step counters that no claim of the round starts
        from, with that boundary."""
        for place, made in self.book.wrong_starts.items():
            if place.round == index and self._find_auditor(made.said):
                yield place.slot, made.first

    def get_openings(self, index: int, slot: int) -> ClaimOpenings:
        """Returns the openings that the solver of a slot has shown to this node, of its claim of a round."""
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
        """Lists votes and openings of a round that the chain lacks, and that would count in `block`."""
        return () if self.game is None else list_handed(self.book, self.game, block, index)

    def list_works(self) -> Mapping[bytes, ShownWork]:
        """Returns the work leaves that solvers have shown to this node, by claim root."""
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
        """Returns the account that signed a statement; None if the statement is not of this chain."""
        if self.game is None:
            return None
        stated = find_stated(self.game, get_place(said))
        return None if stated is None else stated.seat.account
