"""How many files of the product does a walk cross? A test plays under a profiler, between two named calls.

    python -m tools.walks [NAME ...]      writes build/walks/report.json

A walk begins when its first function is called and ends when its last one returns or waits, whichever thread
runs them.
A file counts where one of its functions was called in between. docs/architecture.md draws the walks.
"""

import json
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("protocol", "touchstone", "node", "verifier", "whistleblower", "explorer", "scripts")
REPORT = Path("build/walks/report.json")


@dataclass(frozen=True)
class Walk:
    """test: a pytest node. first, last: names of functions, as their files define them."""

    test: str
    first: str
    last: str


WALKS = {
    "tokens to claim root": Walk("tests/node/merging/test_lost_merge.py", "finish_claim", "_conclude"),
    "draw to vote": Walk("tests/verifier/test_replaying.py", "audit", "_vote"),
    "dispute to conviction": Walk("tests/e2e/test_disputes.py", "open_case", "prove_operation"),
    "event to call": Walk("tests/e2e/test_happy_path.py", "decode_log", "_broadcast"),
}


@dataclass
class Trail:
    """The files that one walk has crossed so far."""

    walk: Walk
    has_begun: bool = False
    is_over: bool = False
    files: set[str] = field(default_factory=set)

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """What the interpreter calls at each call and return."""
        code = frame.f_code
        if self.is_over or event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
            return
        if event == "call":
            self.has_begun |= code.co_name == self.walk.first
            path = Path(code.co_filename).resolve().relative_to(ROOT)
            if self.has_begun and path.parts[0] in PRODUCT:
                self.files.add(str(path))
        elif self.has_begun and code.co_name == self.walk.last:
            self.is_over = True


def take(walk: Walk) -> Trail:
    """Play the walk's test under the profiler."""
    trail = Trail(walk)
    threading.setprofile(trail.follow)
    sys.setprofile(trail.follow)
    try:
        pytest.main(["-q", "-x", "-p", "no:xdist", walk.test])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trail


def main(names: list[str]) -> int:
    """Take the walks of these names, or all."""
    report: dict[str, Any] = {}
    for name in names or WALKS:
        trail = take(WALKS[name])
        report[name] = {"complete": trail.is_over, "count": len(trail.files), "files": sorted(trail.files)}
        print(f"{name}: {len(trail.files)} files" + ("" if trail.is_over else ", and it did not end"))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1))
    return 0 if all(one["complete"] for one in report.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
