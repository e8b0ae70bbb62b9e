"""A rejection is looked at again before it costs anybody anything: in a segment that multiplies noise it is
grey, in all others it stands."""

import threading
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from protocol.actions import challenge, replay
from protocol.actions.claim import get_dealt_batches
from protocol.actions.own_noise import confirm
from protocol.actions.states import keep_state, load_state
from protocol.compute.compare import Verdict
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.statuses import ClaimRef
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal
from tests.protocol.actions.lone import Lone, judge_as

AMPLIFICATION = 1e4


@dataclass
class IllConditioned:
    """A segment that turns whatever its start is moved by into ten thousand times as much: on its own tokens
    (int64), or on any where there are none. calls: the first inner step of each training."""

    start: TrainingState
    tokens: Tensor | None
    calls: list[int] = field(default_factory=list)

    def train(
        self, state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        self.calls.append(inner_step)
        moved = state.weights - self.start.weights
        end, losses = train_segment(state, spec, batches, inner_step, steps)
        if self.tokens is None or torch.equal(batches(inner_step)[0], self.tokens):
            end.first_moment.add_(AMPLIFICATION * moved)
        return end, losses


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    """The solver's end is the verifier's but for one weight, far beyond the reject limits."""
    found = await audit_claim(solver)
    await replay_and_reveal(found)
    state = load_state(solver.party, found.boundary(found.segment + 1))
    state.weights[700] += 1e-4
    found.open_end(keep_state(solver.party, state))
    return found


@pytest.fixture
def chaos(audited: Audited) -> IllConditioned:
    party = audited.solver.party
    batch = get_dealt_batches(party, 0, 0)(audited.segment * party.spec.terms.segment_steps)
    return IllConditioned(load_state(party, audited.boundary(audited.segment)), batch[0])


async def test_what_may_be_noise_accuses_nobody(audited: Audited, chaos: IllConditioned) -> None:
    verifier = audited.verifier
    await challenge.examine_end(verifier.party, REF, audited.segment, chaos.train)
    assert not verifier.party.memory.accusations
    assert any("ill-conditioned" in line and "accuses nobody" in line for line in verifier.lines)
    found = await replay.compare_ends(verifier.party, REF, audited.segment, chaos.train)
    assert found.verdict.judgement == Judgement.GREY and found.is_noise
    assert chaos.calls == [audited.segment * verifier.party.spec.terms.segment_steps] * 3, "measured once"


async def test_what_is_no_noise_of_an_own_replay_is_accused(audited: Audited) -> None:
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, train_segment)
    [made] = audited.verifier.party.memory.accusations
    assert challenge.to_claim(made) == challenge.name_solver_claim(REF, audited.segment)
    found = await replay.compare_ends(audited.verifier.party, REF, audited.segment, train_segment)
    assert found.verdict.judgement == Judgement.REJECT and not found.is_noise


async def test_what_may_be_noise_is_not_held_out_to_the_contract(
    audited: Audited, chaos: IllConditioned
) -> None:
    verifier = audited.verifier
    verifier.chain.answers["compare_leaves"] = judge_as(Judgement.REJECT)
    await challenge.compare_leaves(verifier.party, REF, (0, 5), chaos.train)
    [(_, _, claimed, _, extra, _, _)] = verifier.chain.list_sent("compare_leaves")
    assert extra == [] and len(claimed) == 2
    assert not verifier.party.memory.accusations


async def test_a_start_that_is_chaos_on_any_data_excuses_nothing(
    audited: Audited, chaos: IllConditioned
) -> None:
    chaos.tokens = None
    await challenge.examine_end(audited.verifier.party, REF, audited.segment, chaos.train)
    assert len(audited.verifier.party.memory.accusations) == 1


async def test_a_gross_lie_is_rejected_in_any_segment(audited: Audited, chaos: IllConditioned) -> None:
    solver, segment = audited.solver.party, audited.segment
    state = load_state(solver, audited.boundary(segment + 1))
    state.weights[700] += 1e6
    audited.open_end(keep_state(solver, state))
    await challenge.examine_end(audited.verifier.party, REF, segment, chaos.train)
    assert len(audited.verifier.party.memory.accusations) == 1


@pytest.mark.parametrize("judgement", [Judgement.ACCEPT, Judgement.GREY])
async def test_only_rejections_are_looked_at_again(
    audited: Audited, chaos: IllConditioned, judgement: Judgement
) -> None:
    ends = (audited.boundary(audited.segment), audited.boundary(audited.segment + 1))
    verdict = Verdict(judgement, 3, 0.5)
    party = audited.verifier.party
    assert await confirm(party, REF, audited.segment, ends, verdict, chaos.train, 10_000) == verdict
    assert not chaos.calls and torch.equal(chaos.start.weights, load_state(party, ends[0]).weights)


async def test_nobody_is_late_for_its_own_noise(audited: Audited) -> None:
    """A segment that takes longer than the window: the rejection stands, and what is measured later counts
    later."""
    verifier, held = audited.verifier, threading.Event()

    def train_slowly(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        held.wait()
        return train_segment(state, spec, batches, inner_step, steps)

    verifier.chain.head = verifier.party.round(0).deadlines.compare_end
    try:
        await challenge.examine_end(verifier.party, REF, audited.segment, train_slowly)
    finally:
        held.set()
    assert len(verifier.party.memory.accusations) == 1
    assert any("not known in time" in line for line in verifier.lines)
    [measuring] = verifier.party.joined.conditioning.values()
    assert not (await measuring).is_ill


@pytest.mark.parametrize("is_ill", [True, False])
async def test_a_solver_accuses_no_auditor_of_an_ill_conditioned_segment(
    audited: Audited, chaos: IllConditioned, is_ill: bool
) -> None:
    audited.solver.chain.head = audited.solver.party.view.head_block
    party, claim = audited.solver.party, ClaimRef(REF, audited.segment, by_solver=False)
    await challenge.answer_slander(party, claim, chaos.train if is_ill else train_segment)
    assert [challenge.to_claim(made) for made in party.memory.accusations] == ([] if is_ill else [claim])
