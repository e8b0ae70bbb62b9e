"""Workers: one process for each machine, that lives as long as the campaign and replays what it is told.

A line to a worker is a track in JSON; it replays each segment of it from the stored starts, stores the ends
and answers with a line. Only one works at a time, so that the campaign takes one core.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.honest import Configuration
from benchmarks.replays.machines import Machine
from benchmarks.replays.tracks import Track, open_track

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
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(asdict(track)) + "\n")
        answer = self._process.stdout.readline().strip()
        if answer != track.name:
            raise RuntimeError(f"{self.machine.name} answered {answer!r} to {track.name}")

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
    """Replays one track for each line of standard input."""
    machine.set_up()
    for line in sys.stdin:
        track = Track(**json.loads(line))
        workplace = open_track(track, folder)
        for segment in workplace.segments:
            workplace.save(machine.name, segment, workplace.replay(segment))
        print(track.name, flush=True)


def main() -> None:
    """With a folder and a machine in JSON: work."""
    folder, text = sys.argv[1:]
    content = json.loads(text)
    work(Path(folder), Machine(Configuration(**content["configuration"]), content["sums"]))


if __name__ == "__main__":
    main()
