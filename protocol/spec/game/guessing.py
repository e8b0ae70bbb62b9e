"""Which claims of a closed round will probably be merged, and what opens if they are. Advice: a wrong guess
costs time only."""

from protocol.spec.game.events import RootPosted
from protocol.spec.game.fates import get_accepted_block, get_claim_fate, list_mergeable
from protocol.spec.game.folding import Draft
from protocol.spec.game.rounds import open_next
from protocol.spec.game.state import REJECT_WORDS, ClaimFate, GameRound, GameState, RoundPhase
from protocol.spec.statements import VoteWord

AGAINST_WORDS = frozenset({*REJECT_WORDS, VoteWord.UNSERVED})
"""One of these words takes a claim out of the guess."""


def list_guessed(
    state: GameState, game_round: GameRound, own_slot: int | None, block: int
) -> tuple[int, ...]:
    """Slots of the claims that will probably be merged: those that the votes accept in time, the own one as
    long as it can be accepted, and those for which `is_trusted` holds. state: with all known votes."""
    mergeable = list_mergeable(state, game_round, block)
    return tuple(
        slot
        for slot in list_open(state, game_round, block)
        if slot in mergeable or slot == own_slot or is_trusted(state, game_round, slot)
    )


def list_open(state: GameState, game_round: GameRound, block: int) -> tuple[int, ...]:
    """Slots of the claims that are mergeable or can still become it."""
    fates = {slot: get_claim_fate(state, game_round, slot, block) for slot in sorted(game_round.claims)}
    mergeable = list_mergeable(state, game_round, block)
    return tuple(s for s, fate in fates.items() if s in mergeable or fate == ClaimFate.UNDECIDED)


def is_trusted(state: GameState, game_round: GameRound, slot: int) -> bool:
    """Whether no vote is against a claim, and either all of its votes say ACCEPT, one at least, or its seat
    did not fail in the last round in which it committed."""
    places = (votes for place, votes in game_round.votes.items() if place[0] == slot)
    words = [vote.word for votes in places for vote in votes.values()]
    if AGAINST_WORDS & set(words):
        return False
    return set(words) == {VoteWord.ACCEPT} or not has_failed(state, game_round, slot)


def has_failed(state: GameState, game_round: GameRound, slot: int) -> bool:
    """Whether the seat of a claim was not accepted in the last round before in which it committed. A seat
    that never committed has not failed. Rounds that are undone or forgotten say nothing."""
    number = game_round.claims[slot].seat
    seat = state.seats.get(number)
    if seat is None:
        return True
    for index in range(game_round.index - 1, seat.joined - 1, -1):
        before = state.rounds.get(index)
        if before is not None and before.phase != RoundPhase.UNDONE:
            claims = (place for place, claim in before.claims.items() if claim.seat == number)
            earlier = next(claims, None)
            if earlier is not None:
                return not _is_accepted(state, before, earlier)
    return False


def _is_accepted(state: GameState, game_round: GameRound, slot: int) -> bool:
    claim = game_round.claims[slot]
    is_gone = claim.is_void or claim.is_convicted
    return not is_gone and get_accepted_block(state, game_round, slot) is not None


def foresee(
    state: GameState, game_round: GameRound, root: bytes, slots: tuple[int, ...], block: int
) -> GameState:
    """The state if `root` over the claims of these slots is posted for the waiting round in `block`: with the
    next round, if one opens."""
    draft = Draft(state, block)
    draft.emit(RootPosted(game_round.index, root, slots, ()))
    open_next(draft)
    return draft.state
