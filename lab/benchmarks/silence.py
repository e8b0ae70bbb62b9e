"""Plays a task in which each party falls silent at each of its acts, for good or only in that act.

In memory all of these plays run, on the real contracts a sample chosen by a seed. With real nodes there is
one play: half of the solvers are killed in mid-round, and a new one joins.

The report counts `unpaid`: accepted work, or an honest party's stake or bond, that was not what it should be;
`open`: what had not ended when nothing was left to do; `stuck`: money that nobody can take any more, or a
play without an end. Writes build/silence/report.json; it is an error if any of them is not empty.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.benchmarks.reports import write_report
from tests.e2e.leaving import list_leaving_flaws, play_leaving
from tests.protocol.spec.game.faulty_simulation import PARTIES, FaultySimulation
from tests.protocol.spec.game.silences import find_points, list_flaws, play_silence
from tests.rounds.chain import open_round_chain
from tests.rounds.chain_simulation import choose_silences, open_faulty
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL

FOLDER = Path("build/silence")
KINDS = {"unpaid": "unpaid", "lost": "unpaid", "open": "open", "stuck": "stuck"}
"""The field of the report for a flaw, by the flaw's first word."""
CHAIN_PLAYS = 6

Played = tuple[str, str, list[str]]
"""What was played, which party was silent, and the flaws."""


def check(world: FaultySimulation, silent: str | None) -> list[str]:
    """Plays a world to its end, and returns its flaws."""
    try:
        world.play()
        return list_flaws(world, silent)
    except AssertionError as error:
        return [f"stuck: {error}"]


def play_machine(step: int) -> Iterator[Played]:
    """Plays every `step`-th point in memory."""
    points = find_points()
    for silence in points.silences[::step]:
        try:
            flaws = list_flaws(play_silence(points, silence), silence.party)
        except AssertionError as error:
            flaws = [f"stuck: {error}"]
        yield f"machine: {silence}", silence.party, flaws


def play_chain(seed: int, count: int) -> Iterator[Played]:
    """Plays without silence, then at `count` points, on the contracts."""
    with open_round_chain(FOLDER, BOUNDS_LOCAL) as chain:
        world = open_faulty(chain, 0)
        yield "contracts: nobody", "", check(world, None)
        for salt, silent in enumerate(choose_silences(world, seed, count), start=1):
            yield (
                f"contracts: {silent}",
                silent.party,
                check(open_faulty(chain, salt, silent), silent.party),
            )


def play_nodes() -> Iterator[Played]:
    """Plays with real nodes, half of the solvers killed."""
    with TemporaryDirectory() as folder:
        flaws = list_leaving_flaws(asyncio.run(play_leaving(Path(folder))))
    yield "nodes: half of the solvers", "two solvers", [f"stuck: {flaw}" for flaw in flaws]


def count_all(played: Iterable[Played]) -> dict[str, object]:
    """Returns the report."""
    plays, points, found = 0, Counter[str](), {name: list[str]() for name in KINDS.values()}
    for name, party, flaws in played:
        plays, points = plays + 1, points + Counter({party: 1} if party else {})
        for flaw in flaws:
            found[KINDS.get(flaw.split(":")[0], "stuck")].append(f"{name}: {flaw}")
            print(name, flaw, flush=True)
    return {"plays": plays, "parties": len(points), "points": points.total(), "by party": points, **found}


def main() -> None:
    """Plays, and writes the report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--step", type=int, default=1, help="in memory, play every n-th point")
    options.add_argument("--chain", type=int, default=CHAIN_PLAYS, help="points on the real contracts")
    options.add_argument("--seed", type=int, default=0, help="chooses the points on the contracts")
    options.add_argument("--no-nodes", action="store_true", help="without the play of real nodes")
    chosen = options.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    played = list(play_machine(chosen.step))
    played += list(play_chain(chosen.seed, chosen.chain)) if chosen.chain else []
    played += [] if chosen.no_nodes else list(play_nodes())
    report = {"cast": len(PARTIES), **count_all(played)}
    write_report(FOLDER.name, report)
    sys.exit(any(report[name] for name in KINDS.values()))


if __name__ == "__main__":
    main()
