"""Votes between peers: offered, taken, published, and handed in; strangers cannot fill a node with them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.members import Member, hand_vote
from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.simulation import make_word
from tests.verifier.stage import (
    OTHER_SOLVER,
    SIGNING,
    STRANGER,
    Node,
    Stage,
    get_account,
    judge,
    list_handed,
    make_solver,
    make_stage,
)
from touchstone.node.records.audit_records import make_sealed
from touchstone.node.serving import taken_votes
from touchstone.node.serving.audit_messages import (
    VOTES,
    VOTES_MAX,
    VotesHanded,
    VotesTaken,
    format_vote,
    make_form,
)
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.audit_deadlines import get_heard_until
from touchstone.protocol.spec.game.calls import HandedOpening, JudgeVotes
from touchstone.protocol.spec.game.claim_status import get_votes
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statements import Vote, VoteWord
from touchstone.verifier.audit_votes import list_waiting, offer
from touchstone.verifier.replaying import audit


def make_vote(stage: Stage, rank: int = 0, word: VoteWord = VoteWord.ABSTAIN, **changes: Any) -> Vote:
    drawn = stage.get_drawn(rank)
    sealed = make_sealed(drawn.place, drawn.segment, ZERO_WORD, ZERO_WORD)
    return replace(Vote(**vars(sealed), end_leaf=ZERO_WORD, word=word, named_leaf=0), **changes)


async def hand(node: Node, to: Node, *votes: Vote, signer: Node | None = None) -> tuple[bool, ...]:
    room = (signer or node).room
    handed = VotesHanded(tuple([format_vote(vote, await room.sign(vote), None) for vote in votes]))
    peer = node.stage.find_peer(to.account)
    return (await node.client.ask(peer, VOTES, handed, make_form(VotesTaken))).are_taken


@asynccontextmanager
async def run_all(stage: Stage, folder: Path, *seeds: int) -> AsyncIterator[list[Node]]:
    """The solver, then a node for each key."""
    async with AsyncExitStack() as stack:
        nodes = [make_solver(stage, folder), *(Node(stage, seed, folder / str(seed)) for seed in seeds)]
        yield [await stack.enter_async_context(node.run()) for node in nodes]


def list_due(node: Node) -> list[str]:
    """Accounts to which the node still owes a vote or an opening."""
    return list_waiting(node.get_view(), 0, node.room.block)


async def offer_all(node: Node) -> None:
    """To every solver that lacks something."""
    await asyncio.gather(*(offer(node.room, 0, one) for one in list_due(node)))


async def test_an_accept_reaches_every_solver_with_its_opening_and_the_chain(tmp_path: Path) -> None:
    stage = make_stage()
    async with run_all(stage, tmp_path, stage.find_auditor(), OTHER_SOLVER) as (solver, auditor, other):
        vote = await audit(auditor.room, stage.get_drawn())
        await offer_all(auditor)
        handed = list_handed(solver)
        assert handed == list_handed(other) == list_handed(auditor)
    assert vote is not None
    opening = auditor.room.book.open_vote(auditor.room.book.votes[stage.get_drawn().place])
    assert opening is not None
    hidden = (opening.claim_end_root, opening.boundary_salt, opening.own_end_root, opening.seal_salt)
    assert list(handed) == [hand_vote(vote, hidden, Member(make_key(auditor.seed)), SIGNING)]
    # On the chain both count at once, and then there is nothing left to hand in.
    judge(stage, vote)
    stage.world.send(JudgeVotes(0, (), (HandedOpening(vote.slot, 0, 0),)), "anybody")
    assert get_votes(stage.game.rounds[0], stage.slot, 0)[0].is_opened
    assert list_handed(solver) == ()


async def test_reserves_show_no_opening_before_the_draw_is_decided(tmp_path: Path) -> None:
    stage = make_stage()
    seeds = [stage.find_auditor(rank) for rank in range(3)]
    judge(stage, make_vote(stage))
    async with run_all(stage, tmp_path, *seeds[1:], OTHER_SOLVER) as (solver, one, two, _):
        for rank, node in ((1, one), (2, two)):
            assert await audit(node.room, stage.get_drawn(rank)) is not None
            await offer_all(node)
        taken = solver.room.book.taken_votes
        assert [taken[stage.get_drawn(rank).place].opening for rank in (1, 2)] == [None, None]
        handed = list_handed(solver)
        assert [vote.is_opened for vote in handed] == [False, False]
        # Decided on chain: now both are offered again, with their openings.
        judge(stage, *(taken[stage.get_drawn(rank).place].vote for rank in (1, 2)))
        assert list_handed(solver) == ()
        for node in (one, two):
            await offer_all(node)
        handed = list_handed(solver)
        assert [vote.is_opened for vote in handed] == [True, True]


async def test_a_reserve_that_comes_with_its_primary_is_handed_in_with_it(tmp_path: Path) -> None:
    """Before a third of the time a reserve counts only after its primary: both may be in one call."""
    stage = make_stage()
    async with run_all(stage, tmp_path, *(stage.find_auditor(rank) for rank in range(2))) as nodes:
        solver, primary, reserve = nodes
        assert await hand(reserve, solver, make_vote(stage, 1)) == (True,)
        assert list_handed(solver) == ()
        assert await hand(primary, solver, make_vote(stage, 0)) == (True,)
        assert [vote.rank for vote in list_handed(solver)] == [0, 1]


async def test_votes_that_are_not_what_they_say_are_not_taken(tmp_path: Path) -> None:
    stage = make_stage()
    right = make_vote(stage)
    wrong = [
        make_vote(stage, domain=make_word("another chain")),
        make_vote(stage, seed=make_word("another fork")),
        make_vote(stage, base_root=make_word("another model")),
        make_vote(stage, claim_root=make_word("another claim")),
        make_vote(stage, segment=(right.segment + 1) % 4),
        make_vote(stage, word=VoteWord.ACCEPT),
        make_vote(stage, named_leaf=3),
        make_vote(stage, rank=1),
        make_vote(stage, slot=7),
    ]
    async with run_all(stage, tmp_path, stage.find_auditor(), stage.find_auditor(1)) as (solver, one, two):
        assert await hand(one, solver, *wrong) == (False,) * len(wrong)
        assert await hand(two, solver, right) == (False,), "signed by another"
        assert not solver.room.book.taken_votes and not list(solver.journal.replay())
        assert await hand(two, solver, right, signer=one) == (True,), "anybody with a seat may bring it"
        assert [known.auditor for known in solver.audits.known.list_votes(0)] == [one.account]
        until = get_heard_until(stage.game, stage.get_drawn(1).place)
        stage.world.jump(until)
        assert await hand(two, solver, make_vote(stage, 1)) == (False,), "nobody needs to hear of it"


async def test_a_flood_of_offers_leaves_two_records(tmp_path: Path) -> None:
    stage = make_stage()
    words = (VoteWord.ABSTAIN, VoteWord.UNSERVED)
    leaves = [
        make_vote(stage, word=word, end_leaf=make_word("leaf", number))
        for word in words
        for number in range(8)
    ]
    async with run_all(stage, tmp_path, stage.find_auditor(), STRANGER) as (solver, auditor, stranger):
        for _ in range(4):
            await hand(auditor, solver, *leaves)
        assert len(list(solver.journal.replay())) == 2
        known = [known.vote for known in solver.audits.known.list_votes(0)]
        assert known == leaves[:2], "the first, and the one that contradicts it"
        with pytest.raises(EnvironmentFault, match="members only"):
            await hand(stranger, solver, make_vote(stage))
        with pytest.raises(EnvironmentFault, match="malformed|too long"):
            await hand(auditor, solver, *leaves, leaves[0])
        assert len(leaves) == VOTES_MAX


async def test_who_brings_too_many_bad_signatures_is_heard_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taken_votes, "MAX_STRIKES", 5)
    stage = make_stage()
    async with run_all(stage, tmp_path, stage.find_auditor(), stage.find_auditor(1)) as (solver, one, two):
        right, recover, asked = make_vote(stage), solver.room.recover, list[str]()
        solver.room.recover = lambda *call: (asked.append(call[2]), recover(*call))[1]  # type: ignore[func-returns-value]
        assert await hand(two, solver, *[right] * 8) == (False,) * 8
        assert len(asked) == 5
        assert await hand(two, solver, right, signer=one) == (False,)
        assert await hand(one, solver, right) == (True,)


async def test_an_opening_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    stage = make_stage()
    async with run_all(stage, tmp_path, stage.find_auditor()) as (solver, auditor):
        vote = await audit(auditor.room, stage.get_drawn())
        assert vote is not None
        made = auditor.room.book.votes[stage.get_drawn().place]
        opening = auditor.room.book.open_vote(made)
        assert opening is not None
        peer = stage.find_peer(solver.account)
        for shown, is_taken in ((replace(opening, own_end_root=make_word("x")), False), (opening, True)):
            handed = VotesHanded((format_vote(vote, made.signature, shown),))
            answer = await auditor.client.ask(peer, VOTES, handed, make_form(VotesTaken))
            assert answer.are_taken == (is_taken,)
            known = solver.room.book.taken_votes[stage.get_drawn().place]
            assert known.opening == (opening if is_taken else None)


async def test_a_solver_that_is_away_is_offered_the_vote_again(tmp_path: Path) -> None:
    stage = make_stage()
    async with run_all(stage, tmp_path, stage.find_auditor()) as (solver, auditor):
        assert await audit(auditor.room, stage.get_drawn()) is not None
        assert set(list_due(auditor)) == {
            solver.account,
            get_account(OTHER_SOLVER),
        }
        await offer(auditor.room, 0, solver.account)
        with pytest.raises(EnvironmentFault):
            await offer(auditor.room, 0, get_account(OTHER_SOLVER))
        assert list_due(auditor) == [get_account(OTHER_SOLVER)]
        assert stage.get_drawn().place in solver.room.book.taken_votes
        async with Node(stage, OTHER_SOLVER, tmp_path / "other").run() as other:
            await offer_all(auditor)
            assert list_due(auditor) == []
            assert list(other.room.book.taken_votes) == [stage.get_drawn().place]
    kept = Node(stage, OTHER_SOLVER, tmp_path / "other")
    assert list(kept.room.book.taken_votes) == [stage.get_drawn().place], "a restart loses none"
    kept.journal.close()
    assert get_account(OTHER_SOLVER) == other.account
