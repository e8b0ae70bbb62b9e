"""Which duties one transaction does, and that it does them all."""

from dataclasses import replace
from typing import Any

import pytest

from protocol.actions.together import Together, hold_commitments, join_calls
from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.keeping import get_claim_page
from protocol.spec.round import RoundState, get_audit_ref
from tests.protocol.actions.audits import REF, audit_claim
from tests.protocol.actions.lone import Lone
from tests.protocol.actions.test_participant import make_participant
from tests.protocol.spec.simulator import make_round, make_terms

STARTS = tuple(calls.OpenStart(0, draw, draw) for draw in range(3))


def make_state(draws: int = 2) -> RoundState:
    state = make_round(make_terms(segment_draws=draws, inner_steps=40))
    return replace(state, solvers=tuple(f"0x{i:040x}" for i in range(30)))


def join(*due: Call, draws: int = 2) -> list[Call | Together]:
    return list(join_calls(make_state(draws), due))


def test_a_call_alone_stays_alone() -> None:
    assert join(STARTS[0], calls.Judge(0, 4)) == [STARTS[0], calls.Judge(0, 4)]


def test_draws_open_together_from_the_first_on() -> None:
    assert join(*STARTS[:2]) == [Together(STARTS[:2])]
    assert join(STARTS[1], draws=3) == [STARTS[1]]
    assert join(*STARTS[1:], draws=3) == list(STARTS[1:])


def test_the_late_draw_is_opened_by_itself() -> None:
    assert join(*STARTS) == [Together(STARTS[:2]), STARTS[2]]


def test_slots_join_within_a_page_and_without_a_gap() -> None:
    state = make_state()
    found = join(*(calls.SettleClaim(0, slot) for slot in range(30) if slot != 2))
    runs = [one.calls if isinstance(one, Together) else (one,) for one in found]
    slots = [[call.slot for call in run if isinstance(call, calls.SettleClaim)] for run in runs]
    assert [slot for run in slots for slot in run] == [slot for slot in range(30) if slot != 2]
    assert slots[0] == [0, 1]
    for run in slots:
        assert run == list(range(run[0], run[-1] + 1))
        assert len({get_claim_page(state, slot) for slot in run}) == 1


@pytest.mark.parametrize("draws", [1, 2, 19, 20])
def test_a_page_fits_a_transaction_whatever_was_not_done(draws: int) -> None:
    """Settling a claim of 20 draws, everybody silent, takes 14.6 M gas of 16.7: no page has more draws."""
    state = make_state(draws)
    pages = [get_claim_page(state, slot) for slot in range(64)]
    most = max(pages.count(page) for page in pages)
    assert most == 1 or most * (draws + 1) <= 20


def test_a_commitment_waits_for_the_other_replay_but_not_too_long() -> None:
    state = replace(make_state(), draw_seed=bytes(32))
    refs = [get_audit_ref(state, 0, draw, 0) for draw in range(2)]
    waiting, other = calls.CommitReplay(0, refs[0], 1), calls.Replay(0, refs[1], 2)
    end = state.deadlines.replay_end
    early = end - state.terms.windows.replay // 4 - 1
    assert list(hold_commitments(state, [waiting, other], early)) == [other]
    assert list(hold_commitments(state, [waiting, other], early + 1)) == [waiting, other]
    assert list(hold_commitments(state, [waiting], early)) == [waiting]


async def test_all_that_goes_together_is_sent(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await make_participant(solver).perform(Together((calls.OpenStart(0, 0, 1), calls.OpenStart(0, 1, 3))))
    await make_participant(solver).perform(Together((calls.OpenEnd(0, 0, 2, 4), calls.OpenEnd(0, 1, 4, 4))))
    [(_, _, starts)] = solver.chain.list_sent("open_starts")
    assert [one.header for one in starts] == [audited.boundary(1), audited.boundary(3)]
    [(_, _, ends, last)] = solver.chain.list_sent("open_ends")
    assert [one.header for one in (*ends, last)] == [audited.boundary(b) for b in (2, 4, 4)]


async def test_an_auditor_commits_and_reveals_all_at_once(solver: Lone) -> None:
    audited = await audit_claim(solver)
    participant = make_participant(audited.verifier)
    await participant.perform(calls.Replay(0, REF, audited.segment))
    await participant.perform(Together((calls.CommitReplay(0, REF, audited.segment),)))
    await participant.perform(Together((calls.Reveal(0, REF),)))
    [(refs, commitments)] = audited.verifier.chain.list_sent("commit_replays")
    [(shown, headers, salts)] = audited.verifier.chain.list_sent("reveals")
    assert refs == shown == [REF] and len(commitments) == len(headers) == len(salts) == 1
    assert headers == [audited.boundary(audited.segment + 1)]


PAGES: list[tuple[type[Any], str]] = [(calls.Judge, "judge_claims"), (calls.SettleClaim, "settle_claims")]


@pytest.mark.parametrize(("kind", "method"), PAGES)
async def test_a_page_is_one_range(solver: Lone, kind: type[Any], method: str) -> None:
    await make_participant(solver).perform(Together(tuple(kind(1, slot) for slot in (3, 4, 5))))
    [(_, *place)] = solver.chain.list_sent(method)
    assert place == [1, 3, 6]
