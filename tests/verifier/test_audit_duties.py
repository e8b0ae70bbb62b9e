"""What an auditor has to do, and when: primaries at once, reserves after another word or a third of the time,
whistleblowers when they are drawn."""

import asyncio
from pathlib import Path
from typing import Any

from tests.node.silent_peer import run_silent
from tests.protocol.spec.game.simulation import KEEPER
from tests.verifier.stage import (
    OTHER_SOLVER,
    SOLVER,
    Node,
    Stage,
    get_account,
    judge,
    list_handed,
    make_bystander,
    make_solver,
    make_stage,
)
from tests.verifier.test_audit_votes import make_vote
from touchstone.node.kit.duty import Wait
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_late_draw
from touchstone.protocol.spec.game.claim_status import get_votes
from touchstone.protocol.spec.game.timing import compute_draw_window, get_closing_from
from touchstone.protocol.spec.statements import VoteWord
from touchstone.verifier.audit_duties import AuditDraw, OfferVotes, list_duties
from touchstone.verifier.replaying import audit


def list_due(node: Node) -> list[Any]:
    return list(list_duties(node.get_view(), node.stage.head + 1))


async def test_a_primary_audits_then_offers_then_rests(tmp_path: Path) -> None:
    stage = make_stage()
    place, auditor = stage.get_drawn().place, Node(stage, stage.find_auditor(), tmp_path / "auditor")
    other = Node(stage, OTHER_SOLVER, tmp_path / "other")
    async with make_solver(stage, tmp_path).run(), other.run(), auditor.run():
        [duty] = list_due(auditor)
        assert duty == AuditDraw(place)
        await duty.perform(auditor.room)
        duties = list_due(auditor)
        assert duties == [OfferVotes(0, get_account(SOLVER)), OfferVotes(0, get_account(OTHER_SOLVER))]
        await asyncio.gather(*(duty.perform(auditor.room) for duty in duties))
        assert list_due(auditor) == []
        judge(stage, auditor.room.book.votes[place].vote)
        assert list_due(auditor) == [], "its opening was taken with the vote"


async def test_a_solver_that_never_answers_keeps_no_vote_from_the_others(tmp_path: Path) -> None:
    """It takes connections and says nothing. What is offered to it waits; the others have theirs at once."""
    stage = make_stage()
    place, auditor = stage.get_drawn().place, Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run() as solver, auditor.run(), run_silent() as silent:
        stage.peers[get_account(OTHER_SOLVER)] = silent(get_account(OTHER_SOLVER))
        assert await audit(auditor.room, stage.get_drawn()) is not None
        duties = {duty.account: duty for duty in list_due(auditor)}
        hanging = asyncio.create_task(duties[get_account(OTHER_SOLVER)].perform(auditor.room))
        await duties[get_account(SOLVER)].perform(auditor.room)
        assert place in solver.room.book.taken_votes and not hanging.done()
        assert list_due(auditor) == [OfferVotes(0, get_account(OTHER_SOLVER))]
        hanging.cancel()


async def test_reserves_wait_for_another_word_or_a_third_of_the_time(tmp_path: Path) -> None:
    stage = make_stage()
    node = Node(stage, stage.find_auditor(1), tmp_path / "reserve")
    third = (stage.game.rounds[0].closed or 0) + stage.game.terms.windows.audit_max // 3
    assert list_due(node) == [Wait(third)]
    stage.world.jump(third - 2)
    assert list_due(node) == [Wait(third)]
    stage.world.jump(third - 1)
    assert list_due(node) == [AuditDraw(stage.get_drawn(1).place)]
    stage = node.stage = make_stage()
    node.room.get_game = lambda: stage.game
    judge(stage, make_vote(stage, word=VoteWord.UNSERVED))
    assert list_due(node) == [AuditDraw(stage.get_drawn(1).place)]
    node.journal.close()


async def test_a_decided_draw_wants_no_more_words(tmp_path: Path) -> None:
    stage = make_stage()
    nodes = [Node(stage, stage.find_auditor(rank), tmp_path / str(rank)) for rank in range(3)]
    judge(stage, make_vote(stage, word=VoteWord.ACCEPT))
    assert [list_due(node) for node in nodes] == [[], [], []]
    stage.world.jump((stage.game.rounds[0].closed or 0) + 2 * stage.game.terms.windows.audit_max)
    for node in nodes:
        node.journal.close()


async def test_a_reserve_says_unserved_where_that_alone_counts(tmp_path: Path) -> None:
    """The other reserve abstained at once, so the draw has failed: who serves nobody keeps its fee unless the
    last auditor says so. One that is served has nothing to say, and takes no step."""
    for is_serving in (False, True):
        stage = make_stage()
        judge(stage, make_vote(stage, word=VoteWord.UNSERVED), make_vote(stage, 1))
        drawn = stage.get_drawn(2)
        node = Node(stage, stage.find_auditor(2), tmp_path / f"reserve {is_serving}")
        assert list_due(node) == [AuditDraw(drawn.place)]
        steps = count_steps(node)
        solver = make_solver(stage, tmp_path / str(is_serving))
        if not is_serving:
            clock = asyncio.create_task(stage.pass_blocks(stage.audit_end, pause_s=0.001))
            async with node.run(), make_bystander(stage, tmp_path).run():
                vote = await audit(node.room, drawn)
            await clock
            assert vote is not None and vote.word == VoteWord.UNSERVED
            judge(stage, vote)
            assert len(get_votes(stage.game.rounds[0], stage.slot, 0)) == 3
        else:
            async with node.run(), solver.run():
                assert await audit(node.room, drawn) is None
            assert list_due(node) == [] and not node.room.book.votes
        assert not steps
        solver.journal.close()


def count_steps(node: Node) -> list[int]:
    """How many steps each training of this node took."""
    train, taken = node.room.train, list[int]()

    def train_and_count(*arguments: Any) -> Any:
        taken.append(arguments[-1])
        return train(*arguments)

    node.room.train = train_and_count
    return taken


def draw_late(stage: Stage) -> None:
    """The claim is accepted, the base root stands, and the closing seed draws its late audit."""
    world = stage.world
    judge(stage, make_vote(stage, word=VoteWord.ACCEPT))
    windows = stage.game.terms.windows
    world.jump(stage.audit_end + windows.post + 1)
    world.send(calls.LetStand(0), "anybody")
    start = get_closing_from(stage.game, world.block)
    assert start is not None
    world.jump(max(world.block, compute_draw_window(stage.game, start)[0]))
    world.send(world.seal(calls.DrawClosing()), KEEPER)
    assert get_late_draw(stage.game, stage.game.rounds[0], stage.slot) is not None


async def test_a_late_audit_goes_the_same_way(tmp_path: Path) -> None:
    stage = make_stage(is_late=True)
    draw_late(stage)
    drawn = stage.get_drawn(0, 1)
    node = Node(stage, stage.find_auditor(0, 1), tmp_path / "whistleblower")
    assert list_due(node) == [AuditDraw(drawn.place)]
    async with make_solver(stage, tmp_path).run() as solver, node.run():
        vote = await audit(node.room, drawn)
        async with Node(stage, OTHER_SOLVER, tmp_path / "other").run():
            await asyncio.gather(*(duty.perform(node.room) for duty in list_due(node)))
        assert vote is not None and (vote.word, vote.draw) == (VoteWord.ACCEPT, 1)
        assert vote.seed == stage.game.rounds[0].late_seed != stage.game.rounds[0].seed
        [handed] = list_handed(solver)
        assert (handed.draw, handed.is_opened) == (1, True)
    judge(stage, vote)
    assert get_votes(stage.game.rounds[0], stage.slot, 1)[0].word == VoteWord.ACCEPT
