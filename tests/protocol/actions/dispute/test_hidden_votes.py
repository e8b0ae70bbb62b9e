"""Votes that are never opened, or whose start a node was not shown: what the signer shows must be theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.dispute import dispute_opening
from protocol.actions.dispute.casebook import NO_STEP, KnownVote, OwnReplay, name_vote
from protocol.actions.dispute.dispute_opening import (
    Suspicion,
    compute_patience,
    judge_case,
    list_suspicions,
)
from protocol.actions.dispute.step_serving import StepsAsked, StepsShown, answer_steps
from protocol.adapters.messages import encode_message
from protocol.compute.audit.compare import Verdict
from protocol.spec.codec import compute_boundary_leaf, compute_state_root, encode_state
from protocol.spec.errors import ProtocolFault
from protocol.spec.game.auditing import get_heard_until, get_place
from protocol.spec.game.fates import get_drawn_seat
from protocol.spec.game.inner_dispute import AskEnding, InnerAsk, InnerBook
from protocol.spec.game.state import StatementRef
from protocol.spec.statements import VoteWord, compute_seal
from tests.protocol.actions.dispute.stage import (
    ONLOOKER,
    get_known,
    get_solver,
    make_boundary,
    make_header,
    make_vote,
    open_party,
    play_round,
)
from tests.protocol.actions.dispute.test_dispute_opening import START, list_suspected
from tests.protocol.actions.merge.stage import TASK

STATES = [make_header(str(step), step) for step in range(3)]
SALT, SEAL_SALT, OTHER_SALT = (digit * 32 for digit in (b"a", b"b", b"c"))
SALTS = (SALT, OTHER_SALT, SEAL_SALT)
"""An account may have replayed a segment for two draws."""


# --- Whom ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ending", [AskEnding.OPEN, AskEnding.CLEARED])
def test_a_rejection_that_answered_an_ask_and_is_not_opened_is_suspected(
    tmp_path: Path, ending: AskEnding
) -> None:
    """A liar seals the claimed end with one leaf changed, and shows that leaf."""
    hidden, game = make_vote(VoteWord.REJECT_STATE), play_round()
    seat = get_drawn_seat(game, game.rounds[0], 0, 0, 0)
    assert seat is not None
    with open_party(tmp_path) as party:
        assert not list_suspected(party, hidden, beyond_leaf=None)
        ask = InnerAsk(b"a" * 32, seat, hidden.vote, 0, ONLOOKER, 999, ending)
        party.state.inner[TASK] = InnerBook(10, {}, {ask.name: ask})
        found = list_suspected(party, hidden, beyond_leaf=None)
    assert found == ([Suspicion(name_vote(hidden), (START, b""))] if ending == AskEnding.CLEARED else [])


def test_a_rejection_is_suspected_once_openings_are_heard_no_more(tmp_path: Path) -> None:
    """If it counted: an honest one that came too late may have drifted, and harms no claim."""
    hidden, uncounted = make_vote(VoteWord.REJECT_STATE), make_vote(VoteWord.REJECT_STATE, rank=2)
    with open_party(tmp_path) as party:
        until = get_heard_until(play_round(), get_place(hidden.vote))
        for block in (until - 1, until):
            party.state.head_block = block
            found = list_suspected(party, hidden, uncounted, beyond_leaf=None)
            assert found == [Suspicion(name_vote(hidden), (START, b""))] * (block == until)


def test_a_counted_accept_of_a_convicted_claim_is_suspected_though_it_is_not_opened(tmp_path: Path) -> None:
    game, hidden = play_round(), make_vote()
    claims = {**game.rounds[0].claims, 0: replace(game.rounds[0].claims[0], is_convicted=True)}
    fallen = replace(game, rounds={0: replace(game.rounds[0], claims=claims)})
    with open_party(tmp_path, game=fallen) as party:
        get_known(party).votes = [hidden, make_vote(rank=2)]
        assert list(list_suspicions(party, 0)) == [Suspicion(name_vote(hidden), (b"", b""))]


# --- What they show -----------------------------------------------------------------------------------------
def make_bound_vote() -> KnownVote:
    """A vote that is bound to the first and the last of the states."""
    known = make_vote()
    vote, (first, *_, last) = known.vote, map(compute_state_root, STATES)
    leaf = compute_boundary_leaf(vote.domain, 0, get_solver(), vote.segment, SALT, first)
    place = (vote.domain, 0, vote.slot, vote.draw, vote.rank, known.auditor)
    seal = compute_seal(*place, leaf, last, SEAL_SALT)
    return replace(known, vote=replace(vote, start_leaf=leaf, seal=seal))


@pytest.mark.parametrize(
    ("changed", "salts", "is_bound"),
    [(None, SALTS, True), (0, SALTS, False), (2, SALTS, False), (None, (), False), (None, SALTS[:2], False)],
)
async def test_steps_of_a_vote_run_from_its_start_leaf_to_its_seal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: int | None, salts: Any, is_bound: bool
) -> None:
    """Honest steps from a start of the liar's choice clear nobody: it is disputed as if it showed none."""
    known, headers = make_bound_vote(), list(STATES)
    if changed is not None:
        headers[changed] = make_header("another", changed)

    async def show(*_: Any) -> StepsShown:
        return StepsShown(tuple(map(encode_state, headers)), salts)

    async def judge(party: Any, claimed: Any, shown: Any, found: list[Verdict]) -> None:
        found.append(Verdict(False, 0, 0.1))

    monkeypatch.setattr(dispute_opening, "judge_steps", judge)
    with open_party(tmp_path) as party:
        party.client = cast(Any, SimpleNamespace(ask=show))
        get_known(party).votes = [known]
        found = Suspicion(name_vote(known), (b"", b""))
        if is_bound:
            await judge_case(party, found)
            assert found.sentence in party.task.cases.dropped
            return
        with pytest.raises(ProtocolFault, match="bound to"):
            await judge_case(party, found)
        party.state.head_block += compute_patience(party.game.terms) + 1
        await judge_case(party, found)
        assert party.task.cases.cases[found.sentence].step == NO_STEP


async def test_who_shows_steps_of_a_replay_shows_what_binds_them_to_its_votes(tmp_path: Path) -> None:
    vote, start = make_vote().vote, make_boundary("start")
    with open_party(tmp_path, make_vote().auditor) as party:
        get_known(party).replays = [
            OwnReplay(StatementRef(0, 0, draw, 0), segment, start, make_header("own"), None, None, salt)
            for draw, segment, salt in (
                (0, vote.segment, SEAL_SALT),
                (1, vote.segment, OTHER_SALT),
                (0, vote.segment + 1, SALT),
            )
        ]
        party.state._seated._members[ONLOOKER, TASK] += 1
        states = tuple(map(encode_state, STATES))
        party.task.cases.steps[0, 0, vote.segment] = states
        shown = await answer_steps(party, ONLOOKER, encode_message(StepsAsked(TASK, 0, 0, vote.segment)))
    assert shown == StepsShown(states, (start.salt, SEAL_SALT, OTHER_SALT))
