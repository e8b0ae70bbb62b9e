"""Pay and penalties when a claim is settled."""

import pytest

from protocol.spec.round import get_settle_block
from protocol.spec.settlement import Settlement, settle
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
