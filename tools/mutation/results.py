"""Keeps the result of each mutant, a line each, and for which sources it counts."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.mutation.operators import Mutant
from tools.mutation.project import TESTS, hash_build, hash_vectors, list_sources
from tools.mutation.reach import read_reached
from touchstone.scripts.toolchain import ROOT

MOST_BYTES = 50_000
"""The most bytes of the published record."""
OUT_OF_TIME = "time"
"""The mark of a mutant that was killed because it did not end in time."""


@dataclass(frozen=True)
class Result:
    """The result of the mutant named `key`. `by` is the `suite:test` that failed, or OUT_OF_TIME; empty for a
    survivor. `seconds` is processor time, `basis` what it rests on: see Basis."""

    key: str
    by: str
    seconds: float
    basis: str


class Basis:
    """Names what a result rests on by a hash; the result counts until any of that changes.

    A kill rests on the mutated contract and the suite that saw it, with all that they import and the shared
    vectors that any of these names in quotes. A survivor rests on its contract. Later tests may kill it
    (`--again` tries) and none can revive it, so the real score is at least the reported one. A kill by the
    clock rests on all sources."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._imports: dict[str, dict[str, str]] = {}
        self._build, self._vectors = hash_build(), hash_vectors(root)

    def of(self, mutant: Mutant, by: str) -> str:
        """Returns SHA-256 hex, cut to 16, over all that the mutant's end `by` rests on."""
        starts = [mutant.path]
        if by == OUT_OF_TIME:
            starts = list_sources(self._root)
        elif by:
            starts.append(by.split(":")[0])
        sources = {path: text for start in starts for path, text in self._read(start).items()}
        text = json.dumps([self._build, sorted(sources.items()), self._list_vectors(sources.values())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def holds(self, mutant: Mutant, result: Result) -> bool:
        """Returns whether nothing that the mutant's result rests on has changed since."""
        suite = result.by.split(":")[0]
        is_there = not suite.startswith(TESTS) or (self._root / suite).is_file()
        return is_there and result.basis == self.of(mutant, result.by)

    def _list_vectors(self, texts: Iterable[str]) -> list[tuple[str, str]]:
        whole = "".join(texts)
        return [(name, digest) for name, digest in self._vectors.items() if f'"{name}"' in whole]

    def _read(self, start: str) -> dict[str, str]:
        if start not in self._imports:
            self._imports[start] = read_reached(self._root, start)
        return self._imports[start]


def read_results(path: Path) -> dict[str, Result]:
    """Returns the results of an earlier run in `path`; a half-written last line does not count."""
    results = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            result = Result(**json.loads(line))
        except (json.JSONDecodeError, TypeError):
            continue
        results[result.key] = result
    return results


def append_result(path: Path, result: Result) -> None:
    """Appends one result. A line is whole or does not count."""
    with open(path, "a") as file:
        file.write(_line(result))


def write_results(path: Path, results: Iterable[Result], most_bytes: int = MOST_BYTES) -> None:
    """Writes exactly these results, by key, so that two campaigns can be compared. If they do not all fit,
    survivors come before kills, because a missing kill costs only one more run."""
    lines, size = [], 0
    for result in sorted(results, key=lambda result: (bool(result.by), result.key)):
        line = _line(result)
        size += len(line.encode())
        if size > most_bytes:
            break
        lines.append(line)
    path.write_text("".join(sorted(lines)))


def _line(result: Result) -> str:
    return json.dumps(asdict(result)) + "\n"
