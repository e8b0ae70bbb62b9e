"""Pays from a slash for accepted work that the convicted seat's fault made void."""

from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.claim_status import (
    compute_draw_status,
    count_unserved,
    get_claim_status,
    get_votes,
    is_rejected_late,
)
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import REJECT_WORDS, ClaimStatus, DrawStatus, RoundPhase, SeatStatus
from touchstone.protocol.spec.game.events import PayRestored
from touchstone.protocol.spec.game.pools import is_convicted
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat, SlotClaim, StatementRef
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.game.vault import BURNED, ESCROW, SLASHED, credit_of


def has_taken_pay(state: GameState, number: int, ref: StatementRef, block: int) -> bool:
    """Returns whether a statement of a seat is a counted REJECT that helped to void its claim or to take its
    pay. Votes of a seat that was not drawn do not count. An undone round has paid nothing that a late audit
    could take, and a claim that was not served had no pay to lose."""
    game_round = state.rounds[ref.round]
    if ref.draw is None or ref.slot not in game_round.claims or count_unserved(game_round, ref.slot):
        return False
    votes = get_votes(game_round, ref.slot, ref.draw)
    vote, drawn = votes.get(ref.rank), get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)
    if vote is None or vote.word not in REJECT_WORDS or drawn != number:
        return False
    if not is_late_draw(state, ref.draw):
        return compute_draw_status(votes) == DrawStatus.FAILED
    is_accepted = get_claim_status(state, game_round, ref.slot, block) == ClaimStatus.ACCEPTED
    return is_accepted and game_round.phase != RoundPhase.UNDONE and is_rejected_late(votes)


def restore_pay(draft: Draft, ref: StatementRef) -> None:
    """Pays for a claim, once, as far as the unspent part of the slash reaches."""
    state, game_round = draft.state, draft.state.rounds[ref.round]
    seat = find_claimant(state, game_round, game_round.claims[ref.slot])
    if ref.slot in game_round.restored or seat is None:
        return
    wei = min(compute_claim_pay(state, game_round, ref.slot), state.vault.get_wei(SLASHED))
    draft.move(SLASHED, credit_of(seat.account), wei)
    burn_lost_pay(draft, game_round, ref.slot)
    draft.emit(PayRestored(ref.round, ref.slot, seat.account, wei))


def burn_lost_pay(draft: Draft, game_round: GameRound, slot: int) -> None:
    """Burns the escrow's money for a claim that a slash pays. Otherwise the submitter would keep that money,
    and a slash between friends would burn nothing. If the claim's seat has settled, settlement has already
    burned it, except in an undone round."""
    seat = find_claimant(draft.state, game_round, game_round.claims[slot])
    is_settled = seat is not None and seat.settled > game_round.index
    if not is_settled or game_round.phase == RoundPhase.UNDONE:
        draft.move(ESCROW, BURNED, compute_claim_pay(draft.state, game_round, slot))


def find_claimant(state: GameState, game_round: GameRound, claim: SlotClaim) -> Seat | None:
    """Returns the seat that made a claim, even after it was paid out. None if it was convicted, or if its
    number was used again."""
    seat = state.seats.get(claim.seat) or state.former.get(claim.seat)
    is_claimant = seat is not None and seat.joined <= game_round.index
    return seat if is_claimant and seat is not None and seat.status != SeatStatus.CONVICTED else None


def compute_claim_pay(state: GameState, game_round: GameRound, slot: int) -> int:
    """Returns the pay of an accepted claim: its share of the round's pay by segments, in wei, rounded
    down."""
    terms = state.terms
    return terms.amounts.solver_pay * game_round.claims[slot].segments // terms.segment_count


def compute_owed(state: GameState, indices: list[int], block: int) -> int:
    """Returns the pay of the accepted claims of some rounds, without claims of convicted seats, claims that a
    slash has paid, and claims that two auditors called UNSERVED. A short claim counts as a whole one, because
    the contract cannot read the segments of so many rounds in one transaction."""
    return sum(
        state.terms.amounts.solver_pay
        for index in indices
        for slot, claim in state.rounds[index].claims.items()
        if slot not in state.rounds[index].restored
        and not count_unserved(state.rounds[index], slot)
        and not is_convicted(state, claim.seat)
        and get_claim_status(state, state.rounds[index], slot, block) == ClaimStatus.ACCEPTED
    )
