"""No damaged input makes a parser fail otherwise than it says; each parser takes its valid ones."""

from pathlib import Path

import pytest

from lab.benchmarks.parsers import Found, feed, list_parsers, make_report, run
from lab.benchmarks.parsing import wire_parsers
from lab.benchmarks.parsing.mutating import Mutator, Parser
from touchstone.protocol.spec.errors import InvalidInput

INPUTS = 20_000
SEED = 11


def test_nothing_but_declared_errors_comes_out() -> None:
    found = run(INPUTS, SEED)
    assert {name: one.crashed for name, one in found.items() if one.crashes} == {}
    report = make_report(found, SEED)
    assert report["inputs"] == sum(one.inputs for one in found.values()) >= INPUTS and report["crashes"] == 0


def test_every_parser_takes_what_is_valid() -> None:
    """Else only its first check would be tried."""
    for parser in list_parsers():
        found = Found()
        for data in parser.seeds:
            feed(parser, data, found)
        assert (found.crashes, found.refused) == (0, 0), parser.name


def test_signed_requests_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing behind the server's first look would be tried. A busy machine may take its time."""
    monkeypatch.setattr(wire_parsers, "TURNS", 10_000_000)
    server = wire_parsers.Listening(tmp_path, is_open=False)
    answers = [server.feed(data).split(b" ")[1] for data in wire_parsers.list_requests(server.ref)]
    assert answers == [b"200", b"200", b"200", b"206", b"206", b"200", b"200", b"401"]


def test_the_same_seed_makes_the_same_inputs() -> None:
    seeds = [b'{"a":1,"b":"c"}', b"bytes=0-7"]
    first, second, other = (Mutator(seed) for seed in ("1", "1", "2"))
    made = [[mutator.make(seeds) for _ in range(300)] for mutator in (first, second, other)]
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize("error", [ValueError("no"), RecursionError(), KeyError(1)])
def test_a_parser_that_fails_otherwise_is_counted(error: Exception) -> None:
    def fail(data: bytes) -> None:
        raise error

    found = Found()
    feed(Parser("broken", (b"",), fail), b"abc", found)
    assert (found.inputs, found.crashes) == (1, 1) and type(error).__name__ in found.crashed[0]


def test_a_refusal_is_no_crash() -> None:
    def refuse(data: bytes) -> None:
        raise InvalidInput(what="no", expected="yes", actual="no", remedy="none")

    found = Found()
    feed(Parser("strict", (b"",), refuse), b"abc", found)
    assert (found.refused, found.crashes) == (1, 0)
