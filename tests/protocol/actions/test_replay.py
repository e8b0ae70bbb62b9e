"""A blind audit: the result is fixed before it is sent, and stays what it is over a restart."""

import asyncio

import pytest

from protocol.actions import replay
from protocol.actions.memory import header_of
from protocol.actions.states import keep_state, load_state, open_state_leaves
from protocol.compute.step import train_segment
from protocol.spec import codec, events
from protocol.spec.hashing import sha256_of
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, audit_claim, replay_and_reveal, train_wrongly
from tests.protocol.actions.facts import TASK
from tests.protocol.actions.lone import Lone, deal_anew, get_spec, judge_as, restart


async def test_a_replay_of_honest_work_ends_where_the_solver_did(solver: Lone) -> None:
    audited = await audit_claim(solver)
    end = await replay.replay_segment(audited.verifier.party, REF, audited.segment, train_segment)
    assert end == audited.boundary(audited.segment + 1)


async def test_a_commitment_survives_a_restart_and_binds_result_and_salt(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay.commit_replay(audited.verifier.party, REF, audited.segment, train_segment)
    again = restart(audited.verifier)
    again.take(*audited.solver.party.view.events[-3:])
    await replay.commit_replay(again.party, REF, audited.segment, train_wrongly)
    [sent], [sent_again] = (lone.chain.list_sent("commit_replay") for lone in (audited.verifier, again))
    assert sent == sent_again
    await replay.reveal(again.party, REF)
    [(ref, end, salt)] = again.chain.list_sent("reveal")
    root = codec.compute_state_root(end)
    place = (again.party.domain, 0, 0, 0, 0, again.party.account)
    assert (ref, codec.compute_audit_commitment(*place, root, salt)) == sent


async def test_a_reorg_that_deals_anew_voids_a_replay(solver: Lone) -> None:
    """Also where the same segment of the same start is drawn: the data are others."""
    audited = await audit_claim(solver)
    party, drawn = audited.verifier.party, audited.solver.party.view.events[-3:]
    first = await replay.prepare_replay(party, REF, audited.segment, train_segment)
    deal_anew(audited.verifier, "another block", *drawn)
    second = await replay.prepare_replay(party, REF, audited.segment, train_segment)
    assert (
        header_of(second) != header_of(first) and party.memory.find_audit(party.round(0), REF.key) == second
    )
    # The solver claims something else after the reorg, and opens another start.
    start = audited.boundary(audited.segment + 1)
    where = {"task": TASK, "round": 0, "slot": 0, "draw": 0}
    audited.verifier.take(events.StartOpened(block_number=7, start=start, **where))  # type: ignore[arg-type]
    assert party.memory.find_audit(party.round(0), REF.key) is None


async def test_a_start_that_is_not_served_in_time_is_not_waited_for(solver: Lone) -> None:
    audited = await audit_claim(solver)
    audited.withhold()
    with pytest.raises(replay.NotServed):
        await replay.prepare_replay(audited.verifier.party, REF, audited.segment, train_segment)
    assert not audited.verifier.party.memory.audits
    start_end = audited.verifier.party.round(0).deadlines.replay_end - get_spec().terms.windows.replay // 4
    assert audited.verifier.chain.list_sent("wait_for_block") == [(start_end,)]


async def test_who_serves_late_and_in_time_is_heard(solver: Lone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "ASK_PAUSE_S", 0.01)
    audited = await audit_claim(solver)
    client = audited.verifier.client
    remote, client.remote = client.remote, client.store
    replaying = asyncio.create_task(
        replay.replay_segment(audited.verifier.party, REF, audited.segment, train_segment)
    )
    while len(client.asked) < 3:
        await asyncio.sleep(0.01)
    client.remote = remote
    assert await replaying == audited.boundary(audited.segment + 1)


async def test_equal_ends_are_accepted_and_wrong_ones_beyond_every_limit(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    audited.open_end()
    found = await replay.compare_ends(audited.verifier.party, REF, audited.segment, train_segment)
    assert found.verdict.judgement == Judgement.ACCEPT
    state = load_state(solver.party, audited.boundary(audited.segment + 1))
    state.weights[700] += 1.0
    audited.open_end(keep_state(solver.party, state))
    found = await replay.compare_ends(audited.verifier.party, REF, audited.segment, train_segment)
    assert found.verdict.judgement == Judgement.REJECT


async def test_the_worst_leaf_is_opened_beside_the_drawn_ones(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    state = load_state(solver.party, audited.boundary(audited.segment + 1))
    state.weights[700] += 1.0
    audited.open_end(keep_state(solver.party, state))
    audited.verifier.chain.answers["compare_leaves"] = judge_as(Judgement.REJECT)
    for drawn, extra in (((0, 5), [2]), ((2, 5), [])):
        await replay.compare_leaves(audited.verifier.party, REF, drawn, train_segment)
        ref, ends, claimed, replayed, sent_extra, rate_sum, path = audited.verifier.chain.sent[-1][1]
        assert ref == REF and sent_extra == extra and len(claimed) == len(replayed) == len(drawn) + len(extra)
        differing = [a.weights.data != b.weights.data for a, b in zip(claimed, replayed, strict=True)]
        assert differing == [index == 2 for index in (*drawn, *extra)]


async def test_an_end_that_is_not_served_is_compared_as_the_chain_has_it(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    state = load_state(solver.party, audited.boundary(audited.segment + 1))
    state.weights[:] += 1.0
    end = keep_state(solver.party, state)
    audited.open_end(end)
    audited.open_leaves(end, (2, 5))
    audited.withhold()
    audited.verifier.chain.answers["compare_leaves"] = judge_as(Judgement.REJECT)
    await replay.compare_leaves(audited.verifier.party, REF, (2, 5), train_segment)
    [(_, ends, claimed, replayed, extra, _, _)] = audited.verifier.chain.list_sent("compare_leaves")
    assert list(claimed) == open_state_leaves(solver.party, end, [2, 5])
    own = audited.boundary(audited.segment + 1)
    assert ends == (end, own)
    assert list(replayed) == open_state_leaves(audited.verifier.party, own, [2, 5]) and not extra


def test_the_schedule_proof_is_that_of_the_segment(solver: Lone) -> None:
    terms = get_spec().terms
    rate_sum, path = replay.get_schedule_proof(solver.party, 1, 2)
    index = 1 * terms.segment_count + 2
    leaf = codec.compute_schedule_leaf(index, rate_sum)
    node = leaf
    for level, sibling in enumerate(path):
        pair = (node, sibling) if (index >> level) % 2 == 0 else (sibling, node)
        node = sha256_of(b"\x01" + b"".join(pair))
    assert node == terms.schedule_root
