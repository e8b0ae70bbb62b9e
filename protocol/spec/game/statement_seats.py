"""Finds the seat that answers for a statement: a claim or a vote."""

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import get_draw_role, get_drawn_seat
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.pools import is_convicted
from touchstone.protocol.spec.game.rounds import get_round
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.timing import get_statement_until, get_votes_from


def find_statement_seat(state: GameState, ref: StatementRef, signer: int | None = None) -> int | None:
    """Returns the seat that committed the claim, or that signed the vote; None if there is neither.

    A signer answers even if it was not drawn, because the contract cannot afford to compute the draw again,
    and an honest seat signs no vote of a draw that is not its own. `signer` is its seat, None for the drawn
    one."""
    game_round = state.rounds.get(ref.round)
    if game_round is None or ref.slot not in game_round.claims:
        return None
    if ref.draw is None:
        return game_round.claims[ref.slot].seat
    if signer is None:
        return get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)
    is_draw = 0 <= ref.draw <= state.terms.draws and 0 <= ref.rank < RANKS
    is_sealed = get_votes_from(state, game_round, ref.draw) is not None
    seat = state.seats.get(signer)
    is_auditor = seat is not None and seat.role == get_draw_role(state, ref.draw)
    return signer if is_draw and is_sealed and is_auditor else None


def get_statement_seat(state: GameState, ref: StatementRef, signer: int | None = None) -> int:
    """Returns the seat as `find_statement_seat`. Refuses RoundUnknown, and StatementUnknown if no seat
    answers for the statement any more. A seat that has settled the round does not, nor does another account's
    seat with the same number."""
    get_round(state, ref.round)
    number = find_statement_seat(state, ref, signer)
    is_there = number is not None and number in state.seats and state.seats[number].settled <= ref.round
    require(is_there, "StatementUnknown", actual=ref)
    assert number is not None
    return number


def get_accused(draft: Draft, ref: StatementRef, signer: int | None, sender: str) -> int:
    """Returns the seat that answers for a statement which can still be proven false."""
    state, number = draft.state, get_statement_seat(draft.state, ref, signer)
    require(not is_convicted(state, number), "SeatIsConvicted", actual=number)
    require(state.seats[number].account != sender, "OwnStatement", actual=sender)
    until = get_statement_until(state, ref)
    require(draft.block <= until, "OutsideWindow", f"until {until}", draft.block)
    return number
