"""Plays the whole list of attacks: is every cheat caught, no honest machine, and does no attack pay?

Verifiers on several kernels judge the attacks of solvers segment by segment, under limits from honest replays
of the same model. Beside that a process plays them as solvers over Anvil. Then follow the honest campaign,
the adaptive adversary, and what each attack earns. Writes build/attacks/report.json; with --publish also
docs/scoreboard.json, .md and .svg.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from lab.benchmarks.honest_replays import run_honest
from lab.benchmarks.hunting.arena import (
    Calibrated,
    Ground,
    calibrate,
    list_arenas,
    list_verifiers,
    make_starts,
    start_worker,
)
from lab.benchmarks.hunting.attacks_on_chain import MODEL, write_limits
from lab.benchmarks.hunting.earnings import (
    OWNED,
    Deal,
    compute_bearable_gain,
    compute_net,
    list_plays,
    read_deal,
    to_tokens,
)
from lab.benchmarks.hunting.scoreboard import publish
from lab.benchmarks.hunting.seam import Tally, count_decades, judge_all
from lab.benchmarks.reports import write_report
from tests.attacks.adaptive import run_adaptive
from tests.attacks.coverage import ENTRIES
from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.spec.params import TAU_FRACTION_BITS
from touchstone.protocol.spec.task_spec import Limits


def run_attacks(quick: bool, cheats_only: bool = False) -> dict[str, Any]:
    """Returns the report. With `cheats_only` it leaves out the honest campaign and the adaptive adversary,
    which take hours."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder, verifiers = Path(name), list_verifiers(quick)
        grounds = open_grounds(folder, verifiers, quick)
        print(f"limits: {time.monotonic() - started:.0f} s", flush=True)
        with play_beside(folder, pick_limits(grounds), quick) as finish:
            tallies = judge_all(grounds, verifiers)
            honest = None if cheats_only else run_honest(quick)
            adaptive = None if cheats_only else run_adaptive(quick)
            chain = finish()
        arenas = [describe_arena(*one) for one in grounds]
    return {
        "honest": honest,
        "attacks": list_attacks(tallies, chain, read_deal()),
        "adaptive": adaptive,
        "plays": [{**asdict(play), "net": float(play.net)} for play in list_plays(read_deal())],
        "chain": chain,
        "arenas": arenas,
        "verifiers": [verifier.name for verifier in verifiers],
        "histogram": count_decades(list_excesses(tallies)),
        "deal": {name: float(to_tokens(wei)) for name, wei in asdict(read_deal().terms.amounts).items()},
        "list": [{"number": e.number, "what": e.what, "seam": e.seam, "tests": {**e.tests}} for e in ENTRIES],
        "quick": quick,
        "seconds": time.monotonic() - started,
    }


def open_grounds(
    folder: Path, verifiers: Sequence[KernelConfiguration], quick: bool
) -> list[tuple[Ground, Calibrated]]:
    """Opens every arena, replayed by every verifier, with its limits."""
    grounds = [Ground(arena, folder) for arena in list_arenas(quick)]
    for ground in grounds:
        make_starts(ground)
    for verifier in verifiers:
        start_worker(folder, quick, verifier)
    return [(ground, calibrate(ground, verifiers)) for ground in grounds]


def pick_limits(grounds: Sequence[tuple[Ground, Calibrated]]) -> Limits:
    """Returns the limits for the rounds over Anvil, from the first arena with the same model."""
    return next(limits.limits for ground, limits in grounds if ground.arena.model == MODEL)


@contextmanager
def play_beside(folder: Path, limits: Limits, quick: bool) -> Iterator[Callable[[], dict[str, Any]]]:
    """Plays over Anvil in a separate process. The function that it yields waits for the process and reads the
    outcome."""
    write_limits(folder / "limits.json", limits)
    paths = [str(folder / "limits.json"), str(folder / "chain.json")]
    options = ["--quick"] if quick else []
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.benchmarks.hunting.attacks_on_chain", *paths, *options]
    )

    def finish() -> dict[str, Any]:
        if process.wait():
            raise RuntimeError(f"the rounds over Anvil failed with exit status {process.returncode}")
        result: dict[str, Any] = json.loads((folder / "chain.json").read_text())
        return result

    try:
        yield finish
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # ends its Anvil too
            process.wait()


# The report
def list_attacks(tallies: Sequence[Tally], chain: dict[str, Any], deal: Deal) -> list[dict[str, Any]]:
    """Returns one entry for each attack of a solver. An attack that changed nothing on chain counts as not
    played there."""
    played = {outcome["name"]: outcome for outcome in chain["attacks"] if not outcome["is_idle"]}
    convicted = chain["convicted"] / len(played)
    return [describe_attack(tally, played.get(tally.name), convicted, deal) for tally in tallies]


def describe_attack(
    tally: Tally, played: dict[str, Any] | None, convicted: float, deal: Deal
) -> dict[str, Any]:
    """Describes an attack. `net` is what it earns beyond honest work, in tokens, with half of the auditors on
    its side; if some claims can keep their seats, it counts as losing none. `convicted` is the share of
    attacks caught on chain that lost their seat; it stands for attacks that were not played there."""
    share = convicted if played is None else float(played["status"] == "CONVICTED")
    share = 0.0 if tally.kept else share
    excesses = sorted(value for values in tally.excesses.values() for value in values)
    return {
        "number": tally.number,
        "name": tally.name,
        "samples": tally.samples,
        "detected": tally.detected,
        "margin": tally.margin,
        "step_excess": tally.step_excess if isfinite(tally.step_excess) else None,
        "kept": tally.kept,
        "moved": tally.moved,
        "loss": tally.loss,
        "saved": tally.saved,
        "net": float(compute_net(deal, tally.saved, tally.detected, OWNED, share)),
        "net_alone": float(compute_net(deal, tally.saved, tally.detected, Fraction(0), share)),
        "bearable_gain": float(compute_bearable_gain(deal, tally.detected, OWNED, share)),
        "idle": tally.idle,
        "median": median(excesses) if excesses else 0.0,
        "largest": excesses[-1] if excesses else 0.0,
        "margin_by_arena": {arena: min(values) for arena, values in tally.excesses.items()},
        "weakest": tally.weakest,
        "on_chain": None if played is None else played["status"],
    }


def list_excesses(tallies: Sequence[Tally]) -> list[float]:
    """Returns the distances of all samples that limits judged, as multiples of the limit."""
    judged = [tally for tally in tallies if tally.number != "23"]
    return [value for tally in judged for values in tally.excesses.values() for value in values]


def describe_arena(ground: Ground, limits: Calibrated) -> dict[str, Any]:
    """Describes an arena, and its limits."""
    return {
        **asdict(ground.arena),
        "parameters": ground.load_start(0).weights.numel(),
        "segments": len(ground.arena.list_stages()),
        "attacked_segments": len(ground.arena.list_attacked()),
        "honest_pairs": limits.pairs,
        "limits": _describe_limits(limits.limits),
    }


def _describe_limits(limits: Limits) -> dict[str, float]:
    names = ("tau_m", "tau_v", "tau_w")
    return {name: getattr(limits, name) * 2.0**-TAU_FRACTION_BITS for name in names}


def list_shortfalls(report: dict[str, Any]) -> list[str]:
    """Returns what misses the aims: 99 % rejected, three times the limit, no seat kept, nothing earned."""
    found = []
    for attack in report["attacks"]:
        if attack["detected"] < 0.99 or attack["margin"] < 3:
            found.append(f"{attack['name']}: {attack['detected']:.1%}, margin {attack['margin']:.2g}")
        if attack["kept"]:
            found.append(f"{attack['name']} keeps its seat in {attack['kept']} claims")
        if attack["net"] >= 0:
            found.append(f"{attack['name']} earns {attack['net']:.2g}")
    return found + [f"{p['name']} earns {p['net']:.2g}" for p in report["plays"] if p["net"] >= 0]


def print_report(report: dict[str, Any]) -> None:
    """Prints a table, and what misses its aim."""
    heads = f"{'samples':>8}{'rejected':>10}{'margin':>10}{'steps':>9}{'saved':>7}{'net':>8}"
    print(f"{'':>4} {'attack':<46}{heads}  on chain")
    for a in report["attacks"]:
        steps, status = a["step_excess"] or 0.0, (a["on_chain"] or "-").lower()
        print(
            f"{a['number']:>4} {a['name']:<46}{a['samples']:>8}{a['detected']:>10.1%}{a['margin']:>10.3g}"
            f"{steps:>9.3g}{a['saved']:>7.0%}{a['net']:>8.1f}  {status}"
        )
    for play in report["plays"]:
        print(f"{play['number']:>4} {play['name']:<71}{play['net']:>18.1f}")
    shortfalls = list_shortfalls(report)
    print("falls short: " + ("; ".join(shortfalls) if shortfalls else "nothing"))


def main() -> None:
    """Plays, prints a table and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small model, three attacks over Anvil")
    parser.add_argument("--cheats-only", action="store_true", help="no honest replays, no adaptive attacks")
    parser.add_argument("--publish", action="store_true", help="write docs/scoreboard.* from this run")
    options = parser.parse_args()
    pin_kernels(1)
    report = run_attacks(options.quick, options.cheats_only)
    print_report(report)
    print(write_report("attacks", report))
    if options.publish:
        publish(report)


if __name__ == "__main__":
    main()
