"""Counts the files of the product that a walk crosses, by running a test under a profiler.

    python -m tools.walks [NAME ...]     writes build/walks/report.json

A walk begins when its first function is called and ends when its last one returns or waits, in whichever
thread. A file counts if one of its functions was called in between. A change of file is a call from one file
of the product into another. A reader must read the functions that ran. docs/architecture.md draws the walks.
"""

import json
import sys
import threading
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("protocol", "touchstone", "node", "verifier", "whistleblower", "explorer", "scripts", "demo")
REPORT = Path("build/walks/report.json")


@dataclass(frozen=True)
class Walk:
    """A walk. `test` is a pytest node; `first` and `last` are names of functions, as their files define
    them."""

    test: str
    first: str
    last: str


WALKS = {
    "tokens to claim root": Walk("tests/node/merging/test_lost_merge.py", "finish_claim", "_conclude"),
    "draw to vote": Walk("tests/verifier/test_replaying.py", "audit", "_vote"),
    "dispute to conviction": Walk("tests/e2e/test_disputes.py", "open_case", "prove_operation"),
    "plan to posted task": Walk("tests/node/test_submit.py", "build_task", "encode_training"),
    "event to call": Walk("tests/e2e/test_happy_path.py", "decode_log", "_hand_in"),
}


@cache
def find_product_file(name: str) -> str:
    """Returns the path of a file of the product, relative to the root; empty for any other."""
    if not name.startswith(str(ROOT)):
        return ""
    path = Path(name).resolve().relative_to(ROOT)
    return str(path) if path.parts[0] in PRODUCT else ""


def _find_span(code: CodeType) -> tuple[int, int]:
    """Returns the first and last line of a function."""
    return code.co_firstlineno, max(line for *_, line in code.co_lines() if line is not None)


@dataclass
class Trail:
    """The files that one walk has crossed so far. `changes` are the different pairs of files of which one
    calls into the other; `functions` are the code objects that ran."""

    walk: Walk
    has_begun: bool = False
    is_over: bool = False
    files: set[str] = field(default_factory=set)
    changes: set[tuple[str, str]] = field(default_factory=set)
    functions: set[CodeType] = field(default_factory=set)

    @property
    def lines(self) -> int:
        """Returns the lines of the functions that ran, without functions inside of others."""
        spans = [(one.co_filename, *_find_span(one)) for one in self.functions]
        return len({(name, line) for name, first, last in spans for line in range(first, last + 1)})

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """The profiler's callback, which the interpreter calls at each call and return."""
        code = frame.f_code
        if self.is_over or event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
            return
        if event == "call":
            self.has_begun |= code.co_name == self.walk.first
            path = find_product_file(code.co_filename)
            if self.has_begun and path:
                self.files.add(path)
                self.functions.add(code)
                caller = find_product_file(frame.f_back.f_code.co_filename) if frame.f_back else ""
                if caller not in ("", path):
                    self.changes.add((caller, path))
        elif self.has_begun and code.co_name == self.walk.last:
            self.is_over = True


def take(walk: Walk) -> Trail:
    """Runs the walk's test under the profiler."""
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
    """Takes the walks of these names, or all."""
    report: dict[str, Any] = {}
    for name in names or WALKS:
        trail = take(WALKS[name])
        report[name] = {
            "complete": trail.is_over,
            "count": len(trail.files),
            "changes": len(trail.changes),
            "functions": len(trail.functions),
            "lines": trail.lines,
            "files": sorted(trail.files),
        }
        end = "" if trail.is_over else ", and it did not end"
        read = f"{len(trail.functions)} functions of {trail.lines} lines"
        print(f"{name}: {read} in {len(trail.files)} files, {len(trail.changes)} ways between{end}")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1))
    return 0 if all(one["complete"] for one in report.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
