"""Fuzzes the invariants of the round's contracts with 200,000 calls.

`./dev fuzz` runs `tests/contracts/invariant` in batches, each with its own seed, and continues where it was
stopped. Results count only for the present sources. It writes build/fuzz/report.json.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from tools import prove
from tools.compile import ABI_DIR, find_stale_code
from tools.mutation.project import hash_sources
from touchstone.scripts.toolchain import ROOT, forge_path

BUILD = ROOT / "build" / "fuzz"
TEST = "tests/contracts/invariant/Protocol.t.sol"
INVARIANT = "invariant_everyProperty"
PROFILE = {"FOUNDRY_PROFILE": "fuzz", "FOUNDRY_LINT_LINT_ON_BUILD": "false"}
CALLS = 200_000
"""The calls of a whole campaign."""
LEAST_SUCCESS = 0.2
"""The least share of each handler's calls that must succeed, because a run that mostly reverts proves
nothing."""
LEAST_ENDS = 100
"""How often each end must be reached."""
ENDS = (
    *(f"round {end}" for end in ("merged", "failed", "undone")),
    *(f"claim {end}" for end in ("accepted", "void", "dropped", "convicted", "unserved", "rejected late")),
    *(f"dispute {end}" for end in ("cleared", "moot")),
    *(f"dispute convicted, {how}" for how in ("silent", "operation", "datum")),
    *(f"query {end}" for end in ("cleared", "convicted", "expired", "moot")),
    *(f"contest {end}" for end in ("lost", "won", "moot")),
    *(
        f"proof {kind}"
        for kind in ("start", "delta", "scale", "carried", "false word", "no leaf", "two votes")
    ),
    *(f"seat {end}" for end in ("convicted", "left", "silent")),
    "closing drawn",
    "task halted",
    "task closed",
)
"""Every end that a round, a claim, a dispute, a query, a contest, a proof, a seat or a task can have."""


def main(arguments: list[str]) -> int:
    """Runs the rest of the campaign and writes the report; returns 1 if it falls short."""
    options = _parse(arguments)
    folder = BUILD / hash_sources(start=TEST)[:16]
    folder.mkdir(parents=True, exist_ok=True)
    stale = find_stale_code()
    if stale:
        print(f"the package has other code than the sources say: {', '.join(stale)}; run ./dev compile")
        return 1
    _run_forge(["build"], PROFILE)
    done = {int(path.stem) for path in folder.glob("*.json")}
    seeds = (seed for seed in count(1) if seed not in done)
    until = time.monotonic() + (options.seconds or float("inf"))
    lock = Lock()

    def play() -> None:
        while time.monotonic() < until:
            with lock:
                if count_calls(read_runs(folder)) >= options.calls:
                    return
                seed = next(seeds)
            run_batch(folder, seed, options.runs, options.depth)
            with lock:
                print(render(make_report(folder)), flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        for job in [pool.submit(play) for _ in range(options.jobs)]:
            job.result()
    report = make_report(folder)
    (BUILD / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(render(report))
    return 0 if is_enough(report, options.calls) else 1


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="calls in all (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=0, help="start no batch after this time; 0: no limit")
    parser.add_argument("--runs", type=int, default=20, help="runs of a batch (default: %(default)s)")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help="batches at once (default: %(default)s)")
    parser.add_argument("--depth", type=int, default=500, help="calls of a run (default: %(default)s)")
    return parser.parse_args(arguments)


def run_batch(folder: Path, seed: int, runs: int, depth: int) -> None:
    """Runs one batch. Keeps its counts in `seed`.jsonl, its result in `seed`.json, and its calls if it
    failed.

    Raises RuntimeError if forge could not run the test at all."""
    counts = folder / f"{seed}.jsonl"
    counts.unlink(missing_ok=True)
    environment = {
        **PROFILE,
        "FUZZ_CODE": str(ABI_DIR),
        "FOUNDRY_INVARIANT_RUNS": str(runs),
        "FOUNDRY_INVARIANT_DEPTH": str(depth),
        "FOUNDRY_INVARIANT_FAILURE_PERSIST_DIR": str(folder / f"{seed}.failures"),
        "FUZZ_COUNTS": str(counts.relative_to(ROOT)),
    }
    command = ["test", "--match-path", TEST, "--match-test", INVARIANT]
    command += ["--fuzz-seed", str(seed), "-j", "1"]
    started = time.monotonic()
    reasons = re.findall(r"^\[FAIL: (.*)\]", _run_forge(command, environment), re.MULTILINE)
    if reasons:
        # Runs the failing calls again, which forge keeps, because tracing all calls would cost a sixth of the
        # time.
        said = _run_forge([*command, "-vvv"], {**environment, "FUZZ_COUNTS": ""})
        (folder / f"{seed}.log").write_text(said)
    result = {"seed": seed, "violations": sorted(set(reasons)), "seconds": time.monotonic() - started}
    (folder / f"{seed}.json").write_text(json.dumps(result) + "\n")


def _run_forge(arguments: list[str], environment: Mapping[str, str]) -> str:
    """Returns forge's output, also if tests fail."""
    command = [str(forge_path()), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode and "[FAIL" not in done.stdout:
        raise RuntimeError(
            f"forge ran nothing: expected exit status 0, got {done.returncode}\n{done.stderr[-2000:]}"
        )
    return done.stdout


def read_runs(folder: Path) -> dict[str, Counter[str]]:
    """Returns the counts of each run by name; forge repeats a batch's last run to show it.

    A line that forge is still writing does not count."""
    texts = (path.read_text() for path in sorted(folder.glob("*.jsonl")))
    lines = (line for text in texts for line in text.splitlines(keepends=True))
    runs = (json.loads(line) for line in lines if line.endswith("}\n"))
    return {run["run"]: Counter(run["counts"]) for run in runs}


def count_calls(runs: Mapping[str, Counter[str]]) -> int:
    """Returns how many calls the fuzzer made in all runs."""
    return sum(n for counts in runs.values() for name, n in counts.items() if name.startswith("calls "))


def make_report(folder: Path) -> dict[str, Any]:
    """Returns what the campaign has found so far."""
    runs = read_runs(folder)
    total = sum(runs.values(), Counter[str]())
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    success = dict(_rates(total))
    return {
        "calls": count_calls(runs),
        "violations": sum(len(result["violations"]) for result in results),
        "lowest_handler_success": min(success.values(), default=0.0),
        "mutation_score": _read("mutate", "score", hash_sources()),
        "proved": _read("prove", "proved", hash_sources(start=prove.SOURCE)),
        "runs": len(runs),
        "handler_success": success,
        "ends": {end: total[end] for end in ENDS},
        "rarest_end": min((total[end], end) for end in ENDS),
        "moves": {name: n for name, n in sorted(total.items()) if name.startswith("done ")},
        "failures": {str(result["seed"]): result["violations"] for result in results if result["violations"]},
        "seconds": sum(result["seconds"] for result in results),
        "source_hash": hash_sources(start=TEST),
    }


def _rates(total: Counter[str]) -> Iterator[tuple[str, float]]:
    """Returns the share of each handler's calls that did something."""
    for name, calls in sorted(total.items()):
        if name.startswith("calls "):
            handler = name.removeprefix("calls ")
            yield handler, total[f"success {handler}"] / calls


def _read(campaign: str, field: str, source_hash: str) -> Any:
    """Returns a field of another campaign's report, None if it has none about these sources."""
    path = ROOT / "build" / campaign / "report.json"
    if not path.exists():
        return None
    report = json.loads(path.read_text())
    return report.get(field) if report.get("source_hash") == source_hash else None


def is_enough(report: Mapping[str, Any], calls: int = CALLS) -> bool:
    """Returns whether a campaign is complete: enough calls, successes and ends, and no violation."""
    enough = report["calls"] >= calls and min(report["ends"].values()) >= LEAST_ENDS
    return enough and not report["violations"] and report["lowest_handler_success"] >= LEAST_SUCCESS


def render(report: Mapping[str, Any]) -> str:
    """Returns the report in one line."""
    rarest, end = report["rarest_end"]
    return (
        f"{report['calls']} calls, {report['violations']} violations, lowest handler success "
        f"{report['lowest_handler_success']:.2f}, rarest end {rarest} ({end}), {report['seconds']:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
