"""Accusations: who is accused of what, written down before anything is sent."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from protocol.actions import challenge, replay
from protocol.actions.states import keep_state, load_state
from protocol.adapters.blobs import refer_delta
from protocol.compute.compare import Verdict, judge_state
from protocol.compute.digest import build_delta_tree
from protocol.compute.step import train_segment
from protocol.spec import events
from protocol.spec.dispute_moves import compute_opening_seal
from protocol.spec.round import get_opening
from protocol.spec.statuses import ClaimRef
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal
from tests.protocol.actions.facts import TASK
from tests.protocol.actions.lone import SOLVER, Lone, get_spec, judge_as, refuse, restart

OTHER_DRAW = replace(REF, draw=1, rank=2)


async def make_examined(solver: Lone, excess: float) -> Audited:
    """The claimed end lies beyond the accept limit of its first moment by this factor."""
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    state = load_state(solver.party, audited.boundary(audited.segment + 1))
    at, tau = int(state.second_moment.argmax()), get_spec().terms.accept.tau_m * 2.0**-64
    state.first_moment[at] += excess * tau * float(state.second_moment[at].sqrt())
    audited.open_end(keep_state(solver.party, state))
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    return audited


async def test_an_end_beyond_the_reject_limits_is_accused_once(solver: Lone) -> None:
    audited = await make_examined(solver, excess=1_000)
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    [made] = audited.verifier.party.memory.accusations
    assert (made.slot, made.segment, made.by_solver) == (0, audited.segment, True)


async def test_a_small_difference_is_told_and_not_accused(solver: Lone) -> None:
    audited = await make_examined(solver, excess=3)
    assert not audited.verifier.party.memory.accusations
    assert any("differs, grey" in line for line in audited.verifier.lines)


@pytest.mark.parametrize("worst", Judgement)
async def test_only_leaves_beyond_the_reject_limits_accuse(solver: Lone, worst: Judgement) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    audited.open_end()
    audited.verifier.chain.answers["compare_leaves"] = judge_as(worst)
    await challenge.compare_leaves(audited.verifier.party, REF, (0, 1), train_segment)
    accused = [challenge.to_claim(made) for made in audited.verifier.party.memory.accusations]
    expected = challenge.name_solver_claim(REF, audited.segment)
    assert accused == ([expected] if worst == Judgement.REJECT else [])


# --- One judgement an audit ---------------------------------------------------------------------------------
@pytest.fixture
async def differing(solver: Lone) -> Audited:
    """Both ends are on chain, and the solver's lies far beyond the reject limits."""
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    state = load_state(solver.party, audited.boundary(audited.segment + 1))
    state.weights[700] += 1.0
    audited.open_end(keep_state(solver.party, state))
    audited.verifier.chain.answers["compare_leaves"] = judge_as(Judgement.REJECT)
    return audited


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The claimed end of each judgement over whole states."""
    found: list[Any] = []

    def judge(claimed: Any, *rest: Any) -> Verdict:
        found.append(claimed.header)
        return judge_state(claimed, *rest)

    monkeypatch.setattr(replay, "judge_state", judge)
    return found


async def compare_and_examine(audited: Audited) -> None:
    party, segment = audited.verifier.party, audited.segment
    await asyncio.gather(
        challenge.compare_leaves(party, REF, (0, 5), train_segment),
        challenge.examine_end(party, REF, segment, train_segment),
    )


async def test_an_audit_is_judged_once_for_the_contract_and_for_an_accusation(
    differing: Audited, judged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[Any] = []

    async def publish(*arguments: Any) -> None:
        published.append(arguments)

    monkeypatch.setattr(challenge, "publish_audit", publish)
    await compare_and_examine(differing)
    assert len(judged) == 1, "two that ask at the same time share it"
    assert len(published) == 1
    await challenge.compare_leaves(differing.verifier.party, REF, (0, 5), train_segment)
    assert len(judged) == 1
    [made] = differing.verifier.party.memory.accusations
    assert challenge.to_claim(made) == challenge.name_solver_claim(REF, differing.segment)
    [first, second] = differing.verifier.chain.list_sent("compare_leaves")
    assert first[2:5] == second[2:5] and first[4] == [2], "the worst leaf is held out each time"


async def test_another_end_is_another_judgement(differing: Audited, judged: list[Any]) -> None:
    await compare_and_examine(differing)
    differing.open_end()
    found = await replay.compare_ends(differing.verifier.party, REF, differing.segment, train_segment)
    assert found.verdict.judgement == Judgement.ACCEPT and len(set(judged)) == 2


async def test_a_judgement_that_failed_is_made_again(
    differing: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [OSError("a disk"), None]

    def judge(*arguments: Any) -> Verdict:
        fault = answers.pop(0)
        if fault is not None:
            raise fault
        return judge_state(*arguments)

    monkeypatch.setattr(replay, "judge_state", judge)
    with pytest.raises(OSError, match="a disk"):
        await challenge.examine_end(differing.verifier.party, REF, differing.segment, train_segment)
    await challenge.examine_end(differing.verifier.party, REF, differing.segment, train_segment)
    assert not answers and len(differing.verifier.party.memory.accusations) == 1


async def test_judgements_do_not_pile_up(differing: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_JUDGED", 1)
    party, ends = differing.verifier.party, []
    for end in (None, get_opening(party.round(0), 0, 0).end):
        differing.open_end(end)
        found = await replay.compare_ends(party, REF, differing.segment, train_segment)
        ends.append(found.claimed.header)
        assert len(party.joined.judged) == 1
    assert ends[0] != ends[1]


def test_a_solver_s_claim_has_one_name_whoever_found_it() -> None:
    names = {challenge.name_solver_claim(audit, 3) for audit in (REF, OTHER_DRAW)}
    assert names == {ClaimRef(REF, 3, by_solver=True)}


async def test_the_opening_is_sealed_in_an_earlier_block(solver: Lone) -> None:
    challenge.accuse(solver.party, ClaimRef(REF, 1, by_solver=False))
    [made] = solver.party.memory.accusations
    solver.chain.answers["open_dispute"] = [refuse("NotSealed"), None]
    solver.chain.answers["seal_opening"] = type("Receipt", (), {"block_number": 40})()
    await challenge.open_accusation(solver.party, made)
    names = [name for name, _ in solver.chain.sent]
    assert names == ["open_dispute", "seal_opening", "wait_for_block", "open_dispute"]
    seal = compute_opening_seal(challenge.to_claim(made), SOLVER, made.salt)
    assert solver.chain.list_sent("seal_opening") == [(seal,)]
    assert solver.chain.list_sent("wait_for_block") == [(41,)]


def test_a_restart_opens_with_the_salt_of_the_seal(solver: Lone) -> None:
    challenge.accuse(solver.party, ClaimRef(REF, 1, by_solver=False))
    [made] = solver.party.memory.accusations
    assert restart(solver).party.memory.accusations == [made]


async def test_only_a_wrong_pseudo_gradient_is_proven(solver: Lone) -> None:
    audited = await audit_claim(solver)
    audited.open_end()
    verifier, count = audited.verifier, get_spec().terms.parameter_count
    await challenge.examine_pseudo_gradient(verifier.party, 0, 0, 0)
    assert not verifier.chain.list_sent("prove_pseudo_gradient")

    made = solver.party.memory.claims[0]
    delta = bytearray(solver.party.store.get(refer_delta(made.delta_root, count)))
    delta[260 * 7 + 10] ^= 1
    root = build_delta_tree(bytes(delta)).root
    solver.party.store.put_delta(root, bytes(delta))
    verifier.take(
        events.Committed(
            block_number=9, task=TASK, round=0, slot=0, solver=SOLVER,
            claim_root=made.claim_root, delta_root=root,
        )
    )  # fmt: skip
    audited.open_end()
    await challenge.examine_pseudo_gradient(verifier.party, 0, 0, 0)
    [(task, index, slot, draw, leaf, begin, last, proof)] = verifier.chain.list_sent("prove_pseudo_gradient")
    assert (task, index, slot, draw, leaf) == (TASK, 0, 0, 0, 7)
    assert proof.data == bytes(delta)[260 * 7 : 260 * 8] and begin.data != last.data
