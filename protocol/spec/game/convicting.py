"""What a conviction does: the seat is closed, the whole stake is taken and split.

The finder gets a quarter at most, and no more than the cap. The submitter gets a quarter at most, and no more
than it may still have to pay. The rest, half or more, first pays for accepted work that the fault made void;
what is left is burned. Asks and disputes that are open on the seat end once an account sends EndAsk or
EndDispute.
"""

from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.claim_status import (
    compute_draw_fate,
    count_unserved,
    get_claim_fate,
    get_votes,
    is_rejected_late,
)
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import (
    REJECT_WORDS,
    ClaimFate,
    DrawFate,
    ProofKind,
    RoundPhase,
    SeatStatus,
)
from touchstone.protocol.spec.game.events import PayHeld, PayRestored, SeatConvicted
from touchstone.protocol.spec.game.pools import get_stake, is_closed
from touchstone.protocol.spec.game.purse import (
    BURNED,
    ESCROW,
    SLASHED,
    Pot,
    bond_of,
    credit_of,
    restitution_of,
    stake_of,
)
from touchstone.protocol.spec.game.state import Fall, GameRound, GameState, Seat, SlotClaim, StatementRef
from touchstone.protocol.spec.game.timing import is_late_draw


def convict(draft: Draft, number: int, proof: ProofKind, finder: str, ref: StatementRef) -> None:
    """Closes a seat for one of its statements. The claim whose pay a false REJECT took is paid out of the
    slash, and what the escrow had for it is burned."""
    is_restored = has_taken_pay(draft.state, number, ref, draft.block)
    draft.emit(SeatConvicted(number, proof, ref))
    take_stakes(draft, (number,), finder)
    if is_restored:
        _restore(draft, ref)
    draft.move(SLASHED, BURNED, draft.state.purse.get_wei(SLASHED))


def convict_signers(
    draft: Draft, signers: tuple[int, ...], finder: str, index: int, undone: list[int]
) -> None:
    """Closes all seats that signed the root of round `index`, which fell. For accepted claims of the rounds
    that are undone with it the rest is held until they settle."""
    left = tuple(number for number in signers if not is_closed(draft.state, number))
    for number in left:
        draft.emit(SeatConvicted(number, ProofKind.WRONG_MERGE, None))
    take_stakes(draft, left, finder)
    owed = compute_owed(draft.state, undone, draft.block)
    held = min(owed, draft.state.purse.get_wei(SLASHED))
    fall = Fall(len(draft.state.falls), index + 1, draft.state.next_round - 1, owed, held)
    draft.emit(PayHeld(fall))
    draft.move(SLASHED, restitution_of(fall.number), held)
    draft.move(SLASHED, BURNED, draft.state.purse.get_wei(SLASHED))


def take_stakes(draft: Draft, numbers: tuple[int, ...], finder: str) -> None:
    """Takes the stakes and pays the finder and the submitter; the rest lies in SLASHED."""
    for number in numbers:
        draft.move(stake_of(number), SLASHED, get_stake(draft.state, number))
    total = draft.state.purse.get_wei(SLASHED)
    draft.move(SLASHED, credit_of(finder), min(total // 4, draft.state.terms.amounts.finder_cap))
    refund = min(total // 4, draft.state.purse.get_wei(ESCROW))
    draft.move(SLASHED, credit_of(draft.state.terms.submitter), refund)


# --- What is made good --------------------------------------------------------------------------------------
def has_taken_pay(state: GameState, number: int, ref: StatementRef, block: int) -> bool:
    """Whether a statement of a seat is a counted REJECT that helped to make its claim void, or to take its
    pay late. What a seat says that was not drawn does not count. An undone round has paid nothing that a late
    audit could take, and a claim that was not served had no pay to lose."""
    game_round = state.rounds[ref.round]
    if ref.draw is None or ref.slot not in game_round.claims or count_unserved(game_round, ref.slot):
        return False
    votes = get_votes(game_round, ref.slot, ref.draw)
    vote, drawn = votes.get(ref.rank), get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)
    if vote is None or vote.word not in REJECT_WORDS or drawn != number:
        return False
    if not is_late_draw(state, ref.draw):
        return compute_draw_fate(votes) == DrawFate.FAILED
    is_accepted = get_claim_fate(state, game_round, ref.slot, block) == ClaimFate.ACCEPTED
    return is_accepted and game_round.phase != RoundPhase.UNDONE and is_rejected_late(votes)


def _restore(draft: Draft, ref: StatementRef) -> None:
    """Pays for a claim, once, as much as the slash still has."""
    state, game_round = draft.state, draft.state.rounds[ref.round]
    seat = find_claimant(state, game_round, game_round.claims[ref.slot])
    if ref.slot in game_round.restored or seat is None:
        return
    wei = min(compute_claim_pay(state, game_round, ref.slot), state.purse.get_wei(SLASHED))
    draft.move(SLASHED, credit_of(seat.account), wei)
    burn_lost_pay(draft, game_round, ref.slot)
    draft.emit(PayRestored(ref.round, ref.slot, seat.account, wei))


def burn_lost_pay(draft: Draft, game_round: GameRound, slot: int) -> None:
    """What the escrow had for a claim that a slash pays: else the submitter kept what the slash made good,
    and a slash among friends burned nothing. Where its seat has settled, settlement has burned it, but for an
    undone round."""
    seat = find_claimant(draft.state, game_round, game_round.claims[slot])
    is_settled = seat is not None and seat.settled > game_round.index
    if not is_settled or game_round.phase == RoundPhase.UNDONE:
        draft.move(ESCROW, BURNED, compute_claim_pay(draft.state, game_round, slot))


def find_claimant(state: GameState, game_round: GameRound, claim: SlotClaim) -> Seat | None:
    """The seat that made a claim, also after it was paid out; None where it was convicted, or where its
    number has been used again since."""
    seat = state.seats.get(claim.seat) or state.former.get(claim.seat)
    is_claimant = seat is not None and seat.joined <= game_round.index
    return seat if is_claimant and seat is not None and seat.status != SeatStatus.CLOSED else None


def compute_claim_pay(state: GameState, game_round: GameRound, slot: int) -> int:
    """What an accepted claim earns: the round's pay for its share of the segments, in wei, rounded down."""
    terms = state.terms
    return terms.amounts.solver_pay * game_round.claims[slot].segments // terms.segment_count


def compute_owed(state: GameState, indices: list[int], block: int) -> int:
    """The pay of the accepted claims of some rounds, but for those of convicted seats and those that a slash
    has paid. A short claim counts as a whole one: to read the segments of so many rounds would not fit a
    transaction of the contract."""
    return sum(
        state.terms.amounts.solver_pay
        for index in indices
        for slot, claim in state.rounds[index].claims.items()
        if slot not in state.rounds[index].restored
        and not is_closed(state, claim.seat)
        and get_claim_fate(state, state.rounds[index], slot, block) == ClaimFate.ACCEPTED
    )


# --- Bonds --------------------------------------------------------------------------------------------------
def return_bond(draft: Draft, number: int, account: str) -> None:
    """The whole bond goes back."""
    draft.move(bond_of(number), credit_of(account), draft.state.purse.get_wei(bond_of(number)))


def forfeit_bond(draft: Draft, number: int, account: str | None) -> None:
    """Half of a bond goes to `account`, which had to answer; the rest is burned. account: None where no
    account answered, then all of it is burned."""
    pot: Pot = bond_of(number)
    wei = draft.state.purse.get_wei(pot)
    if account is not None:
        draft.move(pot, credit_of(account), wei // 2)
    draft.move(pot, BURNED, draft.state.purse.get_wei(pot))
