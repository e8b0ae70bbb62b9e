"""Who earns and who loses in played tasks: what the money rules say must come out of the machine."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from protocol.analysis.amounts import derive_amounts, price_gas
from protocol.analysis.players import CheatKind, choose_own_word
from protocol.analysis.simulation import AgentKind, Plan, Report, simulate
from protocol.spec.game.figures import Figures
from protocol.spec.game.terms import LIMITS_LOCAL
from protocol.spec.params import TOKEN_WEI
from protocol.spec.statements import VoteWord
from tests.protocol.spec.game.world import AMOUNTS, make_terms

FIGURES = Figures(
    cost=30 * TOKEN_WEI,
    gain=100 * TOKEN_WEI,
    round_blocks=40,
    owned=Fraction(1, 3),
    refused_gain=10 * TOKEN_WEI,
    gas=price_gas(10**11, contest_levels=2, look=5 * TOKEN_WEI),
)
TERMS = derive_amounts(
    make_terms(
        rounds=8, segment_count=10, draws=2, least_verifiers=6, least_solvers=2,
        amounts=replace(AMOUNTS, solver_pay=100 * TOKEN_WEI),
    ),
    FIGURES,
)  # fmt: skip


def make_plan(kind: CheatKind, spoiled: int, seed: int, **changes: Any) -> Plan:
    """One cheat among four solvers, two of six auditors own; every second segment first."""
    order = [*range(0, 10, 2), *range(1, 10, 2)]
    figures = FIGURES if kind == CheatKind.SERVING else replace(FIGURES, gain=FIGURES.refusal_gain)
    plan = Plan(TERMS, LIMITS_LOCAL, figures, kind, frozenset(order[:spoiled]), 1, 3, 2, 4, 30, seed)
    return replace(plan, **changes)


@cache
def play(kind: CheatKind = CheatKind.SERVING, spoiled: int = 0, seed: int = 0) -> Report:
    return simulate(make_plan(kind, spoiled, seed))


def get_tokens(report: Report, kind: AgentKind) -> float:
    return report.gains[kind] / TOKEN_WEI


def test_honest_work_earns_its_pay_whatever_a_cheat_does() -> None:
    """Three honest solvers, eight rounds, 100 of pay less 30 of compute."""
    for report in (play(), play(CheatKind.SERVING, 5), play(CheatKind.REFUSING, 10)):
        assert get_tokens(report, AgentKind.HONEST_SOLVER) == 3 * 8 * 70 and report.rounds == 8


def test_a_coalition_without_a_cheat_earns_as_others_do() -> None:
    report = play()
    assert (report.claims, report.convicted) == (0, 0)
    assert (
        get_tokens(report, AgentKind.COALITION) > 8 * 70 and get_tokens(report, AgentKind.HONEST_AUDITOR) > 0
    )


def test_a_false_claim_that_is_served_costs_the_seat() -> None:
    for seed in range(2):
        report = play(CheatKind.SERVING, 5, seed)
        assert report.convicted == 1 and report.claims < 8, "D rounds after it was seen the seat is closed"
        assert get_tokens(report, AgentKind.COALITION) < 0


def test_who_serves_nobody_is_not_convicted_and_loses_by_fees() -> None:
    report = play(CheatKind.REFUSING, 10)
    assert report.convicted == 0 and report.accepted < report.claims
    assert get_tokens(report, AgentKind.COALITION) < get_tokens(play(), AgentKind.COALITION)


def test_honest_auditors_of_who_serves_nobody_keep_half_of_their_stakes() -> None:
    stake = TERMS.amounts.auditor_stake
    report = play(CheatKind.REFUSING, 10)
    assert -4 * stake // 2 <= report.gains[AgentKind.HONEST_AUDITOR] < 0


def test_no_auditor_is_ruined_where_three_of_four_solvers_serve_nobody() -> None:
    """F a quarter of the stake: two votes for each of six verifiers, then ABSTAIN. Without the question all
    would be lost."""
    fee = TERMS.amounts.auditor_stake // 4
    terms = replace(TERMS, amounts=replace(TERMS.amounts, unserved_fee=fee))
    seats = {"cheats": 3, "honest": 1, "own_auditors": 0, "honest_auditors": 6}
    lost = -simulate(make_plan(CheatKind.REFUSING, 10, 0, terms=terms, **seats)).gains[
        AgentKind.HONEST_AUDITOR
    ]
    assert 6 * fee < lost <= 12 * fee


def test_compute_and_v_are_counted() -> None:
    """A tenth of the work is spoiled: nine tenths of C a claim, V for each one merged."""
    plan = make_plan(CheatKind.HIDING, 1, 1)
    base = simulate(plan)
    free = simulate(replace(plan, figures=replace(plan.figures, cost=0)))
    worthless = simulate(replace(plan, figures=replace(plan.figures, gain=0)))
    own = AgentKind.COALITION
    assert base.merged > 0
    assert free.gains[own] - base.gains[own] == base.claims * 27 * TOKEN_WEI
    assert base.gains[own] - worthless.gains[own] == base.merged * 10 * TOKEN_WEI


@pytest.mark.parametrize(
    ("rank", "own", "word"),
    [
        (0, (True, False, False), VoteWord.ACCEPT),
        (1, (False, True, True), VoteWord.ACCEPT),
        (1, (False, True, False), VoteWord.ABSTAIN),
        (2, (False, False, True), VoteWord.ABSTAIN),
    ],
)
def test_own_auditors_accept_where_that_decides(rank: int, own: tuple[bool, ...], word: VoteWord) -> None:
    assert choose_own_word(rank, own, is_false=True) == word
    assert choose_own_word(rank, own, is_false=False) == VoteWord.ACCEPT


def test_one_seed_is_one_play() -> None:
    play.cache_clear()
    first = play(CheatKind.HIDING, 1)
    play.cache_clear()
    assert play(CheatKind.HIDING, 1) == first != play(CheatKind.HIDING, 1, seed=3)
