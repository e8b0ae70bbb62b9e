"""What a conviction does: the whole stake is taken and split, what else is open on the seat ends.

A finder gets a quarter at most and no more than the cap, the submitter a quarter at most and no more than it
may still have to pay. The rest, half or more, first pays for accepted work that the fault made void, and is
burned.
"""

from protocol.spec.game.draft import Draft
from protocol.spec.game.enums import REJECT_WORDS, ClaimFate, DrawFate, GameOutcome, ProofKind, SeatStatus
from protocol.spec.game.events import AskOver, DisputeOver, PayRestored, SeatConvicted
from protocol.spec.game.fates import compute_draw_fate, get_claim_fate, get_votes
from protocol.spec.game.pools import find_seat, get_stake
from protocol.spec.game.purse import BURNED, ESCROW, SLASHED, Pot, bond_of, credit_of, stake_of
from protocol.spec.game.state import GameRound, GameState, OpenAsk, RunningDispute, StatementRef

OwedPay = tuple[int, int]
"""(round, slot) of a claim that a slash pays for."""


def convict(draft: Draft, number: int, proof: ProofKind, finder: str, ref: StatementRef) -> None:
    """Closes a seat for one of its statements."""
    owed = _list_voided(draft.state, ref)
    draft.emit(SeatConvicted(number, proof, ref))
    end_questions(draft, number)
    slash(draft, (number,), finder, owed)


def convict_signers(draft: Draft, signers: tuple[int, ...], finder: str, owed: list[OwedPay]) -> None:
    """Closes all seats that signed a root which fell."""
    left = tuple(n for n in signers if draft.state.seats[n].status != SeatStatus.CLOSED)
    for number in left:
        draft.emit(SeatConvicted(number, ProofKind.WRONG_MERGE, None))
        end_questions(draft, number)
    slash(draft, left, finder, owed)


def slash(draft: Draft, numbers: tuple[int, ...], finder: str, owed: list[OwedPay]) -> None:
    """Takes and splits the stakes."""
    for number in numbers:
        draft.move(stake_of(number), SLASHED, get_stake(draft.state, number))
    total = draft.state.purse.get_wei(SLASHED)
    draft.move(SLASHED, credit_of(finder), min(total // 4, draft.state.terms.amounts.finder_cap))
    refund = min(total // 4, draft.state.purse.get_wei(ESCROW))
    draft.move(SLASHED, credit_of(draft.state.terms.submitter), refund)
    for index, slot in owed:
        _restore(draft, index, slot)
    draft.move(SLASHED, BURNED, draft.state.purse.get_wei(SLASHED))


def _restore(draft: Draft, index: int, slot: int) -> None:
    """Pays for a claim of an honest seat: at settlement, or at once where the seat has settled already."""
    state, game_round = draft.state, draft.state.rounds[index]
    claim = game_round.claims[slot]
    seat = find_seat(state, claim.account)
    is_closed = claim.is_convicted or (seat is not None and seat.status == SeatStatus.CLOSED)
    if slot in game_round.restored or is_closed:
        return
    wei = min(compute_claim_pay(state, game_round, slot), state.purse.get_wei(SLASHED))
    is_settled = seat is None or seat.settled > index
    draft.move(SLASHED, credit_of(claim.account) if is_settled else ESCROW, wei)
    draft.emit(PayRestored(index, slot, wei))


def compute_claim_pay(state: GameState, game_round: GameRound, slot: int) -> int:
    """What an accepted claim earns: the round's pay for its share of the segments, in wei, rounded down."""
    terms = state.terms
    return terms.amounts.solver_pay * game_round.claims[slot].segments // terms.segment_count


def _list_voided(state: GameState, ref: StatementRef) -> list[OwedPay]:
    """The claim that a false REJECT made void, if the statement was one."""
    game_round = state.rounds[ref.round]
    if ref.draw is None or ref.draw >= state.terms.draws or ref.slot not in game_round.claims:
        return []
    votes = get_votes(game_round, ref.slot, ref.draw)
    vote = votes.get(ref.rank)
    is_reject = vote is not None and vote.word in REJECT_WORDS
    is_cause = is_reject and compute_draw_fate(votes) == DrawFate.FAILED
    return [(ref.round, ref.slot)] if is_cause else []


def list_accepted(state: GameState, indices: list[int], block: int) -> list[OwedPay]:
    """The accepted claims of some rounds."""
    return [
        (index, slot)
        for index in indices
        for slot in sorted(state.rounds[index].claims)
        if get_claim_fate(state, state.rounds[index], slot, block) == ClaimFate.ACCEPTED
    ]


# --- Bonds --------------------------------------------------------------------------------------------------
def return_bond(draft: Draft, number: int, account: str) -> None:
    """The whole bond goes back."""
    draft.move(bond_of(number), credit_of(account), draft.state.purse.get_wei(bond_of(number)))


def forfeit_bond(draft: Draft, number: int, account: str | None) -> None:
    """Half of a bond goes to who was put to the trouble, the rest is burned; all where nobody was."""
    pot: Pot = bond_of(number)
    wei = draft.state.purse.get_wei(pot)
    if account is not None:
        draft.move(pot, credit_of(account), wei // 2)
    draft.move(pot, BURNED, draft.state.purse.get_wei(pot))


def end_questions(draft: Draft, number: int) -> None:
    """All asks and disputes on a convicted seat end, bonds returned."""
    asks: list[OpenAsk] = [one for one in draft.state.asks.values() if one.seat == number]
    for ask in asks:
        return_bond(draft, ask.number, ask.asker)
        draft.emit(AskOver(ask.number, GameOutcome.MOOT))
    disputes: list[RunningDispute] = [d for d in draft.state.disputes.values() if d.seat == number]
    for dispute in disputes:
        return_bond(draft, dispute.number, dispute.opener)
        draft.emit(DisputeOver(dispute.number, GameOutcome.MOOT))
