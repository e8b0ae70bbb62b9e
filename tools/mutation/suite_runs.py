"""Runs the tests of the mutated copy with one mutant active."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.mutation.reach import read_reached
from touchstone.scripts.toolchain import forge_path

# The file where forge records what it compiled.
CACHE = "cache"


@dataclass(frozen=True)
class Verdict:
    """One run of forge: the tests that failed and those that passed, as `suite:test`, or out of time.

    `seconds` is processor time, `took` is the time of each suite's file by the clock."""

    failed: list[str]
    passed: list[str]
    timed_out: bool
    seconds: float
    took: dict[str, float] = field(default_factory=dict)


class Runner:
    """Runs forge on the compiled copy in `folder` with one mutant active; several may run at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> str:
        """Returns the text of a file of the copy."""
        return (self._folder / path).read_text()

    def find_imports(self, path: str) -> frozenset[str]:
        """Returns the paths of all files of the copy that one of them rests on, itself included."""
        return frozenset(read_reached(self._folder, path))

    def run(
        self, number: int, filters: list[str], limit_s: float | None = None, fail_fast: bool = True
    ) -> Verdict:
        """Runs the tests that forge's `filters` leave, for at most `limit_s` seconds of processor time.

        Processor time is used because a busy machine must not look like an endless loop. Raises RuntimeError
        if forge does not answer."""
        command = [str(forge_path()), "test", "--json", "--block-base-fee-per-gas", str(number)]
        # Most mutants fail the first test, so mutants run side by side, not their tests.
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
        """Runs a command to its end; returns its output and its processor seconds, children included."""
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            # Forge writes its record of compiled files at every start. Another start that reads it meanwhile
            # finds half of it and compiles again, so each start has a copy.
            shutil.copytree(self._folder / CACHE, scratch / CACHE)
            # The failure that forge keeps, to try it first next time, belongs to another mutant.
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


def _sort_tests(suites: dict[str, Any]) -> tuple[list[str], list[str]]:
    failed: list[str] = []
    passed: list[str] = []
    for suite, outcome in suites.items():
        for name, test in outcome["test_results"].items():
            (failed if test["status"] == "Failure" else passed).append(f"{suite}:{name}")
    return failed, passed


def time_suites(suites: dict[str, Any]) -> dict[str, float]:
    """Returns the seconds that each file's suites took; forge writes "1s 363ms 204us"."""
    units = {"m": 60.0, "s": 1.0, "ms": 1e-3}
    took: dict[str, float] = defaultdict(float)
    for suite, outcome in suites.items():
        parts = re.findall(r"(\d+)(ms|[ms])\b", outcome["duration"])
        took[suite.split(":")[0]] += sum(int(count) * units[unit] for count, unit in parts)
    return dict(took)
