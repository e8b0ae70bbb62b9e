"""Votes that are never opened, or whose start a node was not shown: what the signer shows must be theirs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK, get_told
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import make_word
from tests.whistleblower.stage import (
    ONLOOKER,
    get_solver,
    make_boundary,
    make_header,
    make_vote,
    open_onlooker,
    play_round,
)
from tests.whistleblower.test_dispute_opening import START, list_suspected
from touchstone.node.defending.step_requests import StepsAsked, StepsShown
from touchstone.node.records.dispute_records import NO_STEP, name_vote
from touchstone.node.records.heard_statements import KnownVote, OwnReplay
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.compute.tolerance.compare import Verdict
from touchstone.protocol.spec.claim_tree import compute_claim_root
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root, encode_state
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.audit_deadlines import get_heard_until
from touchstone.protocol.spec.game.drawn_audits import get_place
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerQuery, QueryEnding
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.merkle import compute_levels, compute_path
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord, compute_seal
from touchstone.whistleblower.case_judging import compute_grace_blocks
from touchstone.whistleblower.step_judging import StepJudging
from touchstone.whistleblower.suspicions import SuspectedFault, list_suspected_faults

SALT, SEAL_SALT, OTHER_SALT = (digit * 32 for digit in (b"a", b"b", b"c"))
SALTS = (SALT, OTHER_SALT, SEAL_SALT)
"""An account may have replayed a segment for two draws."""


# Whom
@pytest.mark.parametrize("ending", [QueryEnding.OPEN, QueryEnding.CLEARED])
def test_a_rejection_that_answered_an_ask_and_is_not_opened_is_suspected(
    tmp_path: Path, ending: QueryEnding
) -> None:
    """A liar seals the claimed end with one leaf changed, and shows that leaf."""
    hidden, game = make_vote(VoteWord.REJECT_STATE), play_round()
    seat = get_drawn_seat(game, game.rounds[0], 0, 0, 0)
    assert seat is not None
    with open_onlooker(tmp_path) as node:
        assert not list_suspected(node, hidden, excess_leaf=None)
        ask = InnerQuery(b"a" * 32, seat, hidden.vote, 0, ONLOOKER, 999, ending)
        node.state.inner[TASK] = InnerBook(10, {}, {ask.name: ask})
        found = list_suspected(node, hidden, excess_leaf=None)
    assert found == (
        [SuspectedFault(name_vote(hidden), (START, b""))] if ending == QueryEnding.CLEARED else []
    )


def test_a_rejection_is_suspected_once_openings_are_heard_no_more(tmp_path: Path) -> None:
    """If it counted: an honest one that came too late may have drifted, and harms no claim."""
    hidden, uncounted = make_vote(VoteWord.REJECT_STATE), make_vote(VoteWord.REJECT_STATE, rank=2)
    with open_onlooker(tmp_path) as node:
        until = get_heard_until(play_round(), get_place(hidden.vote))
        for block in (until - 1, until):
            node.state.head_block = block
            found = list_suspected(node, hidden, uncounted, excess_leaf=None)
            assert found == [SuspectedFault(name_vote(hidden), (START, b""))] * (block == until)


def test_a_counted_accept_of_a_convicted_claim_is_suspected_though_it_is_not_opened(tmp_path: Path) -> None:
    game, hidden = play_round(), make_vote()
    claims = {**game.rounds[0].claims, 0: replace(game.rounds[0].claims[0], is_convicted=True)}
    fallen = replace(game, rounds={0: replace(game.rounds[0], claims=claims)})
    with open_onlooker(tmp_path, game=fallen) as node:
        get_told(node).votes = [hidden, make_vote(rank=2)]
        assert list(list_suspected_faults(node.get_view(), 0)) == [
            SuspectedFault(name_vote(hidden), (b"", b""))
        ]


# What they show
@dataclass(frozen=True)
class Bound:
    """A vote of a round that is bound to the first and the last of `states`. path: of its start's boundary in
    the claim's tree."""

    game: GameState
    known: KnownVote
    states: list[StateHeader]
    path: tuple[bytes, ...]


def bind(states: list[StateHeader], claimed: StateHeader | None = None) -> Bound:
    """claimed: the start that the claim has; None: the one of the vote."""
    known, claim = make_vote(), play_round().rounds[0].claims[0]
    vote, (first, *_, last) = known.vote, map(compute_state_root, states)
    place = (vote.domain, 0, get_solver(), vote.segment, SALT)
    leaves = [make_word("leaf", number) for number in range(claim.segments + 2)]
    leaves[vote.segment] = compute_boundary_leaf(*place, compute_state_root(claimed or states[0]))
    root, path = compute_claim_root(leaves), compute_path(compute_levels(leaves), vote.segment)
    game_round = play_round().rounds[0]
    claims = {**game_round.claims, 0: replace(claim, claim_root=root)}
    leaf = compute_boundary_leaf(*place, first)
    sealed = (vote.domain, 0, vote.slot, vote.draw, vote.rank, known.auditor)
    seal = compute_seal(*sealed, leaf, last, SEAL_SALT)
    vote = replace(vote, claim_root=root, start_leaf=leaf, seal=seal)
    game = replace(play_round(), rounds={0: replace(game_round, claims=claims)})
    return Bound(game, replace(known, vote=vote), states, tuple(path))


def list_states(name: str = "", local: int = 0, later: int = 0) -> list[StateHeader]:
    """k + 1 states of the vote's segment. local, later: so many local and global steps too many."""
    first = make_vote().vote.segment * get_spec().terms.segment_steps
    steps = range(first, first + get_spec().terms.segment_steps + 1)
    made = ((make_header(f"{name}{step}"), step) for step in steps)
    return [replace(one, local_step=step + local, global_step=step + later) for one, step in made]


async def is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch, bound: Bound, shown: StepsShown) -> bool:
    """Whether the steps are judged, which find nothing wrong; else the vote is disputed in the end as if its
    signer had shown none."""

    async def show(*_: Any) -> StepsShown:
        return shown

    async def judge(judging: StepJudging, claimed: Any, headers: Any, found: list[Verdict]) -> None:
        found.append(Verdict(False, 0, 0.1))

    monkeypatch.setattr(StepJudging, "judge_steps", judge)
    with open_onlooker(folder, game=bound.game) as node:
        monkeypatch.setattr(node.client, "ask", show)
        get_told(node).votes = [bound.known]
        found = SuspectedFault(name_vote(bound.known), (b"", b""))
        with suppress(ProtocolFault):
            await node.list_challenges().case_judging.judge_case(found)
        if found.statement_key in node.rooms.tools.cases.dropped:
            return True
        node.state.head_block += compute_grace_blocks(node.game.terms) + 1
        await node.list_challenges().case_judging.judge_case(found)
        assert node.rooms.tools.cases.cases[found.statement_key].step == NO_STEP
        return False


def notify(states: list[StateHeader], salts: tuple[bytes, ...], path: tuple[bytes, ...]) -> StepsShown:
    return StepsShown(tuple(map(encode_state, states)), salts, path)


@pytest.mark.parametrize(
    ("changed", "salts", "is_bound"),
    [(None, SALTS, True), (0, SALTS, False), (-1, SALTS, False), (None, (), False), (None, SALTS[:2], False)],
)
async def test_steps_of_a_vote_run_from_its_start_leaf_to_its_seal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: int | None, salts: Any, is_bound: bool
) -> None:
    """Honest steps from a start of the liar's choice clear nobody: it is disputed as if it showed none."""
    bound, shown = bind(list_states()), list_states()
    if changed is not None:
        shown[changed] = list_states("another")[changed]
    assert await is_shown(tmp_path, monkeypatch, bound, notify(shown, salts, bound.path)) == is_bound


@pytest.mark.parametrize(("accepted", "is_right"), [(None, True), ("another", False)])
async def test_in_an_exact_task_steps_of_an_accept_end_where_the_claim_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: str | None, is_right: bool
) -> None:
    """Its signer may have replayed honestly and accepted another end: each of its steps is right."""
    bound = bind(list_states())
    vote, end = bound.known.vote, list_states(accepted or "")[-1]
    place = (vote.domain, 0, get_solver(), vote.segment + 1, OTHER_SALT)
    vote = replace(vote, end_leaf=compute_boundary_leaf(*place, compute_state_root(end)))
    terms = replace(bound.game.terms, is_exact=True)
    exact = replace(bound, game=replace(bound.game, terms=terms), known=replace(bound.known, vote=vote))
    shown = notify(bound.states, (SALT, SEAL_SALT, OTHER_SALT), bound.path)
    assert await is_shown(tmp_path, monkeypatch, exact, shown) == is_right
    saltless = notify(bound.states, shown.salts[:2], bound.path)
    assert not await is_shown(tmp_path / "no salt", monkeypatch, exact, saltless)


@pytest.mark.parametrize("has_path", [False, True])
async def test_a_vote_that_names_another_start_than_the_claim_has_is_disputed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_path: bool
) -> None:
    """Its signer replayed nothing: from zeros each step gives zeros. On chain it can post no roots."""
    bound = bind(list_states("zeros"), claimed=list_states("claimed")[0])
    shown = notify(bound.states, SALTS, bound.path if has_path else ())
    assert not await is_shown(tmp_path, monkeypatch, bound, shown)


async def test_a_start_without_its_path_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = bind(list_states())
    assert not await is_shown(tmp_path, monkeypatch, bound, notify(bound.states, SALTS, ()))


@pytest.mark.parametrize(
    ("local", "later", "is_placed"),
    [
        (0, 0, True),
        (-1, 0, True),
        (1, 0, False),
        (0, 1, False),
        (0, get_spec().training.schedule.total_steps, False),
    ],
)
async def test_steps_have_the_numbers_of_their_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: int, later: int, is_placed: bool
) -> None:
    """Also where the claim itself has others: behind the end of the schedule no step could be judged."""
    bound = bind(list_states(local=local, later=later))
    assert await is_shown(tmp_path, monkeypatch, bound, notify(bound.states, SALTS, bound.path)) == is_placed


@pytest.mark.parametrize("is_exact", [False, True])
async def test_who_shows_steps_of_a_replay_shows_what_binds_them_to_its_votes(
    tmp_path: Path, is_exact: bool
) -> None:
    vote, start, end = make_vote().vote, make_boundary("start"), make_boundary("end")
    game = replace(play_round(), terms=replace(play_round().terms, is_exact=is_exact))
    with open_onlooker(tmp_path, make_vote().auditor, game) as node:
        get_told(node).replays = [
            OwnReplay(StatementRef(0, 0, draw, 0), segment, start, make_header("own"), end, None, salt)
            for draw, segment, salt in (
                (0, vote.segment, SEAL_SALT),
                (1, vote.segment, OTHER_SALT),
                (0, vote.segment + 1, SALT),
            )
        ]
        node.state._seated._members[ONLOOKER, TASK] += 1
        states = tuple(map(encode_state, list_states()))
        node.rooms.tools.cases.steps[0, 0, vote.segment] = states
        shown = await node.rooms.step_answers.answer_steps(
            ONLOOKER, encode_message(StepsAsked(TASK, 0, 0, vote.segment))
        )
    salts = (start.salt, SEAL_SALT, OTHER_SALT, *[end.salt] * is_exact)
    assert shown == StepsShown(states, salts, start.path)
