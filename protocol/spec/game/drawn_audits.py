"""Finds the audits that the chain has drawn: place, segment, and the drawn seat."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.statements import Sealed, VoteWord

COMPARED_ENDS = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA})
"""Verdicts after which both ends were compared."""


@dataclass(frozen=True, order=True)
class AuditPlace:
    """Names a rank of a draw of one claim on one chain. Two statements with the same place are about the same
    draw."""

    domain: bytes
    round: int
    base_root: bytes
    seed: bytes
    slot: int
    claim_root: bytes
    draw: int
    rank: int


@dataclass(frozen=True)
class DrawnAudit:
    """A drawn audit: its place, the segment of the claim, and the drawn seat."""

    place: AuditPlace
    segment: int
    segments: int
    seat: Seat
    solver: str
    """The account that made the claim. It may have no seat any more."""


def get_place(said: Sealed) -> AuditPlace:
    """Returns the place of the audit that a seal or a vote belongs to."""
    where = (said.domain, said.round, said.base_root, said.seed)
    return AuditPlace(*where, said.slot, said.claim_root, said.draw, said.rank)


def get_drawn(state: GameState, index: int, slot: int, draw: int, rank: int) -> DrawnAudit | None:
    """Returns the audit of a rank of a draw as the chain has it now. None if there is none, if the round is
    undone, or if the auditor was convicted. The claim of a convicted solver is still audited: votes on it are
    paid, and a silent primary counts as missing."""
    game_round = state.rounds.get(index)
    if game_round is None or game_round.phase == RoundPhase.UNDONE:
        return None
    return get_ever_drawn(state, index, slot, draw, rank)


def get_ever_drawn(state: GameState, index: int, slot: int, draw: int, rank: int) -> DrawnAudit | None:
    """Returns the audit of a rank of a draw, as `get_drawn` does, but also in an undone round. In an undone
    round nothing is audited any more, but signers still answer for their votes: votes are read, and auditors
    see steps."""
    game_round = state.rounds.get(index)
    if game_round is None or slot not in game_round.claims:
        return None
    number, claim = get_drawn_seat(state, game_round, slot, draw, rank), game_round.claims[slot]
    seat, segment = state.seats.get(number or 0), get_drawn_segment(state, game_round, slot, draw)
    seed = game_round.late_seed if is_late_draw(state, draw) else game_round.seed
    if seat is None or seat.status == SeatStatus.CONVICTED or segment is None or seed is None:
        return None
    claimed = (game_round.base_root, seed, slot, claim.claim_root)
    place = AuditPlace(state.terms.domain, game_round.index, *claimed, draw, rank)
    return DrawnAudit(place, segment, claim.segments, seat, claim.account)


def find_drawn(state: GameState, place: AuditPlace) -> DrawnAudit | None:
    """Returns the audit of a place if the chain has drawn it, else None."""
    drawn = get_drawn(state, place.round, place.slot, place.draw, place.rank)
    return drawn if drawn is not None and drawn.place == place else None


def find_stated(state: GameState, place: AuditPlace) -> DrawnAudit | None:
    """Returns the audit of a seal or a vote. Unlike `find_drawn`, also in an undone round, because the
    auditor's statements there can still be queried and disputed."""
    stated = get_ever_drawn(state, place.round, place.slot, place.draw, place.rank)
    return stated if stated is not None and stated.place == place else None


def list_drawn(state: GameState, account: str, block: int) -> Iterator[DrawnAudit]:
    """Yields the audits of one account in rounds whose votes still count at `block`."""
    for index in list_heard(state, block - 2 * state.terms.windows.audit_max):
        game_round = state.rounds[index]
        for slot, draw in list_draws(state, game_round):
            for rank in range(RANKS):
                drawn = get_drawn(state, index, slot, draw, rank)
                if drawn is not None and drawn.seat.account == account:
                    yield drawn


def list_heard(state: GameState, from_block: int) -> Iterator[int]:
    """Yields the rounds that closed, or whose late audits were drawn, at `from_block` or later."""
    for index, game_round in state.rounds.items():
        if max(game_round.closed or 0, game_round.late_from or 0) >= from_block:
            yield index
