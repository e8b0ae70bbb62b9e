"""Pay and penalties when a claim is settled."""

from dataclasses import replace

import pytest

from protocol.spec.round import get_settle_block
from protocol.spec.settlement import Settlement, settle
from protocol.spec.statuses import ClaimStatus
from tests.protocol.spec.play import Play
from tests.protocol.spec.plots import BY_NAME, play_plot


def settle_plot(name: str) -> tuple[Play, Settlement]:
    play = play_plot(name)
    state = play.sim.state
    return play, settle(state, 0, get_settle_block(state, 10**6))


@pytest.mark.parametrize(
    ("name", "is_paid", "reason", "auditors"),
    [
        ("all honest", True, "", 2),
        ("primary far, reserves equal", True, "", 4),
        ("all three far", False, "", 3),
        ("nothing committed", False, "", 0),
        ("primary does not reveal", True, "", 3),
        ("late start not opened", False, "start", 1),
        ("late end not opened", False, "end", 2),
        ("late leaves not opened", False, "leaves", 2),
        ("late auditor silent", True, "", 1),
        ("late auditor does not compare", True, "", 1),
        ("late far", True, "", 2),
        ("every auditor silent", False, "", 0),
        ("primary and one reserve silent", False, "", 1),
        ("beacon not sealed", False, "", 0),
    ],
)
def test_who_is_paid(name: str, is_paid: bool, reason: str, auditors: int) -> None:
    _, found = settle_plot(name)
    assert (found.is_solver_paid, found.forfeit_reason, len(found.paid_auditors)) == (
        is_paid,
        reason,
        auditors,
    )


@pytest.mark.parametrize(
    ("name", "fees"),
    [
        ("every auditor silent", 2),
        ("every auditor silent, reserves called late", 0),
        ("primary and one reserve silent", 1),
        ("two silent, one abstains", 0),
        ("primary and one reserve abstain", 0),
        ("one unserved, one abstains", 0),
    ],
)
def test_the_pay_of_a_claim_that_nobody_rejects_is_burned_less_half_of_the_reserves_fees(
    name: str, fees: int
) -> None:
    play, found = settle_plot(name)
    amounts = play.sim.state.terms.amounts
    assert found.silence_pay_wei == min(amounts.solver_pay, fees * amounts.no_show_fee // 2)
    assert found.burned_pay_wei == amounts.solver_pay - found.silence_pay_wei


@pytest.mark.parametrize(
    "name",
    [
        "all honest",
        "all three far",
        "both reserves silent",
        "all unserved",
        "draw not sealed",
        "end not opened",
    ],
)
def test_pay_goes_back_where_the_solver_failed_or_somebody_rejects(name: str) -> None:
    _, found = settle_plot(name)
    assert (found.silence_pay_wei, found.burned_pay_wei) == (0, 0)


def test_a_conviction_ends_the_pay_of_silence() -> None:
    play = play_plot("every auditor silent")
    state = play.sim.state
    state = replace(state, claims={0: replace(state.claims[0], status=ClaimStatus.CONVICTED)})
    found = settle(state, 0, get_settle_block(state, 10**6))
    assert (found.silence_pay_wei, found.burned_pay_wei) == (0, 0)


def test_silent_reserves_pay_no_more_than_the_solvers_pay() -> None:
    state = play_plot("every auditor silent").sim.state
    amounts = replace(state.terms.amounts, no_show_fee=10 * state.terms.amounts.solver_pay)
    found = settle(
        replace(state, terms=replace(state.terms, amounts=amounts)), 0, get_settle_block(state, 10**6)
    )
    assert (found.silence_pay_wei, found.burned_pay_wei) == (amounts.solver_pay, 0)


def test_nobody_is_penalised_for_an_empty_round() -> None:
    _, found = settle_plot("two verifiers")
    assert found == Settlement()


def test_settlement_judges_what_nobody_judged() -> None:
    play = Play(BY_NAME["nobody judges"])
    clock = play.sim.state.deadlines
    for block in range(play.sim.state.start_block + 1, clock.show_end):
        play.play_block(block)
    found = settle(play.sim.state, 0, get_settle_block(play.sim.state, clock.show_end))
    assert [verdict.status.name for verdict in found.verdicts] == ["ACCEPTED"]
    assert found.is_solver_paid
