"""Defines what a person can choose of a run. Nothing heavy is imported, because `--help` must not wait."""

from dataclasses import dataclass
from pathlib import Path

LEAST_AUDITORS = 3
"""One draw of a claim has a primary and two reserves."""
COUNTS = {
    "rounds": (3, 2, 1),
    "solvers": (3, 2, 1),
    "verifiers": (3, 3, LEAST_AUDITORS),
    "whistleblowers": (3, 1, 0),
}
"""By option: usually, with --quick, and the least."""
FAULTS = ("subtract", "add", "multiply", "divide", "square_root", "reciprocal_root", "sigmoid")
"""Operations whose last error in a step always reaches the weights; the first is the default."""
FORMATS = ("float32", "exact")


@dataclass(frozen=True)
class Choices:
    """What was chosen. A count of None means the usual one. `out` is the folder of the run's files (None: the
    usual place)."""

    is_quick: bool = False
    has_cheat: bool = True
    rounds: int | None = None
    solvers: int | None = None
    verifiers: int | None = None
    whistleblowers: int | None = None
    fault: str = FAULTS[0]
    numeric_format: str = FORMATS[0]
    has_explorer: bool = False
    seed: int = 1
    out: Path | None = None
    is_verbose: bool = False

    def get_count(self, name: str) -> int:
        """Returns the count of an option of `COUNTS`."""
        chosen: int | None = getattr(self, name)
        usual, quick, _ = COUNTS[name]
        if chosen is not None:
            return chosen
        return quick if self.is_quick else usual
