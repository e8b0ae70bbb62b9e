"""Tests by mutation whether some test fails for every wrong guard, comparison and write in the contracts.

`./dev mutate` continues where it was stopped, and from the results in tests/contracts/mutation/results.jsonl
(`--publish` writes it). A result counts until something that it rests on changes.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.compile import CompileError
from tools.fuzz import INVARIANT
from tools.mutation.campaign import BaselineBroken, Campaign
from tools.mutation.operators import Mutant
from tools.mutation.project import (
    Plan,
    build_project,
    hash_build,
    hash_sources,
    hash_vectors,
    make_plan,
    write_project,
)
from tools.mutation.results import Basis, Result, append_result, read_results, write_results
from tools.mutation.suite_runs import Runner
from touchstone.scripts.toolchain import ROOT, ToolMissing

BUILD = ROOT / "build" / "mutate"
REPORT = BUILD / "report.json"
LOG = BUILD / "results.jsonl"
PUBLISHED = ROOT / "tests" / "contracts" / "mutation" / "results.jsonl"
SURVIVORS = PUBLISHED.with_name("survivors.toml")
BAR = 0.95


def main(arguments: list[str] | None = None) -> int:
    """Runs the rest of the campaign and writes the report; returns 1 if the score is below BAR."""
    parser = argparse.ArgumentParser(prog="./dev mutate", description="Mutation testing of the contracts.")
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="run N mutants, drawn by a hash of the sources; report these alone",
    )
    parser.add_argument("--only", metavar="FILE", help="mutants of files whose path ends with this")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help="mutants at once (default: %(default)s)")
    parser.add_argument(
        "--again",
        action="store_true",
        help="run survivors without a reason again, because tests may be better now",
    )
    parser.add_argument("--publish", action="store_true", help=f"write {PUBLISHED.relative_to(ROOT)}")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except (CompileError, ToolMissing, BaselineBroken) as error:
        print(error, file=sys.stderr)
        return 1


def choose(mutants: Iterable[Mutant], only: str | None, sample: int | None, salt: str = "") -> list[Mutant]:
    """Returns the mutants to run, shuffled by a hash, so that a stopped run has seen a fair sample. `salt` is
    the sources' hash, so that whoever changes the sources cannot know which are drawn."""
    wanted = [mutant for mutant in mutants if only is None or mutant.path.endswith(only)]
    wanted.sort(key=lambda mutant: hashlib.sha256((salt + mutant.key).encode()).digest())
    return wanted[:sample]


def choose_valid(mutants: Iterable[Mutant], earlier: list[Result], basis: Basis) -> dict[str, Result]:
    """Returns the earlier results that still count, by key; a kill comes before a survival."""
    by_key = {mutant.key: mutant for mutant in mutants}
    known = [result for result in earlier if result.key in by_key]
    return {
        result.key: result
        for result in sorted(known, key=lambda result: bool(result.by))
        if basis.holds(by_key[result.key], result)
    }


def read_reasons(path: Path = SURVIVORS) -> dict[str, str]:
    """Returns why a mutant may survive, by key. The file is a list of tables with `mutants` and `reason`."""
    if not path.is_file():
        return {}
    entries = tomllib.loads(path.read_text()).get("survivor", [])
    return {key: entry["reason"] for entry in entries for key in entry["mutants"]}


def make_report(
    plan: Plan, results: dict[str, Result], reasons: dict[str, str], left_out: list[str]
) -> dict[str, Any]:
    """Returns what the campaign found so far. `score` is killed / run, survivors with a reason included."""
    run = [mutant for mutant in plan.mutants if mutant.key in results]
    killed = {mutant.key for mutant in run if results[mutant.key].by}
    survivors = [mutant for mutant in run if mutant.key not in killed]
    names = {mutant.key for mutant in survivors}
    return {
        "source_hash": hash_sources(),
        "mutants": len(plan.mutants),
        "run": len(run),
        "complete": len(run) == len(plan.mutants),
        "killed": len(killed),
        "score": len(killed) / len(run) if run else None,
        "seconds_per_mutant": sum(results[m.key].seconds for m in run) / len(run) if run else None,
        "by_file": _group(run, killed, lambda mutant: mutant.path),
        "by_kind": _group(run, killed, lambda mutant: mutant.kind),
        "survivors": [
            {
                "mutant": mutant.key,
                "line": mutant.line,
                "kind": mutant.kind,
                "reason": reasons.get(mutant.key, ""),
            }
            for mutant in survivors
        ],
        "without_reason": sum(mutant.key not in reasons for mutant in survivors),
        "reasons_of_no_survivor": sorted(set(reasons) - names) if len(run) == len(plan.mutants) else [],
        "tests_left_out": left_out,
        "not_mutated": plan.unmutated,
    }


def _run(options: argparse.Namespace) -> int:
    subprocess.run([sys.executable, "-m", "tests.kit.traces"], cwd=ROOT, check=True)
    plan = make_plan()
    chosen = choose(plan.mutants, options.only, options.sample, hash_sources() if options.sample else "")
    if options.list:
        print("\n".join(f"{mutant.number:>5} line {mutant.line:>4}  {mutant.key}" for mutant in chosen))
        return 0
    basis, reasons = Basis(), read_reasons()
    earlier = [*read_results(PUBLISHED).values(), *read_results(LOG).values()]
    results = choose_valid(plan.mutants, earlier, basis)
    if options.again:
        results = {key: result for key, result in results.items() if result.by or key in reasons}
    # A kill that only ./dev fuzz finds is not one that ./dev test would see.
    left_out = [*plan.gas_tests, INVARIANT]
    todo = [mutant for mutant in chosen if mutant.key not in results]
    try:
        if todo:
            campaign = Campaign(Runner(_prepare(plan)), left_out)
            failed, seconds = campaign.measure_baseline()
            left_out += failed
            print(
                f"{len(todo)} mutants; all tests take {seconds:.0f} s of processor time, without {left_out}"
            )
            # What killed a mutant in earlier sources is likely to kill it in these, so it is tried first.
            killers = {result.key: result.by for result in earlier}
            for mutant in plan.mutants:
                campaign.learn(mutant, killers.get(mutant.key, ""))
            for result in judge_all(campaign, todo, basis, options.jobs):
                results[result.key] = result
                append_result(LOG, result)
                print(_line(result), flush=True)
    finally:
        report = make_report(_judged(plan, chosen, options), results, reasons, left_out)
        BUILD.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(json.dumps(report, indent=1) + "\n")
        print(render(report))
    if options.publish:
        # Results that count no more still show what is likely to kill a mutant.
        keys = {mutant.key for mutant in plan.mutants}
        hints = {result.key: result for result in earlier if result.key in keys}
        write_results(PUBLISHED, {**hints, **results}.values())
    return 0 if report["score"] is not None and report["score"] >= BAR else 1


def _judged(plan: Plan, chosen: list[Mutant], options: argparse.Namespace) -> Plan:
    """Returns the plan with the mutants of the report: the sample if one was drawn, else all."""
    return replace(plan, mutants=chosen) if options.sample else plan


def judge_all(campaign: Campaign, mutants: list[Mutant], basis: Basis, jobs: int) -> Iterator[Result]:
    """Yields the result of each mutant, and judges `jobs` at once. An error ends it."""

    def judge(mutant: Mutant) -> Result:
        by, seconds = campaign.judge(mutant)
        return Result(mutant.key, by, seconds, basis.of(mutant, by))

    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(judge, mutant) for mutant in mutants]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def render(report: dict[str, Any]) -> str:
    """Returns the report as a table, by file and by kind, then survivors without a reason."""
    rows = [
        f"{name:<44}{part['killed']:>6} of {part['run']:>5}{part['killed'] / part['run']:>8.1%}"
        for part_name in ("by_file", "by_kind")
        for name, part in report[part_name].items()
    ]
    bare = [entry["mutant"] for entry in report["survivors"] if not entry["reason"]]
    last = f"{report['killed']} of {report['run']} mutants killed (of {report['mutants']} in all)"
    return "\n".join([*rows, last, *(f"survived, no reason given: {key}" for key in bare)])


def _prepare(plan: Plan) -> Path:
    """Returns the compiled copy's folder. Writes and compiles it, unless that was done before."""
    folder = BUILD / _hash_plan(plan)
    done, project = folder / "built", folder / "project"
    if not done.is_file():
        print(f"compiling {len(plan.mutants)} mutants into one copy (minutes)", flush=True)
        write_project(plan, project)
        build_project(project)
        done.touch()
    return project


def _hash_plan(plan: Plan) -> str:
    """Returns SHA-256 hex, cut to 16, over the copy's texts, how they are built and the shared vectors."""
    text = json.dumps([plan.texts, hash_build(), hash_vectors()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _group(run: list[Mutant], killed: set[str], name: Any) -> dict[str, dict[str, int]]:
    groups: dict[str, dict[str, int]] = {}
    for mutant in run:
        part = groups.setdefault(name(mutant), {"run": 0, "killed": 0})
        part["run"] += 1
        part["killed"] += mutant.key in killed
    return dict(sorted(groups.items()))


def _line(result: Result) -> str:
    verdict = f"killed by {result.by}" if result.by else "SURVIVED"
    return f"{result.seconds:>6.1f} s  {result.key}: {verdict}"


if __name__ == "__main__":
    sys.exit(main())
