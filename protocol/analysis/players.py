"""What the coalition of a simulation does, and where its draws are."""

from collections.abc import Iterator
from enum import Enum

from protocol.spec.audit_draw import RANKS
from protocol.spec.game.drawing import get_drawn_seat, get_drawn_segment, list_draws
from protocol.spec.game.enums import RoundPhase
from protocol.spec.game.state import GameRound, GameState
from protocol.spec.game.timing import is_late_draw
from protocol.spec.game.unserved import VotePlace
from protocol.spec.statements import VoteWord


class CheatKind(Enum):
    """What a cheating solver does. SERVING: it serves whoever asks. HIDING: where a spoiled segment was drawn
    it serves nobody but its own. REFUSING: it serves nobody but its own at all."""

    SERVING = "serving"
    HIDING = "hiding"
    REFUSING = "refusing"


def list_places(state: GameState, game_round: GameRound) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(slot, draw, the three seats) of all draws of a round that counts."""
    if game_round.phase == RoundPhase.UNDONE:
        return
    for slot, draw in list_draws(state, game_round):
        seats = (get_drawn_seat(state, game_round, slot, draw, rank) for rank in range(RANKS))
        yield slot, draw, tuple(seat for seat in seats if seat is not None)


def get_statement(state: GameState, place: VotePlace) -> tuple[int, bytes]:
    """Segment and seed of a draw."""
    index, slot, draw = place
    game_round = state.rounds[index]
    segment = get_drawn_segment(state, game_round, slot, draw)
    seed = game_round.late_seed if is_late_draw(state, draw) else game_round.seed
    assert segment is not None and seed is not None
    return segment, seed


def choose_own_word(rank: int, own: tuple[bool, ...], is_false: bool) -> VoteWord:
    """A coalition's auditor accepts where that decides. Where it does not, to accept would only be one more
    false word."""
    is_deciding = rank == 0 or (own[1] and own[2])
    return VoteWord.ACCEPT if is_deciding or not is_false else VoteWord.ABSTAIN


def is_serving(kind: CheatKind, is_hit: bool) -> bool:
    """Whether a cheating solver serves an honest auditor."""
    return kind == CheatKind.SERVING or (kind == CheatKind.HIDING and not is_hit)
