"""Lines for an operator: what matters is told, whose it is, and nothing else."""

import pytest

from protocol.actions.narrate import narrate, tell_tokens
from protocol.spec import events, game_events
from protocol.spec.events import Event
from protocol.spec.statuses import AuditStatus, ClaimStatus
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.facts import ALICE, BOB, TASK, TOKEN, at, commit, deposit, open_start, slash

PAID = game_events.Paid(block_number=1, task=TASK, account=ALICE, amount_wei=10 * TOKEN, reason=b"solver")


def judge_audit(status: AuditStatus, worst: Judgement) -> events.AuditJudged:
    return events.AuditJudged(**at(), draw=0, rank=0, status=status, worst=worst)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (commit(ALICE), ("slot 0 (you)", "committed")),
        (slash(BOB, 200 * TOKEN), ("SLASHED", BOB[:8], "200 tokens", "(silent)")),
        (events.ClaimJudged(**at(), status=ClaimStatus.VOID, reason=b"start"), ("slot 0 is void (start)",)),
        (judge_audit(AuditStatus.REJECTS, Judgement.REJECT), ("rejects", "reject")),
        (judge_audit(AuditStatus.ACCEPTS, Judgement.GREY), ("accepts", "grey")),
        (PAID, ("you earned 10 tokens (solver)",)),
    ],
)
def test_what_matters_is_told(event: Event, words: tuple[str, ...]) -> None:
    line = narrate(event, ALICE)
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    "event", [open_start(), deposit(BOB), judge_audit(AuditStatus.ACCEPTS, Judgement.ACCEPT)]
)
def test_daily_business_is_not(event: Event) -> None:
    assert narrate(event, ALICE) == ""


def test_pay_of_others_is_theirs() -> None:
    assert narrate(PAID, BOB) == ""


def test_tokens_are_whole_where_they_can_be() -> None:
    assert (tell_tokens(5 * TOKEN), tell_tokens(TOKEN // 10)) == ("5 tokens", "0.1 tokens")
