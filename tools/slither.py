"""Looks for known kinds of mistakes in the contracts with slither.

Each finding at medium or above is fixed or has its reason here. `./dev slither` runs it. It needs another
web3 than the nodes, so it has its own virtual environment, which the first call makes. It writes
build/slither/findings.json.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from touchstone.scripts.toolchain import ROOT, forge_path

VERSION = "0.11.6"
BUILD = ROOT / "build" / "slither"
JUDGED = ("High", "Medium")


@dataclass(frozen=True)
class Waiver:
    """Why findings of `check` whose description matches `pattern` are no mistakes."""

    check: str
    pattern: str
    reason: str


WAIVERS = (
    Waiver(
        "incorrect-shift",
        r"^(OuterMath\._sumOf|Float32\.round|Float32\._roundShort|ExactRow\._addRounded)\(",
        "One bit, or a table, moved by a variable: what is moved comes second in assembly.",
    ),
    Waiver("incorrect-exp", r"^PositionalMerkle\.isPadded", "The sibling's index: the lowest bit, turned."),
    Waiver("divide-before-multiply", r"^Runs\._repeat", "A one in each lane: the division leaves nothing."),
    Waiver(
        "divide-before-multiply",
        r"^ExactElement\.logarithm",
        "The steps of docs/spec.md, section 9.1: rounded down by definition.",
    ),
    Waiver("divide-before-multiply", r"^Openings\.openRun", "Rounds down to the start of a leaf on purpose."),
    Waiver(
        "divide-before-multiply", r"^Enclosure\.", "Both bounds of the enclosure count what division loses."
    ),
    Waiver(
        "divide-before-multiply",
        r"^(Float32\.div|ExactStep\.divide)\(",
        "Quotient times divisor is compared with the dividend: whether a remainder is left.",
    ),
    Waiver(
        "divide-before-multiply",
        r"^Queries\._requireSchedule",
        "innerSteps is a multiple of segmentSteps: GameTermsCheck.",
    ),
    Waiver(
        "divide-before-multiply", r"^OuterMath\.", "The number of a block, then the place where it starts."
    ),
    Waiver(
        "divide-before-multiply",
        r"^(Settlement\._openPage|Evidence\._lastMerged|Shares\.voteHalt)\(",
        "The first round of an epoch.",
    ),
    Waiver(
        "reentrancy-no-eth",
        r"^Reentrancy in (Round\w*\.|SeatMembership\.(payOut|topUp|leave|join)\("
        r"|SeatLedger\._bookSettlement\(|Settlement\._settle\(|Convictions\.(fall|punish)|Queries\.queryVote|DisputeOpening\._openDispute)",
        "It calls only modules, fixed at construction; on these paths none of them calls a token or anybody "
        "else.",
    ),
    Waiver(
        "uninitialized-state",
        r"^GameStorage\.",
        "All parts run on one storage: another part, or Game's constructor, writes what this one reads.",
    ),
    Waiver("uninitialized-local", r"", "Starts at zero, as Solidity's locals do."),
    Waiver("unused-return", r"^Shares\.create\(", "The address follows from the arguments: `sharesOf`."),
    Waiver("unused-return", r"ignores return value by \(.*None", "Only a part of the tuple is asked for."),
)


def main(arguments: Sequence[str]) -> int:
    """Runs slither; returns 1 if it found something without a reason, or a reason explains nothing any
    more."""
    if arguments:
        print(f"./dev slither takes no arguments, got {' '.join(arguments)}", file=sys.stderr)
        return 2
    findings = find(install())
    bare = [finding for finding in findings if not explain(finding)]
    idle = [waiver for waiver in WAIVERS if not any(explains(waiver, finding) for finding in findings)]
    for finding in bare:
        print(f"{finding['impact']} {finding['check']}: {finding['description'].strip()}\n")
    for waiver in idle:
        print(f"nothing left to explain: {waiver.check} {waiver.pattern}")
    print(
        f"{len(findings)} findings at medium or above, {len(bare)} without a reason, {len(idle)} idle reasons"
    )
    return 1 if bare or idle else 0


def install() -> Path:
    """Returns slither's own virtual environment, made if it is missing."""
    home = BUILD / "venv"
    if not (home / "bin" / "slither").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"slither-analyzer=={VERSION}"], check=True)
    return home


def find(home: Path) -> list[dict[str, Any]]:
    """Compiles the contracts without the optimizer and returns slither's findings at medium or above."""
    path = os.pathsep.join([str(home / "bin"), str(forge_path().parent), os.environ.get("PATH", os.defpath)])
    environment = {
        **os.environ,
        "PATH": path,
        "FOUNDRY_OUT": str(BUILD / "out"),
        "FOUNDRY_CACHE_PATH": str(BUILD / "cache"),
        "FOUNDRY_OPTIMIZER": "false",
    }
    # Slither fails without a message if the folder holds build outputs of older sources.
    for name in ("out", "cache"):
        shutil.rmtree(BUILD / name, ignore_errors=True)
    build = ["forge", "build", "--build-info", "--skip", "*/tests/**", "--", "contracts"]
    subprocess.run(build, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    out = BUILD / "findings.json"
    out.unlink(missing_ok=True)
    analyse = ["slither", ".", "--ignore-compile", "--foundry-out-directory", str(BUILD / "out")]
    options = ["--filter-paths", "node_modules|tests", "--json", str(out)]
    subprocess.run([*analyse, *options], cwd=ROOT, env=environment, capture_output=True)
    if not out.exists():
        raise RuntimeError(f"slither wrote nothing: expected {out}; run it by hand: {' '.join(analyse)}")
    found: list[dict[str, Any]] = json.loads(out.read_text())["results"].get("detectors", [])
    return [finding for finding in found if finding["impact"] in JUDGED]


def explain(finding: dict[str, Any]) -> str:
    """Returns the reason why a finding is no mistake, empty if nobody gave one."""
    return next((waiver.reason for waiver in WAIVERS if explains(waiver, finding)), "")


def explains(waiver: Waiver, finding: dict[str, Any]) -> bool:
    """Returns whether the waiver is about this finding."""
    return waiver.check == finding["check"] and bool(re.search(waiver.pattern, finding["description"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
