"""What is played: how long a round trains, in how many rounds nothing, one verifier, one solver is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

HONEST, SILENT_VERIFIER, FALSE_SOLVER = "honest", "silent_verifier", "false_solver"


@dataclass(frozen=True)
class Phase:
    """Rounds [first, last] of one network."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Play:
    """train_s: training time of a round, which each party draws up to `spread` off; segment_steps: k, of
    which a round has `SEGMENTS` times as many."""

    train_s: float
    counts: tuple[int, int, int]
    segment_steps: int
    block_s: int = 2
    spread: float = 0.02
    seed: int = 1

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One after another."""
        return list_phases(self.counts)

    @property
    def rounds(self) -> int:
        """Of all phases."""
        return sum(self.counts)

    @property
    def first_false(self) -> int:
        """The round of the first false claim."""
        return self.phases[-1].first

    @property
    def last_with_all(self) -> int:
        """The last round that has all verifiers."""
        return self.phases[0].last


def list_phases(counts: Sequence[int]) -> tuple[Phase, ...]:
    """So many rounds of each."""
    found, first = [], 0
    for name, count in zip((HONEST, SILENT_VERIFIER, FALSE_SOLVER), counts, strict=True):
        found.append(Phase(name, first, first + count - 1))
        first += count
    return tuple(found)


FULL = Play(train_s=180.0, counts=(8, 6, 6), segment_steps=4)
QUICK = Play(train_s=12.0, counts=(2, 1, 2), segment_steps=2)
