"""An auditor and a solver over real HTTPS: what is found, what it stands on, and what a kill leaves."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.simulation import AMOUNTS, make_word
from tests.verifier import stage as stage_module
from tests.verifier.stage import (
    SIGNING,
    Claim,
    Node,
    Stage,
    Twist,
    begin_model,
    get_account,
    make_bystander,
    make_solver,
    make_stage,
)
from touchstone.node.records.audit_records import ShownWork
from touchstone.node.serving.audit_messages import SEAL, START
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.audit_deadlines import compute_serving_until, is_wanted
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statement_checks import does_opening_fit, does_vote_misname, is_vote_complete
from touchstone.protocol.spec.statements import Vote, VoteWord
from touchstone.verifier.replaying import audit


async def run_audit(stage: Stage, folder: Path, *, last_block: int = 0, **changes: Any) -> tuple[Vote, Node]:
    """The primary audits the claim; the chain goes on to `last_block` meanwhile."""
    drawn, solver = stage.get_drawn(), make_solver(stage, folder, **changes)
    auditor = Node(stage, stage.find_auditor(), folder / "auditor")
    clock = asyncio.create_task(stage.pass_blocks(last_block))
    async with solver.run(), auditor.run():
        vote = await audit(auditor.room, drawn)
    clock.cancel()
    assert vote is not None
    return vote, auditor


def require_true(stage: Stage, vote: Vote, auditor: Node) -> None:
    """What an honest word must be: whole, about the claim's own leaves, and opened by what was sealed."""
    drawn = stage.get_drawn()
    assert is_vote_complete(vote)
    for boundary in range(5):
        assert not does_vote_misname(vote, boundary, stage.claim.levels[0][boundary])
    opening = auditor.room.book.open_vote(auditor.room.book.votes[drawn.place])
    assert opening is not None and does_opening_fit(vote, opening, drawn.solver, auditor.account)


async def test_a_right_claim_is_accepted(tmp_path: Path) -> None:
    stage = make_stage()
    vote, auditor = await run_audit(stage, tmp_path)
    assert (vote.word, vote.named_leaf) == (VoteWord.ACCEPT, 0), auditor.lines
    require_true(stage, vote, auditor)


@pytest.mark.parametrize("ahead_s", [-90, 90])
async def test_an_auditor_whose_clock_is_wrong_audits(tmp_path: Path, ahead_s: float) -> None:
    """Its requests were refused as stale, and it said UNSERVED: a fee for the solver, and for itself."""
    stage = make_stage()
    key = make_key(stage.find_auditor())

    def make_client(store: BlobStore, _: Any, *rest: Any, **more: Any) -> BlobClient:
        signer = RequestSigner(key, SIGNING, lambda: time.time() + ahead_s)
        return BlobClient(store, signer, *rest, **more)

    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor", make_client=make_client)
    async with make_solver(stage, tmp_path).run(), auditor.run():
        clock = asyncio.create_task(stage.pass_blocks(stage.audit_end, pause_s=0.1))
        vote = await audit(auditor.room, stage.get_drawn())
        clock.cancel()
    assert vote is not None and vote.word == VoteWord.ACCEPT


async def test_a_wrong_end_is_rejected_with_its_worst_leaf(tmp_path: Path) -> None:
    stage = make_stage()
    segment = stage.get_drawn().segment
    stage = make_stage(Twist(boundary=segment + 1, element=700))
    assert stage.get_drawn().segment == segment
    vote, auditor = await run_audit(stage, tmp_path)
    assert (vote.word, vote.named_leaf) == (VoteWord.REJECT_STATE, 700 // 256)
    require_true(stage, vote, auditor)


async def test_a_difference_inside_the_limits_passes_but_in_an_exact_task(tmp_path: Path) -> None:
    segment = make_stage().get_drawn().segment
    twist = Twist(boundary=segment + 1, element=700, amount=1e-7)
    vote, _ = await run_audit(make_stage(twist), tmp_path / "limits")
    stage = make_stage(twist, is_exact=True)
    exact, auditor = await run_audit(stage, tmp_path / "exact")
    assert vote.word == VoteWord.ACCEPT
    assert (exact.word, exact.named_leaf) == (VoteWord.REJECT_STATE, 0)
    claimed = auditor.room.states.refer(stage.claim.headers[segment + 1])
    assert not all(auditor.store.has(ref) for ref in claimed), "no end state travels"


async def test_an_end_with_other_step_numbers_is_rejected(tmp_path: Path) -> None:
    segment = make_stage().get_drawn().segment
    stage = make_stage(Twist(steps=(segment + 1, 0, 1)))
    vote, auditor = await run_audit(stage, tmp_path)
    assert (vote.word, vote.named_leaf) == (VoteWord.REJECT_STATE, 0)
    require_true(stage, vote, auditor)
    # Whoever asks is shown leaf 0 of both ends.
    assert all(auditor.store.has(ref) for ref in auditor.room.states.refer(stage.claim.headers[segment + 1]))


async def test_a_wrong_pseudo_gradient_is_rejected_with_its_first_leaf(tmp_path: Path) -> None:
    stage = make_stage(Twist(delta_leaf=3))
    vote, auditor = await run_audit(stage, tmp_path)
    assert (vote.word, vote.named_leaf) == (VoteWord.REJECT_DELTA, 3)
    right = encode_delta(begin_model().weights, stage.claim.states[-1].weights)
    leaves = [slice(260 * leaf, 260 * leaf + 260) for leaf in range(5)]
    assert [stage.claim.delta[one] == right[one] for one in leaves] == [True, True, True, False, True]
    require_true(stage, vote, auditor)


async def test_a_wrong_carried_root_is_rejected_as_the_work_that_it_is(tmp_path: Path) -> None:
    stage = make_stage(Twist(is_carried_wrong=True))
    vote, auditor = await run_audit(stage, tmp_path)
    assert (vote.word, vote.named_leaf) == (VoteWord.REJECT_DELTA, 0)
    require_true(stage, vote, auditor)


async def test_a_wrong_start_is_rejected_on_a_replay_that_was_done(tmp_path: Path) -> None:
    """REJECT_START needs both leaves and a seal, like any word of an auditor that compared, and its own
    replay may be disputed: so it is a true one."""
    stage = make_stage(Twist(boundary=0))
    vote, auditor = await run_audit(stage, tmp_path)
    assert (vote.word, vote.named_leaf) == (VoteWord.REJECT_START, 0)
    require_true(stage, vote, auditor)
    made = auditor.room.book.seals[stage.get_drawn().place]
    assert made.own_end == stage.claim.headers[vote.segment + 1]
    [replay] = auditor.audits.known.list_replays(0)
    assert replay.claimed_end is None, "the ends were not compared: no suspicion follows, but an answer may"


async def test_a_start_with_step_numbers_of_another_place_is_unserved(tmp_path: Path) -> None:
    segment = make_stage().get_drawn().segment
    for number, steps in enumerate([(segment, 1, 0), (segment, 0, 2)]):
        vote, auditor = await run_audit(make_stage(Twist(steps=steps)), tmp_path / str(number))
        assert vote.word == VoteWord.UNSERVED and vote.seal == ZERO_WORD == vote.start_leaf
        assert not auditor.room.book.seals, "nobody can show such a replay"


async def test_wrong_step_numbers_at_boundary_0_are_kept_as_a_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The auditor of segment 0 cannot replay it. What it was shown convicts the solver, also after a
    restart."""
    number = next(n for n in range(99) if choose_domain(monkeypatch, n).get_drawn().segment == 0)
    for steps in ((0, 0, 2), (0, 0, 7)):
        choose_domain(monkeypatch, number)
        stage, folder = make_stage(Twist(steps=steps)), tmp_path / str(steps)
        vote, auditor = await run_audit(stage, folder)
        assert vote.word == VoteWord.UNSERVED
        [(slot, first)] = auditor.audits.known.list_wrong_starts(0)
        assert (slot, first.header) == (stage.slot, stage.claim.headers[0])
        assert auditor.audits.known.get_openings(0, slot).boundaries == {0: first}
        again = Node(stage, auditor.seed, auditor.folder)
        assert list(again.audits.known.list_wrong_starts(0)) == [(slot, first)]
        again.journal.close()


def choose_domain(monkeypatch: pytest.MonkeyPatch, number: int) -> Stage:
    """Another task, with other draws."""
    monkeypatch.setattr(stage_module, "DOMAIN", make_word("domain", number))
    return make_stage()


# Not served
async def test_who_serves_nothing_is_unserved_after_two_thirds_of_the_time(tmp_path: Path) -> None:
    stage = make_stage()
    drawn, begun = stage.get_drawn(), stage.head
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    until = compute_serving_until(stage.game, drawn.place, begun)
    assert stage.audit_end - until == (stage.audit_end - begun) // 3
    clock = asyncio.create_task(stage.pass_blocks(until - 1))
    async with auditor.run(), make_bystander(stage, tmp_path).run():
        waiting = asyncio.create_task(audit(auditor.room, drawn))
        await clock
        await asyncio.sleep(0.1)
        assert not waiting.done(), "blocks count, not seconds"
        await stage.pass_blocks(until)
        vote = await waiting
    assert vote is not None and vote.word == VoteWord.UNSERVED and is_vote_complete(vote)


async def test_a_node_that_has_not_read_the_whole_chain_asks_before_it_judges(tmp_path: Path) -> None:
    """It was down: by what it has read its solver has time, by the chain that is over."""
    stage = make_stage()
    drawn, read = stage.get_drawn(), stage.head
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    auditor.room.get_head = lambda: read
    stage.world.jump(stage.audit_end + 1)
    async with make_solver(stage, tmp_path).run(), auditor.run():
        vote = await audit(auditor.room, drawn)
    assert vote is not None and vote.word == VoteWord.ACCEPT


async def test_a_pause_before_the_replay_is_no_reason_for_a_word_against_the_solver(tmp_path: Path) -> None:
    """It has served the start; that the auditor's machine is used for longer than it was to be waited for is
    not its fault. Until the pause is over nothing is computed or sealed."""
    stage = make_stage()
    drawn, paused, is_over = stage.get_drawn(), asyncio.Event(), asyncio.Event()
    until = compute_serving_until(stage.game, drawn.place, stage.head)
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")

    async def pause() -> None:
        paused.set()
        await is_over.wait()

    auditor.room.pause = pause
    async with make_solver(stage, tmp_path).run(), auditor.run():
        auditing, pausing = (
            asyncio.create_task(audit(auditor.room, drawn)),
            asyncio.create_task(paused.wait()),
        )
        await asyncio.wait({auditing, pausing}, return_when=asyncio.FIRST_COMPLETED)
        await stage.pass_blocks(until + 1)
        assert not auditing.done() and not auditor.room.book.seals
        is_over.set()
        vote = await auditing
    assert vote is not None and vote.word == VoteWord.ACCEPT, auditor.lines


async def test_an_end_that_is_not_served_after_the_seal_keeps_the_seal(tmp_path: Path) -> None:
    stage = make_stage()
    end = stage.claim.headers[-1].weights_root
    vote, auditor = await run_audit(
        stage, tmp_path, last_block=stage.audit_end, may_serve=lambda account, kind, root: root != end
    )
    made = auditor.room.book.seals[stage.get_drawn().place]
    assert vote.word == VoteWord.UNSERVED
    assert "both auditors pay 0.0" in auditor.lines[-1], "what it may cost is said"
    assert (vote.seal, vote.start_leaf) == (made.sealed.seal, made.sealed.start_leaf)


async def test_a_start_from_which_steps_leave_the_numbers_is_trained_from_as_any(tmp_path: Path) -> None:
    """The steps end in finite states by a rule of programs, and the claim in others: whoever made it of such
    states, and computed nothing, is rejected."""
    stage = make_stage(Twist(untrainable=make_stage().get_drawn().segment))
    vote, auditor = await run_audit(stage, tmp_path)
    assert vote.word == VoteWord.REJECT_STATE, auditor.lines


async def test_who_would_owe_too_much_abstains(tmp_path: Path) -> None:
    words = []
    for fee in (AMOUNTS.auditor_stake // 2, AMOUNTS.auditor_stake // 2 + 1):
        stage = make_stage(amounts=replace(AMOUNTS, unserved_fee=fee))
        auditor = Node(stage, stage.find_auditor(), tmp_path / str(fee))
        clock = asyncio.create_task(stage.pass_blocks(stage.audit_end, pause_s=0.001))
        async with auditor.run(), make_bystander(stage, tmp_path / str(fee)).run():
            vote = await audit(auditor.room, stage.get_drawn())
        clock.cancel()
        assert vote is not None
        words.append(vote.word)
    assert words == [VoteWord.UNSERVED, VoteWord.ABSTAIN]


async def test_an_own_failure_abstains_once_the_time_is_over(tmp_path: Path) -> None:
    stage = make_stage()
    drawn, solver = stage.get_drawn(), make_solver(stage, tmp_path)
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    auditor.room.models.is_known = False  # type: ignore[attr-defined]
    async with solver.run(), auditor.run():
        with pytest.raises(EnvironmentFault, match="no model"):
            await audit(auditor.room, drawn)
        stage.world.jump(stage.audit_end - 1)
        vote = await audit(auditor.room, drawn)
    assert vote is not None and vote.word == VoteWord.ABSTAIN
    assert vote.seal == auditor.room.book.seals[drawn.place].sealed.seal, "what was sealed is repeated"


@pytest.mark.parametrize("is_seal_late", [False, True])
async def test_who_comes_late_tries_again_while_a_vote_still_counts(
    tmp_path: Path, is_seal_late: bool
) -> None:
    """It was down, or its replay took long, and then one peer did not show it the model."""
    stage = make_stage()
    drawn, late = stage.get_drawn(), stage.audit_end - 3
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    auditor.room.models.is_known = False  # type: ignore[attr-defined]

    async def pause() -> None:
        stage.world.jump(late)

    if is_seal_late:
        auditor.room.pause = pause
    else:
        stage.world.jump(late)
    async with make_solver(stage, tmp_path).run(), auditor.run():
        for _ in range(2):
            with pytest.raises(EnvironmentFault, match="no model"):
                await audit(auditor.room, drawn)
        stage.world.jump(late + 2 * (stage.audit_end + stage.game.terms.windows.audit_max - late) // 3)
        assert is_wanted(stage.game, drawn.place, auditor.room.block), "there is time to hand a vote in"
        vote = await audit(auditor.room, drawn)
    assert vote is not None and vote.word == VoteWord.ABSTAIN


@dataclass
class Liar:
    """A solver that opens something else than its claim holds, in one of its openings."""

    claim: Claim
    lie: int

    def list_boundaries(self, index: int) -> dict[int, StateHeader]:
        return self.claim.list_boundaries(index)

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        proof = self.claim.open_boundary(index, boundary)
        return replace(proof, salt=make_word("salt")) if boundary == self.lie else proof

    def open_work(self, index: int) -> ShownWork:
        work = self.claim.open_work(index)
        return replace(work, delta_root=make_word("delta")) if self.lie == WORK else work


WORK = 9


async def test_openings_that_are_not_of_the_claim_serve_nothing(tmp_path: Path) -> None:
    segment = make_stage().get_drawn().segment
    for lie in {0, segment, segment + 1, 4, WORK}:
        stage = make_stage()
        drawn, solver = stage.get_drawn(), make_solver(stage, tmp_path / str(lie))
        solver.room.claims = Liar(stage.claim, lie)
        auditor = Node(stage, stage.find_auditor(), tmp_path / str(lie) / "auditor")
        clock = asyncio.create_task(stage.pass_blocks(stage.audit_end + 30, pause_s=0.01))
        async with solver.run(), auditor.run():
            vote = await audit(auditor.room, drawn)
        clock.cancel()
        assert vote is not None and (vote.word, vote.end_leaf) == (VoteWord.UNSERVED, ZERO_WORD)
        assert (drawn.place in auditor.room.book.seals) == (lie not in (0, segment))


async def test_a_solver_that_was_restarted_is_told_the_seal_again(tmp_path: Path) -> None:
    """It has forgotten to whom it shows what: between the openings of the end and its tensors."""
    stage = make_stage(Twist(boundary=make_stage().get_drawn().segment + 1))
    drawn, solver = stage.get_drawn(), make_solver(stage, tmp_path)
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    load, restarts = auditor.room.models.load_base, []

    async def load_after_restart(root: bytes) -> Any:
        restarts.append(len(solver.room.grants))
        solver.room.grants.clear()
        return await load(root)

    auditor.room.models.load_base = load_after_restart  # type: ignore[method-assign]
    clock = asyncio.create_task(stage.pass_blocks(stage.audit_end + 30, pause_s=0.05))
    async with solver.run(), auditor.run():
        vote = await audit(auditor.room, drawn)
    clock.cancel()
    assert vote is not None and vote.word == VoteWord.REJECT_STATE and restarts == [1]


# Killed
class Killed(BaseException):
    """As if the process had ended here."""


def kill_at(node: Node, handler: str) -> None:
    """The node dies when it is about to send a message to this handler."""
    ask = node.client.ask

    async def ask_or_die(peer: Any, name: str, *rest: Any) -> Any:
        if name == handler:
            raise Killed
        return await ask(peer, name, *rest)

    node.client.ask = ask_or_die  # type: ignore[method-assign, assignment]


async def test_killed_between_journal_and_seal_it_sends_the_same_seal(tmp_path: Path) -> None:
    stage = make_stage()
    drawn, seed, folder = stage.get_drawn(), stage.find_auditor(), tmp_path / "auditor"
    async with make_solver(stage, tmp_path).run() as solver:
        first = Node(stage, seed, folder)
        kill_at(first, SEAL)
        async with first.run():
            with pytest.raises(Killed):
                await audit(first.room, drawn)
        made = first.room.book.seals[drawn.place]
        assert not solver.room.book.taken_seals
        second = Node(stage, seed, folder)
        second.room.train = _refuse_to_train
        async with second.run():
            vote = await audit(second.room, drawn)
        taken = solver.room.book.taken_seals[drawn.place]
    assert taken.sealed == made.sealed == second.room.book.seals[drawn.place].sealed
    assert vote is not None and (vote.word, vote.seal) == (VoteWord.ACCEPT, made.sealed.seal)


def _refuse_to_train(*_: Any) -> Any:
    raise AssertionError("it was replayed before the kill")


async def test_killed_after_the_vote_it_says_the_same_and_asks_nobody(tmp_path: Path) -> None:
    stage = make_stage()
    vote, _ = await run_audit(stage, tmp_path)
    again = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    kill_at(again, START)
    stage.world.jump(stage.audit_end)
    async with again.run():
        assert await audit(again.room, stage.get_drawn()) == vote
    signatures = {made.signature for made in again.room.book.votes.values()}
    assert len(signatures) == 1


async def test_killed_after_the_solver_took_the_seal_both_go_on(tmp_path: Path) -> None:
    """The solver restarts too: it finds the seal, and shows the end for it again."""
    stage = make_stage()
    drawn, seed = stage.get_drawn(), stage.find_auditor()
    auditor = Node(stage, seed, tmp_path / "auditor")
    auditor.room.models.is_known = False  # type: ignore[attr-defined]
    async with make_solver(stage, tmp_path).run(), auditor.run():
        with pytest.raises(EnvironmentFault):
            await audit(auditor.room, drawn)
    auditor = Node(stage, seed, tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        assert drawn.place in solver.room.book.taken_seals and not solver.room.grants
        vote = await audit(auditor.room, drawn)
    assert vote is not None and vote.word == VoteWord.ACCEPT


async def test_two_audits_at_once_make_one_vote(tmp_path: Path) -> None:
    stage = make_stage()
    drawn, auditor = stage.get_drawn(), Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run(), auditor.run():
        votes = await asyncio.gather(*(audit(auditor.room, drawn) for _ in range(3)))
    assert votes[0] == votes[1] == votes[2] and votes[0] is not None
    assert get_account(auditor.seed) == drawn.seat.account
