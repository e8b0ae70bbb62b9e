"""Whistleblowers look at the votes that stand by a convicted claim. Whoever signed one shows them its steps,
whatever other members have asked of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.kit.nodes import TASK, get_told
from tests.whistleblower.stage import (
    ONLOOKER,
    OTHER_ONLOOKER,
    VERIFIERS,
    make_vote,
    open_onlooker,
    play_round,
)
from touchstone.node.defending.step_requests import StepsAsked, is_auditor
from touchstone.node.defending.step_serving import compute_place
from touchstone.node.records.heard_statements import KnownVote
from touchstone.node.records.wanted_steps import MAX_GRANTED, Asker
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.timing import get_statement_until
from touchstone.whistleblower.suspicions import list_suspected_faults


@pytest.fixture
def accept() -> KnownVote:
    """A vote for the claim of slot 0."""
    return make_vote(end=b"o" * 32)


def convict(game: GameState) -> GameState:
    """The claim of slot 0 is convicted."""
    one = game.rounds[0]
    claims = {**one.claims, 0: replace(one.claims[0], is_convicted=True)}
    return replace(game, rounds={0: replace(one, claims=claims)})


def ask_for(known: KnownVote, segments_on: int = 0) -> StepsAsked:
    """The question about the segment of a vote, or about a later one."""
    vote = known.vote
    return StepsAsked(TASK, vote.round, vote.slot, vote.segment + segments_on)


async def test_a_whistleblower_is_heard_though_a_member_used_up_the_share_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accept: KnownVote
) -> None:
    """It disputes what it is not shown. If each step is right its bond is lost."""
    fallen = convict(play_round())
    with (
        open_onlooker(tmp_path / "auditor", accept.auditor, fallen) as auditor,
        open_onlooker(tmp_path / "onlooker", ONLOOKER, fallen) as node,
    ):
        for member in (ONLOOKER, OTHER_ONLOOKER):
            auditor.state._seated._members[member, TASK] += 1
        handler = auditor.rooms.tools.cases.step_requests
        for number in range(MAX_GRANTED):
            place = compute_place(auditor.get_view(), 1 + number, 0)
            assert handler.find(Asker(OTHER_ONLOOKER, False), TASK, 0, place) is None
            handler.offer((TASK, 0, place), (bytes([number]) * 192,))

        async def ask(peer: Any, what: Any, asked: Any, form: Any) -> Any:
            return await auditor.rooms.step_answers.answer_steps(ONLOOKER, encode_message(asked))

        monkeypatch.setattr(node.client, "ask", ask)
        get_told(node).votes = [accept]
        (found,) = list_suspected_faults(node.get_view(), 0)
        with pytest.raises(EnvironmentFault, match="not shown now"):
            await node.list_challenges().case_judging.judge_case(found)
        assert list(handler.wanted) == [(TASK, 0, compute_place(auditor.get_view(), 0, accept.vote.segment))]


def test_whistleblowers_ask_as_long_as_a_vote_for_the_convicted_claim_can_be_disputed(
    tmp_path: Path, accept: KnownVote
) -> None:
    game, asked = play_round(), ask_for(accept)
    until = get_statement_until(game, accept.ref)
    other = next(one for one in VERIFIERS if one != accept.auditor)
    with open_onlooker(tmp_path, accept.auditor, game) as node:
        assert not is_auditor(node.get_view(), ONLOOKER, asked), "the claim stands"
        node.state.games[TASK] = cast(Any, convict(game))
        node.state.head_block = until - 1
        assert is_auditor(node.get_view(), ONLOOKER, asked) and is_auditor(
            node.get_view(), OTHER_ONLOOKER, asked
        )
        assert not is_auditor(node.get_view(), other, asked), "a verifier disputes no such vote"
        assert not is_auditor(node.get_view(), accept.auditor, asked), "its own time to ask is over"
        assert not is_auditor(node.get_view(), ONLOOKER, ask_for(accept, 1)), "no vote is about it"
        node.state.head_block = until
        assert not is_auditor(node.get_view(), ONLOOKER, asked)


def test_steps_for_whistleblowers_stay_until_the_vote_can_be_disputed_no_more(
    tmp_path: Path, accept: KnownVote
) -> None:
    """Each whistleblower looks at its own time, and the segment is computed once."""
    game, states = convict(play_round()), (b"s" * 32,)
    until = get_statement_until(game, accept.ref)
    with open_onlooker(tmp_path, accept.auditor, game) as node:
        handler, place = (
            node.rooms.tools.cases.step_requests,
            compute_place(node.get_view(), 0, accept.vote.segment),
        )
        handler.find(Asker(ONLOOKER, True), TASK, 0, place)
        handler.offer((TASK, 0, place), states)
        node.rooms.tools.cases.shown["wanted", states] = frozenset()
        for block, is_shown in ((until, True), (until + 1, False)):
            node.rooms.pruning.forget_steps(game, block)
            assert bool(handler.shown) == bool(node.rooms.tools.cases.shown) == is_shown
