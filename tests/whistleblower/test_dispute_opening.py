"""From a suspicion to a dispute: whom a node suspects, what it drops as drift, and what it opens once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK, get_sent, get_told
from tests.whistleblower.stage import (
    ONLOOKER,
    OTHER_ONLOOKER,
    VERIFIERS,
    make_boundary,
    make_header,
    make_vote,
    open_onlooker,
    play_round,
)
from touchstone.node.kit.bonds import SPARE_BONDS
from touchstone.node.records.dispute_records import (
    NO_STEP,
    DisputePlanned,
    DisputeRecords,
    StatementKey,
    list_fields,
    name_vote,
)
from touchstone.node.records.heard_statements import KnownVote, OwnReplay
from touchstone.protocol.compute.tolerance.compare import Verdict
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.audit_deadlines import get_heard_until
from touchstone.protocol.spec.game.drawn_audits import get_place
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerBook, InnerDispute
from touchstone.protocol.spec.game.state import GameState, RunningDispute, StatementRef
from touchstone.protocol.spec.game.timing import get_statement_until
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower.case_judging import OPENING_BLOCKS, compute_grace_blocks
from touchstone.whistleblower.dispute_opening import list_unopened
from touchstone.whistleblower.step_judging import StepJudging
from touchstone.whistleblower.suspicions import SuspectedFault, list_suspected_faults

CLAIM = StatementRef(0, 0)
SEGMENT = make_vote().vote.segment
START, END, OWN = (compute_state_root(make_header(name)) for name in ("start", "end", "own"))
CLAIMED = StatementKey(CLAIM, SEGMENT)
FOUND = SuspectedFault(CLAIMED, (START, END))


def make_replay(excess_leaf: int | None) -> OwnReplay:
    """The node's own replay of the claim's drawn segment."""
    ends = make_header("own"), make_boundary("end")
    return OwnReplay(StatementRef(0, 0, 0, 2), SEGMENT, make_boundary("start"), *ends, excess_leaf, b"s" * 32)


def list_suspected(node: Member, *votes: KnownVote, excess_leaf: int | None) -> list[SuspectedFault]:
    """By a replay with this finding, given these votes."""
    get_told(node).votes, get_told(node).replays = list(votes), [make_replay(excess_leaf)]
    return list(list_suspected_faults(node.get_view(), 0))


# Whom
def test_a_replay_accuses_the_claim_and_who_came_to_its_end_or_else_who_rejects_it(tmp_path: Path) -> None:
    """An end that is the claim's or this node's own is no lie of the auditor."""
    follower, honest, hidden = make_vote(end=END), make_vote(rank=1, end=OWN), make_vote(rank=2)
    with open_onlooker(tmp_path) as node:
        found = list_suspected(node, follower, honest, hidden, excess_leaf=3)
    assert found == [FOUND, SuspectedFault(name_vote(follower), (START, END))]
    false_rejection = make_vote(VoteWord.REJECT_STATE, end=b"x" * 32)
    others = [make_vote(VoteWord.REJECT_STATE, rank=1, end=end) for end in (END, OWN)]
    accept, elsewhere = (
        make_vote(rank=2, end=b"x" * 32),
        replace(false_rejection, vote=replace(false_rejection.vote, slot=1)),
    )
    with open_onlooker(tmp_path) as node:
        found = list_suspected(node, false_rejection, *others, accept, elsewhere, excess_leaf=None)
    assert found == [SuspectedFault(name_vote(false_rejection), (START, b"x" * 32))]


def make_exact(game: GameState) -> GameState:
    return replace(game, terms=replace(game.terms, is_exact=True))


def test_in_an_exact_task_an_accept_of_a_false_end_is_suspected_though_it_is_not_opened(
    tmp_path: Path,
) -> None:
    """Its signer may have replayed honestly: no step is false, and no ask shows that the word is."""
    hidden, uncounted = make_vote(), make_vote(rank=2)
    expected = [FOUND, SuspectedFault(name_vote(hidden), (START, END))]
    with open_onlooker(tmp_path, game=make_exact(play_round())) as node:
        assert list_suspected(node, hidden, uncounted, excess_leaf=0) == expected


async def test_in_an_exact_task_a_rejection_of_the_own_end_is_disputed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It voids an honest claim. Each of its steps is right; on chain its signer can post no such roots."""
    false_rejection = make_vote(VoteWord.REJECT_STATE)

    async def show(*arguments: Any) -> list[Any]:
        return [make_header(name) for name in ("start", "middle", "end")]

    async def judge(judging: StepJudging, claimed: Any, headers: Any, found: list[Verdict]) -> None:
        found += [Verdict(False, 0, 0.0)] * 2

    monkeypatch.setattr(StepJudging, "ask_headers", show)
    monkeypatch.setattr(StepJudging, "judge_steps", judge)
    with open_onlooker(tmp_path, game=make_exact(play_round())) as node:
        node.state.head_block = get_heard_until(play_round(), get_place(false_rejection.vote))
        [found] = list_suspected(node, false_rejection, excess_leaf=None)
        with pytest.raises(ProtocolFault, match="end in the claimed state"):
            await node.list_challenges().case_judging.judge_case(found)
        node.state.head_block += compute_grace_blocks(node.game.terms) + 1
        await node.list_challenges().case_judging.judge_case(found)
        assert node.rooms.tools.cases.cases[name_vote(false_rejection)].step == NO_STEP


@pytest.mark.parametrize(("account", "is_looked_at"), [(ONLOOKER, True), (VERIFIERS[0], False)])
def test_whistleblowers_look_at_who_accepted_a_claim_that_was_convicted(
    tmp_path: Path, account: str, is_looked_at: bool
) -> None:
    game, accept = play_round(), make_vote(end=OWN)
    claims = {**game.rounds[0].claims, 0: replace(game.rounds[0].claims[0], is_convicted=True)}
    fallen = replace(game, rounds={0: replace(game.rounds[0], claims=claims)})
    with open_onlooker(tmp_path, account, fallen) as node:
        get_told(node).votes = [accept, make_vote(slot=1, end=OWN)]
        expected = [SuspectedFault(name_vote(accept), (b"", OWN))] if is_looked_at else []
        assert list(list_suspected_faults(node.get_view(), 0)) == expected


# Judging
@pytest.mark.parametrize("beyond", [None, 1])
async def test_a_claim_whose_every_step_lies_inside_the_limits_is_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int | None
) -> None:
    """It is dropped for ever, also after a restart. With one step beyond it is a case."""

    states = [make_header(str(step)) for step in range(3)]

    async def show(*arguments: Any) -> list[Any]:
        return states

    async def judge(judging: StepJudging, claimed: Any, headers: Any, found: list[Verdict]) -> None:
        found += [Verdict(False, 0, 0.1), Verdict(beyond == 1, 0, 2.0)]

    monkeypatch.setattr(StepJudging, "ask_headers", show)
    monkeypatch.setattr(StepJudging, "judge_steps", judge)
    with open_onlooker(tmp_path) as node:
        await node.list_challenges().case_judging.judge_case(FOUND)
        again = DisputeRecords(node.journal, TASK)
        assert again.dropped == (set() if beyond else {CLAIMED})
        made = {one: (case.step, case.before, case.after) for one, case in again.cases.items()}
        around = map(compute_state_root, states[1:])
        assert made == ({CLAIMED: (beyond, *around)} if beyond else {})


async def test_who_shows_no_steps_is_disputed_after_a_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def show_nothing(*arguments: Any) -> list[Any]:
        raise EnvironmentFault(what="silent", expected="", actual="", remedy="")

    monkeypatch.setattr(StepJudging, "ask_headers", show_nothing)
    with open_onlooker(tmp_path) as node:
        since, share = node.state.head_block, compute_grace_blocks(node.game.terms)
        train_min, count = node.game.terms.windows.train_min, node.game.terms.segment_count
        assert share * count > 2 * train_min, "the slowest machine can train the segment meanwhile"
        for block in (since, since + share):
            node.state.head_block = block
            with pytest.raises(EnvironmentFault, match="silent"):
                await node.list_challenges().case_judging.judge_case(FOUND)
        assert not node.rooms.tools.cases.cases
        node.state.head_block = since + share + 1
        await node.list_challenges().case_judging.judge_case(FOUND)
        assert node.rooms.tools.cases.cases[CLAIMED].step == NO_STEP


# Opening
def make_case(step: int = 1) -> DisputePlanned:
    return DisputePlanned(TASK, *list_fields(CLAIMED), step, b"", b"", b"c" * 32)


def is_due(node: Member, **changes: Any) -> bool:
    """Whether the node opens its case where there is another dispute on the claim, with these changes."""
    case, respond = make_case(), node.game.terms.windows.respond
    clock = get_statement_until(node.game, CLAIM) - 2 * respond - OPENING_BLOCKS - 1
    other = InnerDispute(
        b"d" * 32, node.game.rounds[0].claims[0].seat, CLAIM, SEGMENT, OTHER_ONLOOKER, clock,
        stage=DisputeStage.PROVE, step=case.step,
    )  # fmt: skip
    node.rooms.tools.cases.write(case)
    node.state.inner[TASK] = InnerBook(respond, {other.name: replace(other, **changes)})
    return list(list_unopened(node.get_view(), node.state.head_block + 1)) == [case]


def test_a_case_is_opened_unless_a_dispute_pursues_it_as_the_node_would(tmp_path: Path) -> None:
    """A friend of the liar may open one first, to name another step, or to let the time run out."""
    with open_onlooker(tmp_path) as node:
        assert not is_due(node)
        assert is_due(node, step=0), "it names another step"
        assert is_due(node, segment=SEGMENT + 1)
        assert is_due(node, statement=StatementRef(0, 0, 0, 0)), "it is about a vote"
        assert is_due(node, stage=DisputeStage.CLEARED)
        assert not is_due(node, stage=DisputeStage.CLEARED, opener=ONLOOKER), "once is enough"
        clock = get_statement_until(node.game, CLAIM) - 2 * node.game.terms.windows.respond
        assert is_due(node, clock=clock - OPENING_BLOCKS), "it may end too late for an own one"


async def test_the_bond_counts_the_open_disputes_on_the_same_seat(tmp_path: Path) -> None:
    """The salt is that of the case: a call that is repeated opens the same dispute, not a second one."""
    game, bond_wei = play_round(), play_round().terms.amounts.dispute_bond
    seat, case = game.rounds[0].claims[0].seat, make_case()
    for count in range(3):
        running = {n: RunningDispute(n, CLAIM, seat, OTHER_ONLOOKER, 9_999) for n in range(count)}
        running[99] = RunningDispute(99, StatementRef(0, 1), game.rounds[0].claims[1].seat, "other", 9_999)
        with open_onlooker(tmp_path / str(count), game=replace(game, disputes=running)) as node:
            await node.list_challenges().dispute_opening.open_case(case)
            (sent,) = get_sent(node)
        limit_wei = (count + 1 + SPARE_BONDS) * bond_wei
        assert sent == ("game.dispute_claim", (TASK, 0, 0, SEGMENT, limit_wei, case.salt))
