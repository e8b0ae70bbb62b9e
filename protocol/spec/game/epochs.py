"""Computes epochs: rounds that a seat settles together, and the ring of places that they take."""

from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS, RING_ROUNDS


def get_epoch(index: int) -> int:
    """Returns the epoch of a round."""
    return index // EPOCH_ROUNDS


def get_epoch_start(epoch: int) -> int:
    """Returns the first round of an epoch."""
    return epoch * EPOCH_ROUNDS


def has_place(state: GameState, index: int) -> bool:
    """Returns whether the ring of rounds has a place for one more."""
    return get_epoch(index) - state.freed_epochs < RING_ROUNDS // EPOCH_ROUNDS
