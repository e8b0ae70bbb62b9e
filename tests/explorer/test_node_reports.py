"""What nodes report: who is asked, what of the answers is kept, and where the pages show it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.explorer.many_accounts import DEPLOYMENT, make_chain, make_head
from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.simulation import make_word
from tests.verifier.stage import (
    OTHER_SOLVER,
    SIGNING,
    SOLVER,
    TASK,
    Node,
    Stage,
    Twist,
    get_account,
    judge,
    make_solver,
    make_stage,
)
from touchstone.explorer import node_reports
from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.names import Names
from touchstone.explorer.node_reports import FIRST_PAUSE_S, NODES_A_LOOK, Asked, Pause, Question, ReportAsker
from touchstone.explorer.report_documents import HELDOUT, LOSS, SUBMITTER, Reported, make_losses
from touchstone.explorer.report_documents import make_heldout as show_heldout
from touchstone.node.serving.distance_reports import list_unreported, report_distances
from touchstone.protocol.adapters.keys.signatures import sign_statement
from touchstone.protocol.adapters.reports.round_reports import (
    HeldoutSaid,
    LossSaid,
    ReportClient,
    ReportsSaid,
    format_heldout,
    format_loss,
)
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.game.drawn_audits import COMPARED_ENDS
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.signed_reports import HeldoutReport, LossReport
from touchstone.protocol.spec.statements import VoteWord
from touchstone.verifier.replaying import audit


@pytest.fixture
def stage() -> Stage:
    """Round 0 is closed, and one solver has a claim in it."""
    return make_stage()


@pytest.fixture
def view(stage: Stage, tmp_path: Path) -> Iterator[ChainView]:
    """A view of the stage's chain."""
    chain = SimpleNamespace(**{**vars(make_chain()), "signing": SIGNING})
    index = EventIndex(tmp_path / "index.sqlite", DEPLOYMENT)
    shown = ChainView(cast(Any, chain), index, Names({}))
    shown.state.network.peers = stage.peers
    sync(shown, stage)
    yield shown
    index.close()


def sync(view: ChainView, stage: Stage) -> None:
    """The view has read the chain."""
    view.state.games[TASK] = cast(Any, stage.world.state)
    view.head, view.state.head_block = make_head(stage.head), stage.head


def make_loss(stage: Stage, seed: int = SOLVER, **changes: Any) -> LossSaid:
    """What the solver of the claim reports, signed by a key."""
    figures = (8, 5_557_000, 3_058_000, 4_100_000)
    report = LossReport(stage.game.terms.domain, 0, stage.slot, stage.claim.root, *figures)
    report = replace(report, **changes)
    return format_loss(report, sign_statement(make_key(seed), report, SIGNING))


def answer(node: Node, *said: LossSaid) -> list[tuple[bytes, int]]:
    """The node answers so; what it was asked."""
    asked: list[tuple[bytes, int]] = []
    left = list(said)

    def get_reports(task: bytes, index: int) -> ReportsSaid:
        asked.append((task, index))
        return ReportsSaid(left.pop(0) if len(left) > 1 else left[0]) if left else ReportsSaid()

    node.get_reports = get_reports  # type: ignore[method-assign]
    return asked


@dataclass(frozen=True)
class Looking:
    """An asker that looks when the test says so."""

    asker: ReportAsker
    client: ReportClient

    async def look(self) -> list[Question]:
        """Ask for what is missing; the questions."""
        chosen = self.asker.choose()
        await asyncio.gather(*(self.asker.ask(self.client, one) for one in chosen))
        return chosen

    def get_pause(self, *key: object) -> Pause:
        return self.asker.pauses[key]


@asynccontextmanager
async def open_asker(view: ChainView) -> AsyncIterator[Looking]:
    """Nodes are on this machine."""
    async with ReportClient(are_private_asked=True) as client:
        yield Looking(ReportAsker(view), client)


# Who is asked
async def test_a_solver_is_asked_once_its_round_is_closed_and_no_other_account_is(
    view: ChainView, stage: Stage
) -> None:
    """An announced endpoint alone is no reason to connect there."""
    for account in (get_account(SOLVER), get_account(OTHER_SOLVER), "0x" + "77" * 20):
        stage.peers[account] = Peer(account, "https://203.0.113.7", bytes(32))
    asker = ReportAsker(view)
    assert [(one.account, one.round, one.places) for one in asker.choose()] == [
        (get_account(SOLVER), 0, frozenset({(stage.slot, LOSS, 0), (stage.slot, HELDOUT, 0)}))
    ]
    state = stage.world.state
    running = replace(state.rounds[0], closed=None, seed=None, trained_from=None)
    view.state.games[TASK] = cast(Any, replace(state, rounds={0: running}))
    assert not asker.choose()
    view.state.games[TASK] = cast(Any, replace(state, is_closed=True))
    assert not asker.choose(), "its nodes have ended"
    sync(view, stage)
    view.fault = "the chain is silent"
    assert not asker.choose()
    view.fault = ""
    assert asker.choose()
    del stage.peers[get_account(SOLVER)]
    assert not asker.choose()


def vote_on(stage: Stage, view: ChainView, word: VoteWord) -> None:
    """The primary's vote counts; all auditors have an endpoint."""
    for seed in range(11, 17):
        stage.peers[get_account(seed)] = Peer(get_account(seed), "https://203.0.113.7", bytes(32))
    view.state.network.peers = stage.peers
    drawn = stage.get_drawn()
    vote = SimpleNamespace(
        slot=stage.slot, draw=0, rank=0, claim_root=stage.claim.root, seed=drawn.place.seed,
        segment=drawn.segment, word=word,
    )  # fmt: skip
    judge(stage, cast(Any, vote))
    stage.settle()
    sync(view, stage)


async def test_an_auditor_is_asked_once_its_segment_is_for_everybody(view: ChainView, stage: Stage) -> None:
    asker, drawn = ReportAsker(view), stage.get_drawn()
    vote_on(stage, view, VoteWord.ACCEPT)
    assert not asker.choose(), "the last block of the votes"
    stage.world.jump(stage.head + 1)
    sync(view, stage)
    found = {one.account: one.places for one in asker.choose()}
    assert found[drawn.seat.account] == frozenset({(stage.slot, 0, 0)})
    state = stage.world.state
    for phase in (RoundPhase.FALLEN, RoundPhase.UNDONE, RoundPhase.RUNNING):
        stage.world.state = replace(state, rounds={0: replace(state.rounds[0], phase=phase)})
        sync(view, stage)
        assert not asker.choose(), phase


@pytest.mark.parametrize("word", [*(word for word in VoteWord if word not in COMPARED_ENDS), None])
async def test_an_auditor_that_compared_nothing_or_did_not_vote_is_not_asked(
    view: ChainView, stage: Stage, word: VoteWord | None
) -> None:
    if word is not None:
        vote_on(stage, view, word)
        assert stage.game.rounds[0].votes
    else:
        vote_on(make_stage(), view, VoteWord.ACCEPT)
        stage.settle()
    stage.world.jump(stage.head + 1)
    sync(view, stage)
    assert not ReportAsker(view).choose()


async def test_no_more_nodes_are_asked_at_once_than_a_few(
    view: ChainView, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = [f"0x{number:040x}" for number in range(3 * NODES_A_LOOK)]
    for account in accounts:
        stage.peers[account] = Peer(account, "https://203.0.113.7", bytes(32))
    reporters = [(account, (stage.slot, LOSS, 0), b"") for account in accounts * 2]
    monkeypatch.setattr(node_reports, "list_reporters", lambda *_: reporters)
    assert len({one.account for one in ReportAsker(view).choose()}) == NODES_A_LOOK


# What is kept
async def test_a_signed_report_is_kept_and_the_node_is_asked_no_more(
    view: ChainView, stage: Stage, tmp_path: Path
) -> None:
    async with make_solver(stage, tmp_path).run() as solver, open_asker(view) as looking:
        asked, turn = answer(solver, make_loss(stage)), view.turn
        assert len(await looking.look()) == 1 and asked == [(TASK, 0)]
        assert view.turn > turn and view.touched[TASK] == view.turn, "open pages hear of it"
        assert not await looking.look()
    document = view.make_round(TASK, 0)
    assert document is not None
    (slot,) = [one for one in document["slots"] if one["claim"]]
    assert slot["loss"] == {"steps": 8, "first": 5.557, "last": 3.058, "mean": 4.1}
    by_shard = [4.1 if shard == slot["shard"] else None for shard in range(len(document["slots"]))]
    assert document["losses"] == {"mean": 4.1, "by_shard": by_shard, "void": [], "claims": 1}
    assert view.make_losses(TASK, stage.game.rounds[0])["losses"] == document["losses"]


@pytest.mark.parametrize(
    "lie",
    [
        {"seed": OTHER_SOLVER},
        {"claim_root": make_word("another claim")},
        {"round": 1},
        {"domain": make_word("another task")},
    ],
    ids=["another account", "another claim", "another round", "another task"],
)
async def test_what_the_solver_has_not_signed_is_not_kept(
    view: ChainView, stage: Stage, tmp_path: Path, lie: dict[str, Any]
) -> None:
    async with make_solver(stage, tmp_path).run() as solver, open_asker(view) as looking:
        answer(solver, make_loss(stage, **lie))
        assert len(await looking.look()) == 1
        assert not view.index.list_reports(TASK, 0) and not await looking.look()
        pause = looking.get_pause(get_account(SOLVER))
        assert pause.failures == 1
        pause.until_s = 0.0
        assert len(await looking.look()) == 1 and pause.failures == 2


async def test_a_report_about_another_s_claim_is_not_kept(
    view: ChainView, stage: Stage, tmp_path: Path
) -> None:
    """Also not one that was signed for that slot."""
    async with make_solver(stage, tmp_path).run() as solver, open_asker(view) as looking:
        answer(solver, make_loss(stage, slot=stage.slot ^ 1))
        await looking.look()
        assert not view.index.list_reports(TASK, 0)


async def test_what_was_not_asked_for_is_not_kept(view: ChainView, stage: Stage, tmp_path: Path) -> None:
    """It may be too early for it; or the place was the account's when it was asked, and is another's now."""
    other = Node(stage, OTHER_SOLVER, tmp_path / "other")
    async with make_solver(stage, tmp_path).run() as solver, other.run(), open_asker(view) as looking:
        answer(solver, make_loss(stage))
        await looking.asker.ask(looking.client, Question(TASK, 0, solver.account, frozenset()))
        answer(other, make_loss(stage, OTHER_SOLVER))
        place = frozenset({(stage.slot, LOSS, 0)})
        await looking.asker.ask(looking.client, Question(TASK, 0, other.account, place))
        assert not view.index.list_reports(TASK, 0)
        assert not looking.get_pause(other.account).failures, "it is no liar"


async def test_a_node_that_has_nothing_yet_is_asked_again_ever_more_seldom(
    view: ChainView, stage: Stage, tmp_path: Path
) -> None:
    async with make_solver(stage, tmp_path).run() as solver, open_asker(view) as looking:
        answer(solver)
        question = (TASK, 0, get_account(SOLVER))
        now_s = asyncio.get_running_loop().time
        for failures in range(1, 4):
            before_s = now_s()
            assert len(await looking.look()) == 1 and not await looking.look()
            pause = looking.get_pause(*question)
            assert pause.failures == failures
            assert pause.until_s >= before_s + FIRST_PAUSE_S * 2 ** (failures - 1)
            assert not looking.get_pause(get_account(SOLVER)).failures, "it is no liar"
            pause.until_s = 0.0
        answer(solver, make_loss(stage))
        await looking.look()
        assert view.index.list_reports(TASK, 0)


async def test_a_node_that_is_down_stops_no_other(view: ChainView, stage: Stage, tmp_path: Path) -> None:
    async with make_solver(stage, tmp_path).run() as solver, open_asker(view) as looking:
        answer(solver, make_loss(stage))
        down = get_account(OTHER_SOLVER)
        stage.peers[down] = Peer(down, "https://127.0.0.1:1", bytes(32))
        game_round = stage.world.state.rounds[0]
        claims = {**game_round.claims, stage.slot ^ 1: replace(game_round.claims[stage.slot], account=down)}
        stage.world.state = replace(stage.world.state, rounds={0: replace(game_round, claims=claims)})
        sync(view, stage)
        assert len(await looking.look()) == 2
        assert [one.account for one in view.index.list_reports(TASK, 0)] == [get_account(SOLVER)]


async def test_the_first_report_of_a_claim_stays(view: ChainView, stage: Stage) -> None:
    """A node that signs two is a liar; which of them is right nobody knows."""
    for mean in (4.1, 0.1):
        one = Reported(stage.slot, LOSS, 0, stage.claim.root, get_account(SOLVER), {"mean": mean})
        await view.take_report(TASK, 0, one, bytes(64))
    assert [one.said["mean"] for one in view.index.list_reports(TASK, 0)] == [4.1]


async def test_a_report_of_a_claim_that_a_reorg_took_back_is_not_shown(view: ChainView, stage: Stage) -> None:
    gone, said = make_word("a claim that is gone"), {"steps": 8, "first": 1.0, "last": 1.0, "mean": 1.0}
    one = Reported(stage.slot, LOSS, 0, gone, get_account(SOLVER), said)
    await view.take_report(TASK, 0, one, bytes(64))
    document = view.make_round(TASK, 0)
    assert document is not None and document["losses"] is None
    assert all(one.get("loss") is None for one in document["slots"])


def test_a_claim_counts_in_the_mean_by_its_segments_whatever_its_report_says_of_steps(stage: Stage) -> None:
    game_round = stage.game.rounds[0]
    other = replace(claim := game_round.claims[stage.slot], claim_root=make_word("other"), segments=1)
    both = replace(game_round, claims={stage.slot: claim, stage.slot ^ 1: other})
    said = [
        Reported(stage.slot, LOSS, 0, claim.claim_root, "0x", {"mean": 2.0, "steps": 8}),
        Reported(stage.slot ^ 1, LOSS, 0, other.claim_root, "0x", {"mean": 7.0, "steps": 1 << 31}),
    ]
    losses = make_losses(cast(Any, stage.game), both, said, stage.head + 1)["losses"]
    assert losses["mean"] == pytest.approx((4 * 2.0 + 7.0) / 5) and losses["claims"] == 2


def test_a_claim_that_does_not_count_is_not_in_the_mean(stage: Stage) -> None:
    """A cheat's loss of 51 nats would lift the mean of a round from 3.45 to 15.46."""
    game_round = stage.game.rounds[0]
    claim = game_round.claims[stage.slot]
    other = replace(claim, claim_root=make_word("other"), is_convicted=True)
    both = replace(game_round, claims={stage.slot: claim, stage.slot ^ 1: other})
    said = [
        Reported(stage.slot, LOSS, 0, claim.claim_root, "0x", {"mean": 3.45}),
        Reported(stage.slot ^ 1, LOSS, 0, other.claim_root, "0x", {"mean": 51.476}),
    ]
    losses = make_losses(cast(Any, stage.game), both, said, stage.head + 1)["losses"]
    (void,) = losses["void"]
    assert losses["mean"] == 3.45 and losses["claims"] == 1 and losses["by_shard"][void] == 51.476
    none = make_losses(cast(Any, stage.game), both, said[1:], stage.head + 1)["losses"]
    assert none["mean"] is None and none["claims"] == 0


# Models
def make_heldout(stage: Stage, seed: int = SOLVER, **changes: Any) -> HeldoutSaid:
    """A held-out loss of the model before any training, signed by a key."""
    report = HeldoutReport(stage.game.terms.domain, 0, stage.game.terms.root, 4, 5_557_000, 20_000)
    report = replace(report, **changes)
    return format_heldout(report, sign_statement(make_key(seed), report, SIGNING))


def answer_heldout(node: Node, said: HeldoutSaid) -> None:
    node.get_reports = lambda *_: ReportsSaid(heldout=(said,))  # type: ignore[method-assign]


async def test_a_signed_held_out_loss_is_kept_and_shown(
    view: ChainView, stage: Stage, tmp_path: Path
) -> None:
    async with make_solver(stage, tmp_path).run() as solver, open_asker(view) as looking:
        answer_heldout(solver, make_heldout(stage))
        await looking.look()
    (one,) = view.index.list_reports(TASK, 0, of_losses=True)
    assert one.place == (stage.slot, HELDOUT, 0) and one.account == get_account(SOLVER)
    document = view.make_round(TASK, 0)
    assert document is not None and document["losses"] is None
    assert document["heldout"] == [
        {
            "rounds_done": 0, "loss": 5.557, "error": 0.02, "is_submitters": False, "reports": 1,
            "lowest": 5.557, "highest": 5.557,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lie", [{"seed": OTHER_SOLVER}, {"root": make_word("another model")}, {"rounds_done": 1}]
)
async def test_a_held_out_loss_of_another_account_or_model_is_not_kept(
    view: ChainView, stage: Stage, tmp_path: Path, lie: dict[str, Any]
) -> None:
    async with make_solver(stage, tmp_path).run() as solver, open_asker(view) as looking:
        answer_heldout(solver, make_heldout(stage, **lie))
        await looking.look()
        assert not view.index.list_reports(TASK, 0)


def test_the_submitter_s_figure_counts_first_then_the_median(stage: Stage) -> None:
    root, game = stage.game.terms.root, cast(Any, stage.game)
    solvers = [
        Reported(slot, HELDOUT, 0, root, "0x", {"loss": loss, "error": 0.1})
        for slot, loss in enumerate((3.0, None, 3.2))
    ]
    (shown,) = show_heldout(game, 0, solvers)
    assert (shown["loss"], shown["is_submitters"]) == (3.2, False)
    assert (shown["lowest"], shown["highest"]) == (3.0, None), "one says that it diverged"
    own = Reported(SUBMITTER, HELDOUT, 0, root, "0x", {"loss": 3.1, "error": 0.1})
    (shown,) = show_heldout(game, 0, [*solvers, own])
    assert (shown["loss"], shown["is_submitters"], shown["reports"]) == (3.1, True, 4)
    gone = Reported(SUBMITTER, HELDOUT, 0, make_word("gone"), "0x", {"loss": 9.0, "error": 0.1})
    assert show_heldout(game, 0, [gone]) == []


# Auditors
async def test_distances_of_an_audit_stand_beside_its_vote(view: ChainView, tmp_path: Path) -> None:
    """From the replay over the auditor's own server to the document of the page."""
    segment = make_stage().get_drawn().segment
    stage = make_stage(Twist(boundary=segment + 1, element=700))
    view.state.network.peers = stage.peers
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        answer(solver)
        vote = await audit(auditor.room, stage.get_drawn())
        assert vote is not None
        judge(stage, vote)
        for place in list(list_unreported(auditor.get_view(), stage.head + 1)):
            await report_distances(auditor.room, place)
        stage.settle()
        stage.world.jump(stage.head + 1)
        sync(view, stage)
        async with open_asker(view) as looking:
            assert auditor.account in {one.account for one in await looking.look()}
    document = view.make_round(TASK, 0)
    assert document is not None
    (slot,) = [one for one in document["slots"] if one["claim"]]
    found = slot["draws"][0]["ranks"][0]
    assert found["word"] == "REJECT_STATE" == found["reported"]["word"]
    assert found["reported"]["ends"] == "MEASURED" and found["reported"]["weights"] > 1.0
    assert [rank["reported"] for rank in slot["draws"][0]["ranks"][1:]] == [None, None]


# Running
async def test_where_nobody_is_to_be_asked_nobody_is(view: ChainView, stage: Stage) -> None:
    stage.peers[get_account(SOLVER)] = Peer(get_account(SOLVER), "https://127.0.0.1:1", bytes(32))
    await (asker := ReportAsker(view)).run(Asked.NOBODY)
    assert not asker.pauses


@pytest.mark.parametrize(("asked", "is_kept"), [(Asked.ALL, True), (Asked.PUBLIC, False)])
async def test_nodes_of_this_machine_are_asked_where_the_operator_says_so(
    view: ChainView, stage: Stage, tmp_path: Path, asked: Asked, is_kept: bool
) -> None:
    async with make_solver(stage, tmp_path).run() as solver:
        seen, asker = answer(solver, make_loss(stage)), ReportAsker(view)
        running = asyncio.create_task(asker.run(asked))
        while not view.index.list_reports(TASK, 0) and not running.done():
            if any(pause.failures for pause in list(asker.pauses.values())):
                break
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert bool(view.index.list_reports(TASK, 0)) == bool(seen) == is_kept


@pytest.mark.parametrize("name", ["choose", "ask"])
async def test_a_bug_stops_neither_the_pages_nor_the_next_look(
    view: ChainView,
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    stage.peers[get_account(SOLVER)] = Peer(get_account(SOLVER), "https://127.0.0.1:1", bytes(32))
    turns, asker = list[int](), ReportAsker(view)

    def choose() -> list[Question]:
        turns.append(len(turns))
        raise RuntimeError("a bug")

    async def ask(client: ReportClient, one: Question) -> None:
        choose()

    monkeypatch.setattr(asker, name, {"choose": choose, "ask": ask}[name])
    monkeypatch.setattr(node_reports, "LOOK_S", 0.01)
    running = asyncio.create_task(asker.run(Asked.ALL))
    while len(turns) < 3 and not running.done():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    said = {"choose": "No node was chosen", "ask": "Asking a node ended with an error"}[name]
    assert len(turns) == 3 and said in caplog.text
