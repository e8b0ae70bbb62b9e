"""Computes the chance that a draw favours an owner of a share of the chain's slots (decision 0020).

A draw takes the RANDAO of `delay` blocks after the round has closed. The owner of a slot knows the slot's
reveal, and may withhold the block; then the next slot makes the value. The last commitment closes a round, so
a cheat chooses the block of the close.

    known      the cheat owns all slots from the close to the draw: it knows the draw before it commits
    played     it owns some: m own slots in a row with b blocks to come leave C(m, b) values to choose from,
               or it waits for an honest slot, which makes a new value

The owners of slots are assumed to be known from the start. Ethereum announces them one to two epochs ahead.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from touchstone.protocol.spec.game.terms import GameWindows

SLOTS = 20_000
"""The number of slots whose owners are drawn, the same owners in each run."""
TIE = 9
"""Two chances count as equal if they agree in this many digits; then the one with fewer withheld blocks
wins."""


def count_moments(windows: GameWindows) -> int:
    """Returns how many draws the choice of a round's closing block can lead to: one for each grid block until
    `train_max`."""
    return windows.train_max // windows.draw_grid


def bound_known(share: Fraction, windows: GameWindows) -> Fraction:
    """Returns an upper bound for the chance that an owner of `share` of the slots can close a round when it
    knows the draw before the last commitment."""
    return min(Fraction(1), count_moments(windows) * share**windows.delay)


@dataclass(frozen=True)
class Played:
    """The best play of a cheat that knows the owners of the slots. `escape` is the chance that the draw
    favours the cheat, if it cannot choose when the round closes. `chosen` is that chance if it closes the
    round at its best moment. `withheld` is how many blocks it withholds for one draw at most, on average, if
    it cannot choose the close."""

    escape: float
    chosen: float
    withheld: float


def play(fair: float, share: float, windows: GameWindows) -> Played:
    """Returns the best play with `share` of the slots, if a draw favours the cheat with chance `fair`. Exact
    for the owners of SLOTS slots, which a fixed seed draws."""
    chance, grid, moments = random.Random(1), windows.draw_grid, count_moments(windows)
    owned = [chance.random() < share for _ in range(SLOTS)]
    plays = _play_backwards(owned, fair, windows.delay)[: SLOTS - 2 * windows.train_max]
    rounds = [plays[first : first + moments * grid : grid] for first in range(0, len(plays), moments * grid)]
    return Played(
        escape=sum(escape for escape, _ in plays) / len(plays),
        chosen=sum(max(escape for escape, _ in one) for one in rounds) / len(rounds),
        withheld=sum(withheld for _, withheld in plays) / len(plays),
    )


def _play_backwards(owned: Sequence[bool], fair: float, delay: int) -> list[tuple[float, float]]:
    """Returns chance and withheld blocks of the best play, by the slot that makes the first of `delay`
    blocks."""
    done = [(fair, 0.0)] * (delay + 1)
    played, run = [done], 0
    # played[-1 - i][b] is for the slot i places further on, with b blocks to come.
    for is_own in reversed(owned):
        run = run + 1 if is_own else 0
        if run:
            after = played[-run]
            played.append([done[0], *(_play_run(run, b, fair, after) for b in range(1, delay + 1))])
        else:
            played.append([done[0], done[0], *played[-1][1:delay]])
    return [one[delay] for one in reversed(played[1:])]


def _play_run(
    run: int, blocks: int, fair: float, after: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """Returns the chance and withheld blocks from the first of `run` own slots on, with `blocks` to come.
    `after` holds chance and blocks from the slot after the run on, by the blocks to come."""
    ends = 1 - (1 - fair) ** comb(run, blocks)
    # If no value that ends here is good, the next honest slot makes a new one.
    goes_on, less = max(
        (round(after[blocks - made][0], TIE), made - run - after[blocks - made][1])
        for made in range(min(run, blocks - 1) + 1)
    )
    return ends + (1 - ends) * goes_on, ends * (run - blocks) - (1 - ends) * less
