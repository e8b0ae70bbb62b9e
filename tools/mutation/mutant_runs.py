"""Runs the tests against one mutant after the other, and records what became of each.

What became of each mutant, a line each, and for which sources it counts.
"""

import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from tools.mutation.operators import Mutant
from tools.mutation.project import TESTS, hash_build, hash_vectors, list_sources, read_reached
from touchstone.scripts.toolchain import ROOT, forge_path

MOST_BYTES = 50_000
"""What the published record may weigh."""
OUT_OF_TIME = "time"
"""What killed a mutant that made a loop endless."""


@dataclass(frozen=True)
class Result:
    """What became of the mutant named `key`; `by` is the `suite:test` that failed, or OUT_OF_TIME; empty for
    a survivor. `seconds` is processor time, `basis` what it rests on: see Basis."""

    key: str
    by: str
    seconds: float
    basis: str


class Basis:
    """Names what a result rests on by a hash: it counts until any of that changes.

    A kill rests on the mutated contract and the suite that saw it, with all that they import and the shared
    vectors that any of these names in quotes. A survivor rests on its contract: tests that came later may
    kill it (`--again` tries), none can bring it back, so the score is at least what is said. A kill by the
    clock rests on all sources.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._imports: dict[str, dict[str, str]] = {}
        self._build, self._vectors = hash_build(), hash_vectors(root)

    def of(self, mutant: Mutant, by: str) -> str:
        """Return SHA-256 hex, cut to 16, over all that the mutant's end `by` rests on."""
        starts = [mutant.path]
        if by == OUT_OF_TIME:
            starts = list_sources(self._root)
        elif by:
            starts.append(by.split(":")[0])
        sources = {path: text for start in starts for path, text in self._read(start).items()}
        text = json.dumps([self._build, sorted(sources.items()), self._list_vectors(sources.values())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def holds(self, mutant: Mutant, result: Result) -> bool:
        """Whether nothing that the mutant's result rests on has changed since."""
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
    """Return the results that an earlier run left in `path`; a half-written last line does not count."""
    results = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            result = Result(**json.loads(line))
        except (json.JSONDecodeError, TypeError):
            continue
        results[result.key] = result
    return results


def append_result(path: Path, result: Result) -> None:
    """Write one result behind the others; a line is whole or does not count."""
    with open(path, "a") as file:
        file.write(_line(result))


def write_results(path: Path, results: Iterable[Result], most_bytes: int = MOST_BYTES) -> None:
    """Write these results and no others, by key, so that two campaigns can be compared. Where they do not
    fit, survivors come before kills: a kill that is left out costs one more run."""
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


# How many of the tests that killed a file's other mutants are tried before all others.
FIRST_TRIES = 12
# A mutant that makes a loop endless is killed by the clock: after so many times what all tests take.
PATIENCE = 6.0
# Suites that take longer together are run apart.
PART_S = 3.0
# Where forge records what it compiled.
CACHE = "cache"
# Plays the whole protocol, which takes half as long as all other tests: tried when nothing else failed, and
# not for libraries, whose own tests are to see what is wrong in them.
LAST = "tests/contracts/invariant/*"
LIBRARIES = "contracts/libraries/*"


class BaselineBroken(RuntimeError):
    """The mutated copy does not pass its own tests with no mutant on."""


@dataclass(frozen=True)
class Verdict:
    """One run of forge: the tests that failed and those that passed, as `suite:test`, or out of time.

    `seconds` is processor time, `took` what each suite's file took by the clock.
    """

    failed: list[str]
    passed: list[str]
    timed_out: bool
    seconds: float
    took: dict[str, float] = field(default_factory=dict)


class Runner:
    """Runs forge on the compiled copy in `folder` with one mutant on; several may run at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> str:
        """Return the text of a file of the copy."""
        return (self._folder / path).read_text()

    def find_imports(self, path: str) -> frozenset[str]:
        """Return the paths of all files of the copy that one of them rests on, itself included."""
        return frozenset(read_reached(self._folder, path))

    def run(
        self, number: int, filters: list[str], limit_s: float | None = None, fail_fast: bool = True
    ) -> Verdict:
        """Run the tests that forge's `filters` leave, for at most `limit_s` seconds of processor time.

        Processor time, for a busy machine must not count as an endless loop. Raises RuntimeError where forge
        does not answer.
        """
        command = [str(forge_path()), "test", "--json", "--block-base-fee-per-gas", str(number)]
        # Most mutants fall to the first test: they are run side by side, not their tests.
        command += [*(["-j", "1", "--fail-fast"] if fail_fast else []), *filters]
        if limit_s is not None:
            command = ["sh", "-c", f'ulimit -t {math.ceil(limit_s)} && exec "$@"', "forge", *command]
        done, seconds = self._start(command)
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return Verdict([], [], True, seconds)
        if "No tests found" in done.stdout + done.stderr:
            return Verdict([], [], False, seconds)
        try:
            suites = json.loads(done.stdout)
        except json.JSONDecodeError:
            found = f"{done.stdout}{done.stderr}"[:2000]
            raise RuntimeError(f"forge gave no results for mutant {number}:\n{found}") from None
        failed, passed = _sort_tests(suites)
        return Verdict(failed, passed, False, seconds, time_suites(suites))

    def _start(self, command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
        """Run a command to its end; return what it said and its processor seconds, children included."""
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            # Forge writes its record of what is compiled at every start: one that reads it meanwhile finds
            # half of it and compiles anew. So each start has a copy.
            shutil.copytree(self._folder / CACHE, scratch / CACHE)
            # What forge keeps of a failure, to try it first next time, is of another mutant.
            kept = {
                f"FOUNDRY_{kind}": str(scratch / kind)
                for kind in (
                    "FUZZ_FAILURE_PERSIST_DIR",
                    "INVARIANT_FAILURE_PERSIST_DIR",
                    "TEST_FAILURES_FILE",
                )
            } | {"FOUNDRY_CACHE_PATH": str(scratch / CACHE)}
            with open(scratch / "out", "w") as out, open(scratch / "errors", "w") as errors:
                process = subprocess.Popen(
                    command, cwd=self._folder, env={**os.environ, **kept}, stdout=out, stderr=errors
                )
                _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said = [(scratch / stream).read_text() for stream in ("out", "errors")]
        done = subprocess.CompletedProcess(command, process.returncode, *said)
        return done, usage.ru_utime + usage.ru_stime


class Campaign:
    """Decides for each mutant whether a test fails, for several at once. `learn` results of an earlier run
    before going on."""

    def __init__(self, runner: Runner, left_out: Iterable[str]) -> None:
        self._runner = runner
        self._excluded = set(left_out)
        self._killers: dict[str, Counter[str]] = defaultdict(Counter)
        self._imports: dict[str, frozenset[str]] = {}
        self._took: dict[str, float] = {}
        self._limit_s = 0.0
        self._lock = Lock()

    def measure_baseline(self) -> tuple[list[str], float]:
        """Run all tests with no mutant on; return those left out (they fail on the copy) and the seconds.

        Raises BaselineBroken where hardly anything passes.
        """
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
        self._limit_s = max(30.0, PATIENCE * verdict.seconds)
        return sorted(verdict.failed), verdict.seconds

    def learn(self, mutant: Mutant, by: str) -> None:
        """Remember which test killed a mutant: it is likely to kill its neighbours. LAST stays last."""
        if ":" in by and not PurePosixPath(by.split(":")[0]).match(LAST):
            with self._lock:
                self._killers[mutant.function][by] += 1
                self._killers[mutant.path][by] += 1

    def judge(self, mutant: Mutant) -> tuple[str, float]:
        """Run the likeliest tests, then the file's own suites, those that name it, and all that import it.

        Returns the `suite:test` that failed, OUT_OF_TIME, or nothing for a survivor; and processor seconds.
        """
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
        """Yield forge's filters, the likeliest tests first. Names seen before are tried by name."""
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
        """Those that take up to PART_S together, then the dearer ones alone: a cheap suite that fails spares
        them, and another start of forge takes half a second."""
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


def _sort_tests(suites: dict[str, Any]) -> tuple[list[str], list[str]]:
    failed: list[str] = []
    passed: list[str] = []
    for suite, outcome in suites.items():
        for name, test in outcome["test_results"].items():
            (failed if test["status"] == "Failure" else passed).append(f"{suite}:{name}")
    return failed, passed


def time_suites(suites: dict[str, Any]) -> dict[str, float]:
    """Return the seconds that each file's suites took: forge writes "1s 363ms 204us"."""
    units = {"m": 60.0, "s": 1.0, "ms": 1e-3}
    took: dict[str, float] = defaultdict(float)
    for suite, outcome in suites.items():
        parts = re.findall(r"(\d+)(ms|[ms])\b", outcome["duration"])
        took[suite.split(":")[0]] += sum(int(count) * units[unit] for count, unit in parts)
    return dict(took)


def _any_of(paths: Iterable[str]) -> str:
    """Return forge's pattern for these paths, of which there may be one."""
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
