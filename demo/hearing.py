"""Rewrites what a party says of its own work, with names in the place of slots and disputes."""

import re
from collections.abc import Collection, Mapping

from touchstone.explorer.names import Names
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.state import GameState

SLOT = re.compile(r"round (\d+) slot (\d+)")
DRAW = re.compile(r" draw \d+ segment (\d+): (\w+)")
DISPUTE = re.compile(r"dispute ([0-9a-f]{8})")
REASONS = re.compile(r" at https://.*|: expected .*", re.DOTALL)
"""Where a fault of a peer gets long; the log has all of it."""
EXPECTED = re.compile(r"round (\d+): training on the model that (\d+) claims of round (\d+) are expected")
TRAINED = re.compile(r"round (\d+): trained .* loss ")
REMARK = " (on a base that holds a cheat's claim)"


class Bases:
    """Notes on which bases parties train ahead. A loss on a base with a cheat's claim says nothing about the
    party that trains on it."""

    def __init__(self) -> None:
        self._false = dict[str, int]()

    def remark(self, name: str, line: str, falsified: Collection[int], claims: Mapping[int, int]) -> str:
        """Returns the line, with a remark if it tells a loss on a base with a cheat's claim. `falsified` are
        the rounds with such a claim, `claims` the number of claims of each round."""
        if found := EXPECTED.search(line):
            index, count, before = map(int, found.groups())
            is_false = before in falsified and count == claims.get(before)
            self._false[name] = index if is_false else -1
        found = TRAINED.search(line)
        is_told = found is not None and self._false.get(name) == int(found[1])
        return line + REMARK if is_told else line


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
