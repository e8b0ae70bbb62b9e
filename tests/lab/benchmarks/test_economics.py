"""The economics of the round: honest roles earn, cheats lose, and every known play has its agent.

Short form of `./dev bench economics`: all agents play on the machine once, a handful on the contracts.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from lab.benchmarks.economics import describe, does_fall_short, summarise
from lab.benchmarks.economy.block_duties import compute_chance, list_chances, play_task
from lab.benchmarks.economy.contracts_table import MoneyTwin, play_contracts
from lab.benchmarks.economy.parameters import LIMITS, ROUNDS, make_terms
from lab.benchmarks.economy.play import Play, SpotChecks
from lab.benchmarks.economy.strategy import Agent, Table, list_hands, list_outcomes
from lab.benchmarks.economy.worth import AGENTS, list_names, weigh
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.twin import Disagreement
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.protocol.spec.game.vault import PotKind
from touchstone.protocol.spec.params import SPOT_QUERIES

DECISIONS = Path(__file__).resolve().parents[3] / "docs" / "decisions"
PAGE = DECISIONS / "0032-economics-of-the-round.md"
PAGES = ("0028-money-of-the-new-round.md", "0031-findings-closed.md")
NO_PLAYS = {"Gas of the new contracts is not measured yet", "Speed"}
"""Entries of theirs that nobody could play."""
SHORT = 5
"""rounds of a play here; a crash is in round 3."""
ON_CHAIN = (
    "solver that crashes when it is disputed", "pair that blames the start", "two tongues", "wrong start",
    "contester that brings the leaf", "majority's wrong root", "task with amounts of 2^96",
    "withholder of a trace",
)  # fmt: skip


@cache
def play(name: str) -> Play:
    """An agent's task on the machine."""
    return play_task(get_agent(name), Table(replace(make_terms(), rounds=SHORT), LIMITS, 1))


def get_agent(name: str) -> Agent:
    return next(agent for agent in AGENTS if agent.name == name)


def list_played() -> list[Agent]:
    return [agent for agent in AGENTS if not agent.changes]


def describe_acts(agent: Agent) -> str:
    """What it sends, shows, says, opens and signs, and which chances it is weighed by."""
    return repr((play(agent.name).log, [one.chance for one in agent.outcomes], agent.is_spotted))


# Every agent
def test_every_agent_plays_and_does_what_no_other_does() -> None:
    logs = {agent.name: describe_acts(agent) for agent in list_played()}
    logs |= {agent.name: repr(agent.changes) for agent in AGENTS if agent.changes}
    names = {log: [name for name, other in logs.items() if other == log] for log in logs.values()}
    assert not [same for same in names.values() if len(same) > 1]
    assert len(AGENTS) == len({agent.name for agent in AGENTS}) >= 90


@pytest.mark.parametrize("agent", list_played(), ids=lambda agent: agent.name)
def test_a_play_ends_and_money_is_neither_made_nor_lost(agent: Agent) -> None:
    state = play(agent.name).table.state
    brought = sum(play(agent.name).brought.values())
    assert state.is_closed and not state.seats
    assert {pot.kind for pot in state.vault.wei} <= {PotKind.CREDIT, PotKind.BURNED}
    assert state.vault.compute_total() == brought + compute_escrow(state.terms)


@pytest.mark.parametrize("agent", [one for one in list_played() if one.is_honest], ids=lambda one: one.name)
def test_honest_seats_are_never_closed(agent: Agent) -> None:
    assert not [name for name in play(agent.name).convicted if not name.startswith("foe")]


@pytest.mark.parametrize(
    "agent", [one for one in list_played() if not one.is_honest], ids=lambda one: one.name
)
def test_cheats_close_nobody_but_themselves(agent: Agent) -> None:
    assert not [name for name in play(agent.name).convicted if name.startswith("honest")]


@pytest.mark.parametrize(
    ("name", "closed"),
    [
        ("idle solver", {"own solver 0"}),
        ("wrong carried moments", {"own solver 0"}),
        ("griefing pair", {"own verifier 0", "own verifier 1"}),
        ("pair that blames the start", {"own verifier 0", "own verifier 1"}),
        ("majority's wrong root", {"own solver 0", "own solver 1", "own solver 2"}),
        ("shielded cheat", {"own solver 0"}),
        ("self-challenger", {"own solver 0"}),
        ("withholder", set()),
        ("withholder of a trace", set()),
        ("whistleblower that finds a false claim", {"foe solver 1"}),
    ],
)
def test_who_is_proven_wrong_loses_the_seat(name: str, closed: set[str]) -> None:
    assert closed <= play(name).convicted and bool(closed) == bool(play(name).convicted)


# What it is worth
@pytest.mark.parametrize(
    "name",
    ["honest solver", "honest submitter", "solver that crashes in training", "idle solver", "withholder",
     "griefing pair", "flood of queries", "one false claim at the end", "task with windows of one block"],
)  # fmt: skip
def test_honest_work_earns_and_cheats_lose(name: str) -> None:
    assert not does_fall_short(describe(get_agent(name), weigh(get_agent(name), range(1))))


def test_what_wins_is_named() -> None:
    hider = get_agent("hider, V 100")
    found = describe(hider, weigh(hider, range(1)))
    assert does_fall_short(found) and found["known"]
    modest = get_agent("hider, V 10")
    assert found["profit"] > describe(modest, weigh(modest, range(1)))["profit"]


def test_who_is_named_and_loses_is_told() -> None:
    played = (("a", 1.0, "entry"), ("b", -1.0, "entry"), ("c", 1.0, ""), ("d", -1.0, ""))
    lines = [{"name": a, "honest": False, "profit": profit, "known": known} for a, profit, known in played]
    report = summarise(lines, 1)
    assert (report["known"], report["falls_short"], report["mended"]) == ({"a": "entry"}, ["c"], ["b"])


def test_outcomes_of_a_single_false_claim_are_all() -> None:
    for own in ((0, 0), (2, 2)):
        for foresight in (1, 2):
            assert sum(one.chance for one in list_outcomes(own, foresight)) == 1
    assert dict(list_hands(2, 6))[True, True, False] == Fraction(2 * 1 * 4, 6 * 5 * 4)
    spared = [sum(one.chance for one in list_outcomes((0, 0), n) if one.drawn is None) for n in (1, 2)]
    assert spared == [Fraction(8, 10), Fraction(96, 100)]
    assert {agent.name for agent in AGENTS if agent.outcomes} >= {"one false claim at the end", "grinder"}
    assert make_terms().rounds == ROUNDS


# Asks at random
def test_who_seals_garbage_is_asked_and_loses_its_seat() -> None:
    agent = get_agent("garbage sealer")
    terms = replace(make_terms(), rounds=SHORT)
    first, never = (play_task(agent, Table(terms, LIMITS, 1), SpotChecks(1, only)) for only in (1, 0))
    assert first.convicted == {"own verifier 0"} and not never.convicted and never.spot_checks.own > 4
    names = list_names(agent)
    assert first.compute_profit(names) < 0 < never.compute_profit(names)


def test_an_honest_auditor_that_is_asked_keeps_its_seat() -> None:
    honest = get_agent("honest verifier")
    play_asked = play_task(honest, Table(replace(make_terms(), rounds=SHORT), LIMITS, 1), SpotChecks(1, 1))
    asked = [one for one, call in play_asked.last if isinstance(call, calls.QueryVote)]
    answered = [one for one, call in play_asked.last if isinstance(call, calls.AnswerQuery)]
    assert asked and "own verifier 0" in answered and not play_asked.convicted


def test_whose_end_is_the_claim_s_is_never_asked() -> None:
    handed = get_agent("handed a right root")
    played = play_task(handed, Table(replace(make_terms(), rounds=SHORT), LIMITS, 1), SpotChecks(1, 1))
    assert not played.convicted and not played.spot_checks.own


def test_chances_of_being_asked_at_random() -> None:
    assert 1 - sum(list_chances(compute_chance(6, 6), 20)) == 0
    assert compute_chance(1, 1) == Fraction(1, SPOT_QUERIES)
    assert abs(compute_chance(6, 3) * SPOT_QUERIES * 2 - 1) < Fraction(1, 100)


# The page
def read_rows(page: Path) -> dict[str, list[str]]:
    """Names of agents by the first cell of each row of the page's tables of plays."""
    text = page.read_text().split("## Who plays what")[1].split("## Known and open")[0]
    rows = (line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("| "))
    return {cells[0].strip(): re.findall(r"`([^`]+)`", cells[1]) for cells in rows}


def test_every_line_of_the_page_names_agents_that_play() -> None:
    rows, names = read_rows(PAGE), {agent.name for agent in AGENTS}
    assert len(rows) >= 60
    assert not {row: set(agents) - names for row, agents in rows.items() if set(agents) - names}
    assert not [row for row, agents in rows.items() if not agents and row not in ("line", "---")]
    assert names == {name for agents in rows.values() for name in agents}


def test_every_finding_and_open_entry_has_a_line() -> None:
    text, rows = (DECISIONS / "0031-findings-closed.md").read_text(), " ".join(read_rows(PAGE))
    findings = re.findall(r"^\| ((?:C\d|H\d|M\d|L|campaign:) [^|]+) \|", text, re.MULTILINE)
    assert len(findings) >= 25
    assert not [one for one in findings if one.split(maxsplit=1)[1].strip() not in rows]
    known = [one for page in PAGES for one in list_open(DECISIONS / page)]
    assert len(known) >= 15
    assert not [one for one in known if one not in rows and one not in NO_PLAYS]


def list_open(page: Path) -> list[str]:
    """Names of the entries of a page's "Known and open"."""
    text = page.read_text().split("**Known and open**")[1]
    return [one.strip(".") for one in re.findall(r"^- \*([^*]+)\*", text, re.MULTILINE)]


def test_whatever_was_thrown_out_has_an_agent() -> None:
    """The design's list: twenty-one rules, and two that stand in one entry."""
    assert len([row for row in read_rows(PAGE) if row.startswith("thrown out: ")]) >= 21


def test_whoever_may_win_is_an_entry_of_known_and_open() -> None:
    known = PAGE.read_text().split("## Known and open")[1]
    assert not [agent.name for agent in AGENTS if agent.known and agent.known not in known]


# The contracts
@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("economics"), LIMITS) as opened:
        yield opened


@pytest.mark.parametrize("name", ON_CHAIN)
def test_contracts_say_what_the_machine_says(chain: RoundChain, name: str) -> None:
    played = play_contracts(chain, get_agent(name), 2)
    assert played["calls"] > 60 or get_agent(name).changes


def test_a_difference_between_contracts_and_machine_ends_the_play(
    chain: RoundChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = MoneyTwin._send

    def lose_commit(self: MoneyTwin, call: GameCall, party: object) -> object:
        is_lost = isinstance(call, calls.CommitRound)
        return send(self, calls.Deposit(1) if is_lost else call, party)  # type: ignore[arg-type]

    monkeypatch.setattr(MoneyTwin, "_send", lose_commit)
    with pytest.raises(Disagreement):
        play_contracts(chain, get_agent("honest solver"), 2)
