"""What a challenger does about a posted trace; whole disputes are in tests/e2e/test_conviction.py."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

from protocol.actions import prosecute
from protocol.actions.challenge import name_solver_claim
from protocol.actions.party import Party
from protocol.compute.data import get_batch
from protocol.compute.program import build_program, describe_program
from protocol.spec.containers import StateHeader
from protocol.spec.dispute import Demand, DisputeState, PostedTrace
from protocol.spec.draw import draw_sample_start
from protocol.spec.errors import EnvironmentFault
from protocol.spec.merkle import hash_leaf, is_valid_path
from protocol.spec.params import LEAF_BYTES
from protocol.spec.round import get_shard
from protocol.spec.statuses import Stage
from tests.protocol.actions.audits import REF, audit_claim
from tests.protocol.actions.lone import SOLVER, Lone, get_spec

HEADER = StateHeader(b"w" * 32, b"m" * 32, b"v" * 32, 1, 1)


def make_traced(segment: int, step: int) -> DisputeState:
    """A dispute on a segment of the solver's claim, its trace posted."""
    claim, trace = name_solver_claim(REF, segment), PostedTrace(b"t" * 32, HEADER, HEADER)
    dispute = DisputeState(b"d" * 32, get_spec().terms, claim, SOLVER, "opener", 1, stage=Stage.PROVE)
    return replace(dispute, step=step, trace=trace)


async def test_prosecute_unserved_demands_one_leaf_and_asks_again(
    solver: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = await audit_claim(solver)
    verifier = audited.verifier

    async def find_nothing(party: Party, dispute: DisputeState, trace: PostedTrace) -> None:
        raise EnvironmentFault(what="down", expected="a trace", actual="none", remedy="wait")

    monkeypatch.setattr(prosecute, "find_fault", find_nothing)
    dispute = make_traced(audited.segment, 0)
    with pytest.raises(EnvironmentFault, match="down"):
        await prosecute.prosecute(verifier.party, dispute)
    last = len(build_program(describe_program(get_spec().training)).program.nodes) - 1
    [(_, _, node, place, leaf)] = verifier.chain.list_sent("demand_leaf")
    assert (node.number, place, leaf) == (last, 0, 0)
    demanded = replace(dispute, demands=(Demand(verifier.party.account, last, 0, 0),))
    with pytest.raises(EnvironmentFault, match="down"):
        await prosecute.prosecute(verifier.party, demanded)
    assert len(verifier.chain.list_sent("demand_leaf")) == 1


async def test_searches_leave_threads_for_what_they_wait_for(
    solver: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two searches, each waiting for a buffer that is loaded in a thread, where there is one thread."""
    audited, loop = await audit_claim(solver), asyncio.get_running_loop()
    remote = SimpleNamespace(roots=(), make_provider=lambda: None, evict=lambda: None, received_bytes=0)

    async def get(*_: object) -> SimpleNamespace:
        return remote

    def search(*_: object) -> None:
        asyncio.run_coroutine_threadsafe(asyncio.to_thread(time.sleep, 0.01), loop).result()

    for name, replacement in {"fetch_state": get, "open_remote": get, "_search": search}.items():
        monkeypatch.setattr(prosecute, name, replacement)
    loop.set_default_executor(ThreadPoolExecutor(1))
    dispute = make_traced(audited.segment, 0)
    assert dispute.trace is not None
    async with asyncio.timeout(5):
        party, trace = audited.verifier.party, dispute.trace
        await asyncio.gather(*(prosecute.find_fault(party, dispute, trace) for _ in range(2)))


@pytest.mark.parametrize("is_label", [False, True])
async def test_open_token_shows_what_was_dealt(solver: Lone, is_label: bool) -> None:
    audited = await audit_claim(solver)
    party, dispute = audited.verifier.party, make_traced(audited.segment, 1)
    training, state = party.spec.training, party.round(0)
    assert state.beacon is not None
    step = prosecute.get_inner_step(party, dispute)
    assert step == audited.segment * party.spec.terms.segment_steps + 1
    batch = get_batch(party.corpus, training, state.beacon, get_shard(state, 0), step)
    rows = batch.labels_BT if is_label else batch.tokens_BT
    count = -(-(training.token_count + training.heldout_tokens) // LEAF_BYTES)
    for row, column in ((0, 0), (0, rows.shape[1] - 1), (rows.shape[0] - 1, 3)):
        proof = prosecute.open_token(party, dispute, row * training.sequence_tokens + column, is_label)
        shard, length = get_shard(state, 0), training.sequence_tokens
        start = draw_sample_start(state.beacon, shard, step, row, training.token_count, length)
        index, offset = divmod(start + column + is_label, LEAF_BYTES)
        assert is_valid_path(training.dataset_root, hash_leaf(proof.data), index, count, proof.path)
        assert proof.data[offset] == int(rows[row, column])
