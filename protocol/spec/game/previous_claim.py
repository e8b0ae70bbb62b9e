"""Finds the claim whose moments a claim continues."""

from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.state import GameRound, GameState


def find_last_merged(state: GameState, place: AuditPlace) -> tuple[int, int] | None:
    """Returns (round, slot) of the solver's last merged claim before this one in the same epoch: the claim
    whose moments carry over. None if there is none. Raises KeyError if a forgotten round may have it. Twin:
    `Evidence._lastMerged`."""
    claim = state.rounds[place.round].claims[place.slot]
    number, first = claim.seat, max(claim.joined, get_epoch_start(get_epoch(place.round)))
    for index in range(place.round - 1, first - 1, -1):
        before: GameRound = state.rounds[index]
        if before.phase == RoundPhase.POSTED and number in before.pool.solvers:
            slot = before.pool.solvers.index(number)
            if slot in before.merged:
                return index, slot
    return None
