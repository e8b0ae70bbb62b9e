"""Who can choose a draw, and by how much: a cheat that owns a share of the slots plays for a draw that misses
it.

Three sources of randomness for the same draw, against the chance e that a fair draw lets the cheat escape:

- *block hash*: who builds the block tries hashes until one suits. A cheat withholds until it is the builder.
- *prevrandao*: the value of block N is the RANDAO mix after block N - 1. A cheat reveals or withholds in its
  own slots. It knows all its own reveals in advance, and no honest one: with m own slots in a row and b
  blocks to come before N, it picks among C(m, b) values, or lets an honest proposer draw anew.
- *prevrandao and drand*: no choice helps, since nobody knows the round when the blocks are made.

Slot owners are drawn at random and are known to the cheat from far ahead; its best play on each ownership is
computed exactly, by dynamic programming. Exact otherwise. Writes build/grinding/report.json.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import comb
from random import Random
from typing import Any

from benchmarks.setting import write_report
from protocol.spec.odds import compute_escape_probability

SHARES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.45)
"""Of the slots; the largest staker of Ethereum has had about 0.3."""
DELAY_BLOCKS = 32
"""Blocks between the last choice that the draw judges and the block that seals it (mainnet preset)."""
HORIZON_SLOTS = 4 * DELAY_BLOCKS
OWNERSHIPS = 4_000
HASHES_TRIED = 1 << 30
"""In a slot of 12 s; one graphics card does more."""
SEED = 20


@dataclass(frozen=True)
class Draw:
    """A draw and what its cheat spoiled; `escape` is its chance when nobody chooses."""

    name: str
    escape: float


@dataclass(frozen=True)
class Play:
    """The best play against one source: the chance to escape, and the mean number of own blocks withheld."""

    escape: float
    withheld: float


Solver = Callable[[tuple[bool, ...], int, float], Play]


def list_draws() -> tuple[Draw, ...]:
    """Draws of a round with 100 segments: how much is spoiled and how many are audited."""
    cases = [(1, 5), (1, 20), (10, 5), (10, 20), (50, 5)]
    return tuple(
        Draw(f"{spoiled} of 100 segments spoiled, {draws} drawn", _escape(spoiled, draws))
        for spoiled, draws in cases
    ) + (Draw("all three auditors of a draw among 8 of 24 verifiers own", comb(8, 3) / comb(24, 3)),)


def _escape(spoiled: int, draws: int) -> float:
    # Spread evenly: adjacent ones would be missed more often.
    segments = range(0, 100, 100 // spoiled)
    return float(compute_escape_probability(100, draws, list(segments)[:spoiled]))


def play_drand(escape: float) -> Play:
    """Whatever blocks the cheat withholds, the round that decides is signed afterwards."""
    return Play(escape, 0.0)


def play_many(solve: Solver, share: float, escape: float, ownerships: int = OWNERSHIPS) -> Play:
    """The mean of the best play over `ownerships` random ownerships of the slots."""
    random = Random(f"{SEED}/{share}")
    owned = [tuple(random.random() < share for _ in range(HORIZON_SLOTS)) for _ in range(ownerships)]
    plays = [solve(slots, DELAY_BLOCKS, escape) for slots in owned]
    return Play(
        sum(play.escape for play in plays) / ownerships, sum(play.withheld for play in plays) / ownerships
    )


def solve_block_hash(slots: tuple[bool, ...], blocks: int, escape: float) -> Play:
    """The best play where the hash of the last of `blocks` blocks decides; see `solve_prevrandao`."""
    found = 1 - (1 - escape) ** HASHES_TRIED

    @cache
    def play(slot: int, left: int) -> tuple[float, float]:
        is_own = slot < len(slots) and slots[slot]
        if left == 1 and is_own:
            return found, 0.0
        if left == 1 or slot >= len(slots):
            return escape, 0.0
        published = play(slot + 1, left - 1)
        if not is_own:
            return published
        chance, cost = play(slot + 1, left)
        return max(published, (chance, cost - 1))

    chance, cost = play(0, blocks)
    return Play(chance, -cost)


def solve_prevrandao(slots: tuple[bool, ...], blocks: int, escape: float) -> Play:
    """The best play where `slots[t]` says whether slot t is the cheat's and `blocks` are to come, the last of
    which decides; behind the known slots all are honest.

    Of two plays with the same chance the one that withholds less is taken.
    """
    runs = _measure_runs(slots)

    @cache
    def play(slot: int, left: int) -> tuple[float, float]:
        """(chance to escape, minus blocks withheld): the larger the better."""
        if slot >= len(slots):
            return escape, 0.0
        if not slots[slot]:
            return (escape, 0.0) if left == 1 else play(slot + 1, left - 1)
        run = runs[slot]
        # Without a value that suits: publish all but `skipped` of the run, so that an honest block decides.
        least = max(0, run - left + 1)
        rest = max(
            (chance, cost - skipped)
            for skipped in range(least, run + 1)
            for chance, cost in [play(slot + run, left - run + skipped)]
        )
        if run < left:
            return rest
        # The fewest withheld first: one value each, C(j + left - 1, left - 1) of them with j withheld.
        chance, cost, missed = 0.0, 0.0, 1.0
        for skipped in range(run - left + 1):
            values = comb(skipped + left - 1, left - 1)
            found = missed * (1 - (1 - escape) ** values)
            chance, cost, missed = chance + found, cost - found * skipped, missed - found
        return chance + missed * rest[0], cost + missed * rest[1]

    chance, cost = play(0, blocks)
    return Play(chance, -cost)


def _measure_runs(slots: tuple[bool, ...]) -> list[int]:
    """How many slots in a row, from each one on, are the cheat's."""
    runs = [0] * (len(slots) + 1)
    for slot in reversed(range(len(slots))):
        runs[slot] = runs[slot + 1] + 1 if slots[slot] else 0
    return runs


def measure(ownerships: int = OWNERSHIPS) -> list[dict[str, Any]]:
    """One row a draw and share."""
    rows = []
    for draw in list_draws():
        for share in SHARES:
            best = play_many(solve_prevrandao, share, draw.escape, ownerships)
            ground = play_many(solve_block_hash, share, draw.escape, ownerships)
            rows.append(
                {
                    "draw": draw.name,
                    "share": share,
                    "fair": draw.escape,
                    "block_hash": ground.escape,
                    "prevrandao": best.escape,
                    "prevrandao_over_fair": best.escape / draw.escape,
                    "blocks_withheld": best.withheld,
                    "with_drand": play_drand(draw.escape).escape,
                }
            )
    return rows


def main() -> None:
    """Print the table and write the report."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--ownerships", type=int, default=OWNERSHIPS)
    options = parser.parse_args()
    rows = measure(options.ownerships)
    for row in rows:
        print(
            f"{row['draw']:<58} s {row['share']:<5} fair {row['fair']:.2e} hash {row['block_hash']:.2e} "
            f"prevrandao {row['prevrandao']:.2e} (x{row['prevrandao_over_fair']:.2f}, "
            f"{row['blocks_withheld']:.2f} withheld) drand {row['with_drand']:.2e}"
        )
    print(write_report("grinding", {"delay_blocks": DELAY_BLOCKS, "rows": rows}))


if __name__ == "__main__":
    main()
