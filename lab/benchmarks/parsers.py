"""Feeds damaged inputs to every parser of what strangers send: does it raise only declared errors?

Each input is a valid one with bits flipped, pieces cut, spliced or repeated, numbers made huge, values nested
deeply, or bytes that are not UTF-8. Parsers refuse by `TouchstoneError`; anything else is a crash, and so is
a server's 500. Writes build/parsers/report.json; a crash is an error. The same seed gives the same inputs.
"""

import argparse
import logging
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from lab.benchmarks.parsing import chain_parsers, step_parsers, wire_parsers
from lab.benchmarks.parsing.mutating import Mutator, Parser
from lab.benchmarks.reports import write_report
from touchstone.protocol.spec.errors import TouchstoneError

SHORT_INPUTS = 20_000
SHOWN_CRASHES = 5
"""The most crashes of one parser that are reported; all are counted."""
SHOWN_BYTES = 400


@dataclass
class Found:
    """The results of a parser. `slowest_ms` is the longest time of one input, including all else that the
    machine did; `crashed` are the first crashes, with their inputs."""

    inputs: int = 0
    refused: int = 0
    crashes: int = 0
    slowest_ms: float = 0.0
    slowest_bytes: int = 0
    seconds: float = 0.0
    crashed: list[str] = field(default_factory=list)


def list_parsers() -> Iterator[Parser]:
    """Yields all parsers."""
    yield from wire_parsers.list_message_parsers()
    yield from chain_parsers.list_parsers()
    yield from wire_parsers.list_parsers()
    yield from step_parsers.list_parsers()


def feed(parser: Parser, data: bytes, found: Found) -> None:
    """Feeds one input."""
    started = time.perf_counter()
    try:
        parser.parse(data)
    except TouchstoneError:
        found.refused += 1
    except (Exception, RecursionError) as error:
        found.crashes += 1
        if len(found.crashed) < SHOWN_CRASHES:
            where = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {str(error)[:SHOWN_BYTES]} ({where.name}, line {where.lineno})"
            found.crashed.append(f"{told}: {data[:SHOWN_BYTES]!r}, {len(data)} bytes")
    took_ms = 1_000 * (time.perf_counter() - started)
    found.inputs += 1
    if took_ms > found.slowest_ms:
        found.slowest_ms, found.slowest_bytes = round(took_ms, 1), len(data)


def fuzz(parser: Parser, inputs: int, seed: int) -> Found:
    """Feeds `inputs` inputs, the valid ones first."""
    mutator, found = Mutator(f"{seed} {parser.name}"), Found()
    started = time.monotonic()
    for data in parser.seeds:
        feed(parser, data, found)
    while found.inputs < inputs:
        feed(parser, mutator.make(parser.seeds), found)
    found.seconds = round(time.monotonic() - started, 1)
    return found


def run(inputs: int, seed: int, names: str = "") -> dict[str, Found]:
    """Feeds all parsers whose name contains `names`, each its share of `inputs`."""
    logging.disable(logging.CRITICAL)
    try:
        parsers = [parser for parser in list_parsers() if names in parser.name]
        shares = sum(parser.share for parser in parsers)
        found = {}
        for parser in parsers:
            found[parser.name] = fuzz(parser, round(inputs * parser.share / shares) + 1, seed)
            print(parser.name, asdict(found[parser.name]), flush=True)
        return found
    finally:
        logging.disable(logging.NOTSET)


def make_report(found: dict[str, Found], seed: int) -> dict[str, object]:
    """Returns totals, and each parser's counts. `memory_mb` is the most that this process took."""
    return {
        "inputs": sum(one.inputs for one in found.values()),
        "crashes": sum(one.crashes for one in found.values()),
        "seed": seed,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "by_parser": {name: asdict(one) for name, one in found.items()},
    }


def main() -> None:
    """Feeds all parsers and writes the report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--inputs", type=int, default=SHORT_INPUTS, help="inputs of all parsers together")
    options.add_argument("--seed", type=int, default=0, help="chooses the inputs")
    options.add_argument("--only", default="", help="parsers whose name has this in it")
    chosen = options.parse_args()
    report = make_report(run(chosen.inputs, chosen.seed, chosen.only), chosen.seed)
    print(write_report("parsers", report))
    sys.exit(bool(report["crashes"]))


if __name__ == "__main__":
    main()
