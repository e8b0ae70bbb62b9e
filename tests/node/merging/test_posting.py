"""When votes are handed in and roots are posted, by whom, and with what."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import get_sent
from tests.node.merging.stage import Stage, give, hand, open_stage
from touchstone.node.kit.duty import Wait
from touchstone.node.merging import posting, turns
from touchstone.node.merging.posting import HandVotes, PostMerge
from touchstone.node.merging.turns import compute_rank
from touchstone.node.models.expected_merge import make_key
from touchstone.node.models.outer_step import FetchDelta
from touchstone.node.models.round_judging import find_merge_set, read_place
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.roles.role_nodes import Member

ZERO = bytes(32)


def list_due(node: Member, stage: Stage) -> list[Any]:
    return [
        duty for duty in posting.list_duties(node.get_view(), stage.world.block) if not isinstance(duty, Wait)
    ]


def find_first(stage: Stage) -> Member:
    """The party that is first in the line."""
    return next(
        node for node in stage.nodes.values() if compute_rank(node.get_view(), node.game.rounds[0]) == 0
    )


async def test_a_root_is_due_once_the_votes_at_hand_decide_all_claims(tmp_path: Path) -> None:
    """It goes with these votes, so that they are counted in the call that posts it."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round, first = stage.draw(), find_first(stage)
        await stage.fetch_all(1, 2, 3)
        give(first, hand(0), hand(1))
        assert not list_due(first, stage)
        give(first, hand(0), hand(1), hand(2))
        duty = PostMerge(make_key(game_round, (0, 1, 2)))
        assert list_due(first, stage) == [duty]
        for node in stage.nodes.values():
            give(node, hand(0), hand(1), hand(2))
            await node.rooms.outer_steps.merge_claims(duty.key)
        await duty.perform(first.rooms.posting)
        ((name, sent),) = get_sent(first)
        assert name == "game.judge_and_post"
        assert [read_place(one) for one in sent[2]] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
        assert (sent[3], sent[4]) == ([], 0b111) and len(sent[7]) == 64 * sent[6].bit_count() >= 128


async def test_votes_that_do_not_fit_beside_the_root_go_in_before_it(tmp_path: Path) -> None:
    """By turns: who finds out that they are too many sends nothing, so no two nodes hand in the same."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round, first = stage.draw(), find_first(stage)
        await stage.fetch_all(1, 2, 3)
        duty = PostMerge(make_key(game_round, (0, 1, 2)))
        for node in stage.nodes.values():
            give(node, hand(0), hand(1), hand(2))
            await node.rooms.outer_steps.merge_claims(duty.key)
            node.chain.item_gas = 4_000_000  # type: ignore[attr-defined]
        assert list_due(first, stage) == [duty]
        await duty.perform(first.rooms.posting)
        assert get_sent(first) == []
        (alone,) = list_due(first, stage)
        assert alone == HandVotes(0, 3)
        await alone.perform(first.rooms.posting)
        ((name, sent),) = get_sent(first)
        assert name == "game.judge" and [read_place(one) for one in sent[2]] == [(0, 0, 0), (1, 0, 0)]
        # The chain has counted those two.
        give(first, hand(2))
        stage.accept(0, 0, 1)
        assert list_due(first, stage) == [duty]
        await duty.perform(first.rooms.posting)
        assert get_sent(first)[-1][0] == "game.judge_and_post"


async def test_a_rejected_claim_is_left_out_and_nothing_is_posted_where_none_is_left(tmp_path: Path) -> None:
    """Where nothing can be merged the votes go in alone, and the base root stands at once."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round, first = stage.draw(), find_first(stage)
        await stage.fetch_all(1, 2, 3)
        against = [hand(2, VoteWord.REJECT_STATE, rank) for rank in (0, 1)]
        give(first, hand(0), hand(1), *against)
        assert list_due(first, stage) == [PostMerge(make_key(game_round, (0, 1)))]
        give(first, *(hand(s, VoteWord.REJECT_STATE, rank) for s in range(3) for rank in (0, 1)))
        assert find_merge_set(first.get_view(), game_round, stage.world.block).slots == ()
        assert list_due(first, stage) == [HandVotes(0, 6)]


async def test_who_shows_its_work_to_auditors_alone_keeps_nobody_from_merging(tmp_path: Path) -> None:
    """Its claim is accepted and nobody else has its pseudo-gradient. The others wait for it, then they merge
    and sign without it."""
    async with open_stage(tmp_path, 1, 2) as stage:
        async with stage.open(3):
            await stage.commit(1, 2, 3)
        game_round, first = stage.draw(), stage.nodes[1]
        stage.accept(0, 1, 2)
        slots = tuple(sorted((stage.get_slot(1), stage.get_slot(2))))
        for node in stage.nodes.values():
            for slot in slots:
                await FetchDelta(0, slot, game_round.claims[slot].claim_root).perform(node.rooms.outer_steps)
        with pytest.raises((EnvironmentFault, ProtocolFault)):
            await FetchDelta(0, stage.get_slot(3), game_round.claims[stage.get_slot(3)].claim_root).perform(
                first.rooms.outer_steps
            )
        windows, closed = stage.world.state.terms.windows, game_round.closed or 0
        last = closed + windows.audit_max + windows.post - 1
        [wait] = posting.list_duties(first.get_view(), stage.world.block)
        assert isinstance(wait, Wait) and stage.world.block < wait.block < last
        key, due = make_key(game_round, slots), set[Any]()
        for block in range(wait.block, last + 1):
            stage.world.jump(block)
            stage.sync()
            due |= {duty for node in stage.nodes.values() for duty in list_due(node, stage)}
        assert due == {PostMerge(key)}, "whoever of the three comes first in the line"
        for node in stage.nodes.values():
            await node.rooms.outer_steps.merge_claims(key)
        await PostMerge(key).perform(first.rooms.posting)
        ((name, sent),) = get_sent(first)
        assert name == "game.post" and sent[2] == sum(1 << slot for slot in slots)


async def test_solvers_take_turns(tmp_path: Path) -> None:
    """The second waits until the first has had its time, then it does the same."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        stage.draw()
        await stage.fetch_all(1, 2, 3)
        by_rank = sorted(
            stage.nodes.values(), key=lambda node: compute_rank(node.get_view(), node.game.rounds[0])
        )
        for node in by_rank:
            give(node, hand(0), hand(1), hand(2))
        assert [len(list_due(node, stage)) for node in by_rank] == [1, 0, 0]
        stage.world.jump(stage.world.block + turns.SPREAD_BLOCKS)
        stage.sync()
        assert [len(list_due(node, stage)) for node in by_rank] == [1, 1, 0]


async def test_in_the_second_half_of_its_window_everybody_posts(tmp_path: Path) -> None:
    """However many before it in the line are silent."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round = stage.draw()
        await stage.fetch_all(1, 2, 3)
        last = stage.world.block + 2
        for node in stage.nodes.values():
            due = list(
                turns.take_turn(node.get_view(), game_round, "x", stage.world.block, HandVotes(0, 1), last)
            )
            waits = [turn.block for turn in due if isinstance(turn, Wait)]
            assert not waits or waits == [stage.world.block + 1]


async def test_votes_go_in_alone_before_they_would_come_too_late(tmp_path: Path) -> None:
    """One claim stays undecided: a root waits for it until the last, the votes of the others must not."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round, first = stage.draw(), find_first(stage)
        give(first, hand(0), hand(1))
        closed, audit_max = game_round.closed or 0, stage.world.state.terms.windows.audit_max
        waits = [duty.block for duty in posting.list_duties(first.get_view(), stage.world.block)]  # type: ignore[union-attr]
        assert waits and closed < waits[0] < closed + audit_max
        stage.world.jump(waits[0])
        stage.sync()
        assert list_due(first, stage) == [HandVotes(0, 2)]


async def test_no_two_hand_in_the_same_votes_at_once_whenever_they_came(tmp_path: Path) -> None:
    """Each node has other votes, and some come late: in each block it is the turn of one, and all come to
    theirs before the votes would be too late."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round = stage.draw()
        deadline = (game_round.closed or 0) + stage.world.state.terms.windows.audit_max - 3
        turns = []
        for block in range(deadline, deadline + 4):
            stage.world.jump(block)
            stage.sync()
            for count, node in enumerate(stage.nodes.values()):
                give(node, hand(0), *[hand(1)] * ((count + block) % 2))
            turns.append([seed for seed, node in stage.nodes.items() if list_due(node, stage)])
        assert all(len(one) <= 1 for one in turns) and {one for turn in turns for one in turn} == {1, 2, 3}


async def test_openings_that_came_after_the_decision_are_handed_in_for_their_pay(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        stage.draw()
        stage.accept(0, 1, 2)
        stage.world.send(calls.PostRoot(0, (0, 1, 2), ZERO[:31] + b"\1", (1 << 16, (1 << 16) + 1)), "anybody")
        stage.sync()
        first = find_first(stage)
        give(first, hand(0, is_opened=False), hand(1, is_opened=False), hand(2, is_opened=False))
        assert not list_due(first, stage)
        give(first, hand(0), hand(1), hand(2))
        assert list_due(first, stage) == [HandVotes(0, 3)]
