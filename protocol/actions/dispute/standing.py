"""Whether a statement can be held against its seat now, and who answers for it. Pure: all from the state."""

from protocol.actions.dispute.sources import KnownVote
from protocol.spec.game.drawing import get_late_draw, get_segments
from protocol.spec.game.enums import ClaimFate, SeatRole, SeatStatus
from protocol.spec.game.fates import get_claim_fate
from protocol.spec.game.pools import find_seat
from protocol.spec.game.state import GameRound, GameState, Seat, SlotClaim, StatementRef
from protocol.spec.game.timing import get_statement_until, is_late_draw
from protocol.spec.statements import Sealed, is_vote_whole


def find_claim(state: GameState, index: int, slot: int) -> SlotClaim | None:
    """The claim of a slot, None where there is none."""
    game_round = state.rounds.get(index)
    return None if game_round is None else game_round.claims.get(slot)


def find_solver(state: GameState, index: int, slot: int) -> str | None:
    """The account of a claim's solver, None where there is no claim or its seat's number is another's now."""
    claim = find_claim(state, index, slot)
    holder = None if claim is None else state.seats.get(claim.seat) or state.former.get(claim.seat)
    return holder.account if holder is not None and holder.joined <= index else None


def find_signer(state: GameState, said: Sealed, auditor: str) -> Seat | None:
    """The seat that answers for what `auditor` has signed, None where the statement is not of this chain."""
    game_round, seat = state.rounds.get(said.round), find_seat(state, auditor)
    if game_round is None or seat is None or seat.settled > said.round:
        return None
    role = SeatRole.WHISTLEBLOWER if is_late_draw(state, said.draw) else SeatRole.VERIFIER
    return seat if seat.role == role and is_of_chain(state, game_round, said) else None


def is_of_chain(state: GameState, game_round: GameRound, said: Sealed) -> bool:
    """Whether a statement is about the round, claim and seed that stand: after a reorg it may not be."""
    claim = game_round.claims.get(said.slot)
    seed = game_round.late_seed if is_late_draw(state, said.draw) else game_round.seed
    if claim is None or seed is None or said.draw > state.terms.draws or said.segment >= claim.segments:
        return False
    expected = (state.terms.domain, game_round.base_root, claim.claim_root, seed)
    return (said.domain, said.base_root, said.claim_root, said.seed) == expected


def find_accused(state: GameState, ref: StatementRef, known: KnownVote | None) -> Seat | None:
    """The seat that answers for a claim, or for a vote that is known; None where nobody does any more."""
    if known is not None:
        is_whole = is_vote_whole(known.vote)
        return find_signer(state, known.vote, known.auditor) if is_whole else None
    claim = find_claim(state, ref.round, ref.slot)
    seat = None if claim is None else state.seats.get(claim.seat)
    return seat if seat is not None and seat.joined <= ref.round and seat.settled <= ref.round else None


def is_provable(state: GameState, ref: StatementRef, seat: Seat | None, me: str, block: int) -> bool:
    """Whether a statement of another's open seat can be proven false in `block`."""
    if seat is None or seat.status == SeatStatus.CLOSED or seat.account == me:
        return False
    return block <= get_statement_until(state, ref)


def is_disputable(state: GameState, ref: StatementRef, seat: Seat | None, me: str, block: int) -> bool:
    """Whether it can be disputed: once its claim is decided."""
    game_round = state.rounds[ref.round]
    fate = get_claim_fate(state, game_round, ref.slot, block)
    is_decided = fate in (ClaimFate.ACCEPTED, ClaimFate.VOID)
    return is_decided and is_provable(state, ref, seat, me, block)


def are_steps_shown(state: GameState, game_round: GameRound, slot: int, segment: int, block: int) -> bool:
    """Whether the steps of a segment may be shown before a dispute: once no auditor can copy what follows
    from them. A segment that is not drawn waits until the late draw is known."""
    if get_claim_fate(state, game_round, slot, block) not in (ClaimFate.ACCEPTED, ClaimFate.VOID):
        return False
    if segment in get_segments(state, game_round, slot):
        return True
    late = get_late_draw(state, game_round, slot)
    if late is None or late.segment != segment:
        return game_round.late_seed is not None or not state.terms.late_chance
    return block > (game_round.late_from or block) + 2 * state.terms.windows.audit_max


def list_provable_rounds(state: GameState, block: int) -> list[GameRound]:
    """Rounds of which a statement, claim or vote, can still be proven false in `block`."""
    window = state.terms.windows.dispute
    return [one for one in state.rounds.values() if one.claims and _is_recent(one, block - window)]


def _is_recent(game_round: GameRound, since: int) -> bool:
    return game_round.closed is None or max(game_round.closed, game_round.late_from or 0) >= since
