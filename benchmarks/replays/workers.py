"""Workers: one process for each machine, that lives as long as the campaign and replays what it is told.

A line to a worker is a question about a track in JSON, and it answers with a line. It replays each segment
from the stored starts and stores the ends; it stores the states of each step of a segment, or all of one
step; or it judges those of another machine. Only one works at a time, so that the campaign takes one core.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.drifting.searching import search_fault, show_trace
from benchmarks.drifting.steps import judge_steps, show_steps
from benchmarks.honest import Configuration
from benchmarks.replays.machines import Machine
from benchmarks.replays.tracks import Track, open_track
from protocol.compute.audit.compare import Verdict
from protocol.spec.containers import Limits
from scripts.calibrate_commands import Workplace

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """The process of one machine."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        command = [
            sys.executable,
            "-m",
            "benchmarks.replays.workers",
            str(folder),
            json.dumps(asdict(machine)),
        ]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=machine.configuration.environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def replay(self, track: Track) -> None:
        """Waits until all ends are stored."""
        self._ask("replay", track)

    def show_steps(self, track: Track, segment: int) -> None:
        """Waits until this machine's k + 1 states of one of the track's segments are stored."""
        self._ask("show", track, segment)

    def judge_steps(self, track: Track, segment: int, claimant: str, limits: Limits) -> list[Verdict]:
        """What this machine finds of the steps that another one has stored."""
        answer = self._ask("judge", track, segment, claimant, asdict(limits))
        return [Verdict(**found) for found in answer]

    def show_trace(self, track: Track, segment: int, step: int) -> None:
        """Waits until all that this machine computes in one of its steps is stored."""
        self._ask("trace", track, segment, step)

    def search_fault(self, track: Track, segment: int, step: int, claimant: str) -> str:
        """The fault that this machine finds in another one's stored trace; empty where there is none."""
        return str(self._ask("search", track, segment, step, claimant))

    def _ask(self, what: str, track: Track, *details: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([what, asdict(track), *details]) + "\n")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.machine.name} ended before it answered to {what} {track.name}")
        return json.loads(line)

    def stop(self) -> None:
        """Closes its input and waits for its end."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def run_workers(machines: Sequence[Machine], folder: Path) -> Iterator[list[Worker]]:
    """A worker for each machine; all have ended when the block has."""
    workers = [Worker(machine, folder) for machine in machines]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()


def work(folder: Path, machine: Machine) -> None:
    """Does what each line of standard input asks for, and answers with a line."""
    machine.set_up()
    for line in sys.stdin:
        what, track, *details = json.loads(line)
        answer = _answer(machine, open_track(Track(**track), folder), what, details)
        print(json.dumps(answer), flush=True)


def _answer(machine: Machine, workplace: Workplace, what: str, details: Sequence[Any]) -> Any:
    if what == "replay":
        for segment in workplace.segments:
            workplace.save(machine.name, segment, workplace.replay(segment))
        return None
    segment = workplace.segments[details[0]]
    if what == "show":
        return show_steps(workplace, machine.name, segment)
    if what == "trace":
        return show_trace(workplace, machine.name, segment, details[1])
    if what == "search":
        return search_fault(workplace, details[2], segment, details[1])
    claimant, limits = details[1:]
    return [asdict(found) for found in judge_steps(workplace, claimant, segment, Limits(**limits))]


def main() -> None:
    """With a folder and a machine in JSON: work."""
    folder, text = sys.argv[1:]
    content = json.loads(text)
    work(Path(folder), Machine(Configuration(**content["configuration"]), content["sums"]))


if __name__ == "__main__":
    main()
