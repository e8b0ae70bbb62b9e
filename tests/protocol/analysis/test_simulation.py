"""Who earns and who loses in played tasks: what the money rules say must come out of the machine."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

from protocol.analysis.amounts import derive_amounts, price_gas
from protocol.analysis.players import CheatKind
from protocol.analysis.simulation import AgentKind, Plan, Report, simulate
from protocol.spec.game.figures import Figures
from protocol.spec.game.terms import LIMITS_LOCAL
from protocol.spec.params import TOKEN_WEI
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


@cache
def play(kind: CheatKind = CheatKind.SERVING, spoiled: int = 0, seed: int = 0) -> Report:
    """One cheat among four solvers, two of six auditors own; every second segment first."""
    order = [*range(0, 10, 2), *range(1, 10, 2)]
    figures = FIGURES if kind == CheatKind.SERVING else replace(FIGURES, gain=FIGURES.refusal_gain)
    plan = Plan(TERMS, LIMITS_LOCAL, figures, kind, frozenset(order[:spoiled]), 1, 3, 2, 4, 30, seed)
    return simulate(plan)


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


def test_one_seed_is_one_play() -> None:
    play.cache_clear()
    first = play(CheatKind.HIDING, 1)
    play.cache_clear()
    assert play(CheatKind.HIDING, 1) == first != play(CheatKind.HIDING, 1, seed=3)
