"""Decides for each mutant whether a test fails."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath
from threading import Lock

from tools.mutation.operators import Mutant
from tools.mutation.results import OUT_OF_TIME
from tools.mutation.suite_runs import Runner

# So many of the tests that killed a file's other mutants are tried before all others.
FIRST_TRIES = 12
# A mutant with an endless loop is killed after so many times what all tests take.
TIME_FACTOR = 6.0
# Suites that together take longer are run apart.
PART_S = 3.0
# Plays the whole protocol, which takes half as long as all other tests. It is tried when nothing else failed,
# but not for libraries, whose own tests must see what is wrong.
LAST = "tests/contracts/invariant/*"
LIBRARIES = "contracts/libraries/*"


class BaselineBroken(RuntimeError):
    """The copy does not pass its own tests without a mutant."""


class Campaign:
    """Decides for each mutant whether a test fails, several at once. Pass results of an earlier run to
    `learn` first."""

    def __init__(self, runner: Runner, left_out: Iterable[str]) -> None:
        self._runner = runner
        self._excluded = set(left_out)
        self._killers: dict[str, Counter[str]] = defaultdict(Counter)
        self._imports: dict[str, frozenset[str]] = {}
        self._took: dict[str, float] = {}
        self._limit_s = 0.0
        self._lock = Lock()

    def measure_baseline(self) -> tuple[list[str], float]:
        """Runs all tests without a mutant. Returns those left out (they fail on the copy) and the seconds.

        Raises BaselineBroken if almost nothing passes."""
        verdict = self._runner.run(0, self._without(), fail_fast=False)
        if len(verdict.failed) > len(verdict.passed) or not verdict.passed:
            raise BaselineBroken(
                f"the mutated copy fails with no mutant on: expected most tests to pass, "
                f"got {len(verdict.passed)} passed and these failed: {verdict.failed[:20]}"
            )
        self._excluded |= {_test_name(name) for name in verdict.failed}
        suites = sorted({name.split(":")[0] for name in verdict.passed})
        self._imports = {suite: self._runner.find_imports(suite) for suite in suites}
        self._took = verdict.took
        self._limit_s = max(30.0, TIME_FACTOR * verdict.seconds)
        return sorted(verdict.failed), verdict.seconds

    def learn(self, mutant: Mutant, by: str) -> None:
        """Notes which test killed a mutant, because it is likely to kill its neighbours. LAST stays last."""
        if ":" in by and not PurePosixPath(by.split(":")[0]).match(LAST):
            with self._lock:
                self._killers[mutant.function][by] += 1
                self._killers[mutant.path][by] += 1

    def judge(self, mutant: Mutant) -> tuple[str, float]:
        """Runs the likeliest tests, then the file's own suites, suites that name the file, and suites that
        import it.

        Returns the `suite:test` that failed, OUT_OF_TIME, or nothing for a survivor; and processor
        seconds."""
        by, seconds = "", 0.0
        for filters in self._stages(mutant):
            verdict = self._runner.run(mutant.number, filters, self._limit_s)
            seconds += verdict.seconds
            by = OUT_OF_TIME if verdict.timed_out else next(iter(verdict.failed), "")
            if by:
                break
        self.learn(mutant, by)
        return by, round(seconds, 2)

    def _stages(self, mutant: Mutant) -> Iterable[list[str]]:
        """Yields forge's filters, the likeliest tests first. Tests that killed before are tried by name."""
        with self._lock:
            names = _most_common(self._killers[mutant.function], self._killers[mutant.path])
            near = {name.split(":")[0] for name in self._killers[mutant.path]}
        if names:
            yield ["--match-test", f"^({'|'.join(names)})\\b"]
        stem = PurePosixPath(mutant.path).stem
        reaching = [suite for suite, imported in self._imports.items() if mutant.path in imported]
        last = {suite for suite in reaching if PurePosixPath(suite).match(LAST)}
        own = {suite for suite in reaching if PurePosixPath(suite).name.startswith(stem)} - last
        near |= {suite for suite in reaching if f"/{stem}.sol" in self._runner.read(suite)}
        near -= own | last
        others = set(reaching) - own - near - last
        if PurePosixPath(mutant.path).match(LIBRARIES):
            last = set()
        for group in (own, near, others, last):
            for suites in self._part(group):
                yield ["--match-path", _any_of(suites), *self._without()]

    def _part(self, suites: Iterable[str]) -> list[list[str]]:
        """Groups suites that together take up to PART_S, then the slower ones alone. If a fast suite fails,
        the slow ones are not needed, and another start of forge takes half a second."""
        parts: list[list[str]] = []
        part_s = math.inf
        for suite in sorted(suites, key=lambda suite: (self._took.get(suite, 0.0), suite)):
            part_s += self._took.get(suite, 0.0)
            if part_s > PART_S:
                parts.append([])
                part_s = self._took.get(suite, 0.0)
            parts[-1].append(suite)
        return parts

    def _without(self) -> list[str]:
        names = "|".join(map(re.escape, sorted(self._excluded)))
        return ["--no-match-test", f"^({names})\\("] if names else []


def _any_of(paths: Iterable[str]) -> str:
    """Returns forge's pattern for these paths, of which there may be one."""
    return "{" + ",".join(sorted({*paths, "none"})) + "}"


def _test_name(name: str) -> str:
    return name.split(":")[-1].split("(")[0]


def _most_common(*counters: Counter[str]) -> list[str]:
    names: list[str] = []
    for counter in counters:
        for name, _ in counter.most_common(FIRST_TRIES):
            plain = _test_name(name)
            if plain not in names and plain != "setUp" and len(names) < FIRST_TRIES:
                names.append(plain)
    return names
