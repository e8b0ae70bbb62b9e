"""Rewrites what a party says of its own work, with names in the place of slots and disputes."""

import re

from touchstone.explorer.names import Names
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.state import GameState

SLOT = re.compile(r"round (\d+) slot (\d+)")
DRAW = re.compile(r" draw \d+ segment (\d+): (\w+)")
DISPUTE = re.compile(r"dispute ([0-9a-f]{8})")
REASONS = re.compile(r" at https://.*|: expected .*", re.DOTALL)
"""Where a fault of a peer gets long; the log has all of it."""


def reword_said(names: Names, game: GameState, inner: InnerBook, line: str) -> str:
    """Returns the line for people."""

    def put_solver(found: re.Match[str]) -> str:
        index, slot = int(found[1]), int(found[2])
        return f"{names.of_slot(game, index, slot)}'s claim of round {index}"

    def put_accused(found: re.Match[str]) -> str:
        seats = (one.seat for name, one in inner.disputes.items() if name.hex().startswith(found[1]))
        seat = next(seats, None)
        return found[0] if seat is None else f"its dispute against {names.of_seat(game, seat)}"

    said = DISPUTE.sub(put_accused, SLOT.sub(put_solver, REASONS.sub("", line)))
    return DRAW.sub(r", segment \1: replayed it, \2", said)
