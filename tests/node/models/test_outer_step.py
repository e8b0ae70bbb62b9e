"""The outer step of a node: bytes from whoever has them, the right sum, what is merged before the votes."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK, get_account
from tests.node.merging.stage import open_stage
from tests.node.silent_peer import run_silent
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import (
    SUBMITTER,
    Simulation,
    commit,
    make_quiet_world,
    make_right_root,
    make_word,
    post,
    seal_draw,
    vote,
)
from touchstone.node.models import claim_openings, outer_step, work_requests
from touchstone.node.models.expected_merge import foresee, get_root, list_expected, list_open, make_key
from touchstone.node.models.global_model import WorkSaid, get_initial_header
from touchstone.node.models.outer_step import FetchDelta, MergeClaims
from touchstone.node.records.round_seats import sort_by_shard
from touchstone.protocol.adapters.store.blobs import refer_delta
from touchstone.protocol.adapters.wire import blob_client, session
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.compute.digest import outer_header
from touchstone.protocol.compute.outer.nesterov_step import merge
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.statements import VoteWord


async def test_bytes_come_from_others_where_the_solver_is_down(tmp_path: Path) -> None:
    """Whoever has a pseudo-gradient serves it on, with the opening that ties it to the claim."""
    async with open_stage(tmp_path, 1, 2) as stage:
        async with stage.open(3):
            await stage.commit(1, 2, 3)
            stage.draw()
            await stage.fetch_all(1)
        second = stage.nodes[2]
        await stage.fetch_all(2)
        assert len(second.rooms.tools.claims.fetched) == 3
        made = await second.rooms.outer_steps.merge_claims(make_key(stage.world.state.rounds[0], (0, 1, 2)))
        assert get_root(made) == get_root(
            await stage.nodes[1].rooms.outer_steps.merge_claims(
                make_key(stage.world.state.rounds[0], (0, 1, 2))
            )
        )


async def test_peers_that_never_answer_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solver and twenty strangers take connections and say nothing: the one member that has the bytes is
    asked before any stranger, and for what follows before the solver as well."""
    for module in (session, blob_client, session):
        monkeypatch.setattr(module, "PAUSE_S", 0.1)
    async with open_stage(tmp_path, 2, 1) as stage, run_silent() as silent:
        async with stage.open(3):
            await stage.commit(1, 2, 3)
            game_round = stage.draw()
            await stage.fetch_all(1)
        second, slot, helper = stage.nodes[2], stage.get_slot(3), get_account(1)
        monkeypatch.setattr(second.state, "is_member", lambda account, task: account == helper)
        known = second.state.network.peers
        strangers = [silent(f"0x{n:040x}") for n in range(20)]
        others = [silent(get_account(3)), *strangers, known[helper]]
        second.state.network.peers = {peer.account: peer for peer in others}
        assert second.rooms.claim_data.list_sources(get_account(3))[0].account == get_account(3)
        duty = FetchDelta(0, slot, game_round.claims[slot].claim_root)
        await duty.perform(second.rooms.outer_steps)
        assert claim_openings.is_fetched(second.get_view(), game_round, slot)
        order = second.rooms.claim_data.list_sources(get_account(3))
        assert [peer.account for peer in order[:2]] == [helper, get_account(3)]
        assert all(second.client.get_silence(peer) == 0 for peer in strangers), "nobody asked them"


async def test_the_merge_is_that_of_the_claims_in_shard_order(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        made = {one.claim_root: one for one in await stage.commit(1, 2, 3)}
        game_round, node, terms = stage.draw(), stage.nodes[1], get_spec().terms
        key = make_key(game_round, (0, 2))
        ours = get_root(await node.rooms.outer_steps.merge_claims(key))
        deltas = []
        for slot in sort_by_shard(game_round, (0, 2)):
            root = made[game_round.claims[slot].claim_root].delta_root
            deltas.append(node.store.get(refer_delta(root, terms.parameter_count)))
        before = await node.rooms.model.load_outer_state(get_initial_header(node.get_view()))
        after = merge(before, deltas, terms.outer_learning_rate, terms.outer_momentum)
        assert ours == compute_outer_root(outer_header(after.weights, after.momentum))
        assert await node.rooms.model.load_outer(ours) == outer_header(after.weights, after.momentum)
        assert get_root(node.rooms.tools.claims.merges[key]) == ours


async def test_a_work_leaf_that_is_not_the_claims_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that answers for a solver that is down could name any bytes as its work."""
    async with open_stage(tmp_path, 1, 2) as stage:
        await stage.commit(1, 2)
        game_round = stage.draw()

        async def lie(*arguments: object) -> WorkSaid:
            return WorkSaid(make_word("delta"), make_word("carried"), (make_word("path"),) * 3)

        monkeypatch.setattr(BlobClient, "ask", lie)
        with pytest.raises(ProtocolFault, match="Merkle"):
            await stage.nodes[1].rooms.claim_data.find_work(game_round, game_round.claims[stage.get_slot(2)])


async def test_a_pseudo_gradient_is_not_shown_before_the_close(tmp_path: Path) -> None:
    """Else another solver could hand it in as its own work."""
    async with open_stage(tmp_path, 1, 2) as stage:
        await stage.commit(1)
        game_round = stage.world.state.rounds[0]
        slot = stage.get_slot(1)
        duty = FetchDelta(0, slot, game_round.claims[slot].claim_root)
        with pytest.raises(EnvironmentFault, match="not served"):
            await duty.perform(stage.nodes[2].rooms.outer_steps)
        made = stage.nodes[1].rooms.tools.claims.find(game_round).finished
        assert made is not None and not work_requests.may_read_delta(
            stage.nodes[1].get_view(), made.delta_root
        )
        stage.draw()
        await duty.perform(stage.nodes[2].rooms.outer_steps)
        assert work_requests.may_read_delta(stage.nodes[2].get_view(), made.delta_root)


async def test_what_is_due_is_the_bytes_then_the_merge_of_all_that_can_be_accepted(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        node = stage.nodes[1]
        assert not list(outer_step.list_duties(node.get_view(), stage.world.block))
        game_round = stage.draw()
        due = list(outer_step.list_duties(node.get_view(), stage.world.block))
        assert {duty.slot for duty in due if isinstance(duty, FetchDelta)} == {0, 1, 2} and len(due) == 3
        await stage.fetch_all(1)
        (merging,) = outer_step.list_duties(node.get_view(), stage.world.block)
        assert merging == MergeClaims(make_key(game_round, (0, 1, 2)))
        await merging.perform(node.rooms.outer_steps)
        assert not list(outer_step.list_duties(node.get_view(), stage.world.block))


async def test_nothing_is_built_on_a_posted_root_that_the_own_merge_contradicts(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        stage.draw()
        stage.accept(0, 1, 2)
        signers = tuple(compute_seat_id(SeatRole.SOLVER, number) for number in range(3))
        stage.world.send(calls.PostRoot(0, (0, 1, 2), make_word("wrong"), signers), get_account(1))
        stage.sync()
        with pytest.raises(ProtocolFault, match="not the merge of its claims"):
            await stage.nodes[1].rooms.outer_steps.check_base(make_word("wrong"))
        assert TASK in stage.nodes[1].state.games


A, R, U, N = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.UNSERVED, VoteWord.ABSTAIN


def make_drawn(**changes: Any) -> Simulation:
    """Round 0 is drawn; of its three claims nothing is known."""
    world = make_quiet_world(**{"rounds": 5, **changes})
    draw(world, 0)
    return world


def draw(world: Simulation, index: int) -> None:
    for slot in range(3):
        assert commit(world, f"solver{slot}", index) is None
    seal_draw(world, index)


def make_second(*words: VoteWord, **changes: Any) -> Simulation:
    """Round 1 is drawn. words: of the primaries in round 0, each followed by its first reserve."""
    world = make_drawn(**changes)
    for slot, word in enumerate(words):
        assert vote(world, slot, 0, 0, word)
        assert word == A or vote(world, slot, 0, 1, word)
    merged = tuple(slot for slot, word in enumerate(words) if word == A)
    assert post(world, (0, 1, 2), merged) is None
    draw(world, 1)
    return world


def expected_round(world: Simulation, own: int | None = None) -> tuple[int, ...]:
    state = world.get_now()
    game_round = get_live_round(state)
    assert game_round is not None
    return list_expected(state, game_round, own, world.block)


def test_who_never_committed_before_is_in_without_a_vote_until_a_word_is_against_it() -> None:
    """So nobody waits for votes in a task's first round, or starts anew when somebody joins."""
    world = make_drawn()
    assert (
        expected_round(world) == (0, 1, 2) == list_open(world.get_now(), world.state.rounds[0], world.block)
    )
    assert vote(world, 0, 0, 0, U)
    assert expected_round(world) == (1, 2) and expected_round(world, own=0) == (0, 1, 2)


def test_who_was_rejected_last_time_needs_a_vote() -> None:
    """The others were accepted."""
    world = make_second(A, A, R)
    assert expected_round(world) == (0, 1) and expected_round(world, own=2) == (0, 1, 2)
    assert vote(world, 2, 0, 0, A, index=1)
    assert expected_round(world) == (0, 1, 2)


@pytest.mark.parametrize("word", [R, VoteWord.REJECT_DELTA, VoteWord.REJECT_START, U])
def test_the_first_word_against_a_claim_takes_it_out(word: VoteWord) -> None:
    """It can still be accepted, by both reserves; then it is in again. The own one stays till then."""
    world = make_second(A, A, A)
    assert expected_round(world) == (0, 1, 2)
    assert vote(world, 1, 0, 0, word, index=1)
    assert expected_round(world) == (0, 2) and expected_round(world, own=1) == (0, 1, 2)
    assert vote(world, 1, 0, 1, A, index=1)
    assert expected_round(world) == (0, 2)
    assert vote(world, 1, 0, 2, A, index=1)
    assert expected_round(world) == (0, 1, 2)


def test_an_abstention_says_nothing_against_a_claim_and_nothing_for_it() -> None:
    known, failed = make_second(A, A, A), make_second(A, A, R)
    assert vote(known, 1, 0, 0, N, index=1) and vote(failed, 2, 0, 0, N, index=1)
    assert expected_round(known) == (0, 1, 2) and expected_round(failed) == (0, 1)


def test_what_cannot_be_merged_any_more_is_out_whoever_made_it() -> None:
    """Void by votes, or undecided when the time for merging is over."""
    world = make_second(A, A, A)
    assert vote(world, 1, 0, 0, R, index=1) and vote(world, 1, 0, 1, R, index=1)
    assert vote(world, 0, 0, 0, A, index=1)
    assert expected_round(world, own=1) == (0, 2)
    world.jump((world.get_now().rounds[1].closed or 0) + world.state.terms.windows.audit_max + 1)
    assert expected_round(world, own=2) == (0,)
    assert list_open(world.get_now(), world.state.rounds[1], world.block) == (0,)


def test_only_the_last_round_in_which_a_solver_committed_counts() -> None:
    """One was rejected in round 0 and silent in round 1, one accepted in round 0 and rejected in round 1."""
    world = make_drawn()
    for slot, word in enumerate((A, A, R)):
        assert vote(world, slot, 0, 0, word)
    assert vote(world, 2, 0, 1, R)
    assert post(world, (0, 1, 2), (0, 1)) is None
    for slot in (0, 1):
        assert commit(world, f"solver{slot}", 1) is None
    seal_draw(world, 1)
    for slot, word in enumerate((A, R)):
        assert vote(world, slot, 0, 0, word, index=1)
    assert vote(world, 1, 0, 1, R, index=1)
    assert post(world, (0, 1, 2), (0,), index=1) is None
    draw(world, 2)
    assert expected_round(world) == (0,)


def test_what_is_foreseen_is_what_the_post_makes_of_the_round() -> None:
    world = make_second(A, A, A)
    for slot in range(3):
        assert vote(world, slot, 0, 0, A, index=1)
    root = make_right_root(world.state.rounds[1], (0, 1, 2))
    foreseen = foresee(world.get_now(), world.state.rounds[1], root, (0, 1, 2), world.block)
    assert world.state.rounds[1].phase == RoundPhase.RUNNING and 2 not in world.state.rounds
    assert post(world, (0, 1, 2), (0, 1, 2), index=1) is None
    assert foreseen.rounds[2] == world.state.rounds[2] and foreseen.rounds[2].base_root == root
    assert foreseen.rounds[1].merged == world.state.rounds[1].merged


@pytest.mark.parametrize("rounds", [1, 5])
def test_nothing_opens_after_the_last_round_or_a_halt(rounds: int) -> None:
    world = make_drawn(rounds=rounds)
    if rounds > 1:
        world.send(calls.HaltTask(), SUBMITTER)
    foreseen = foresee(world.get_now(), world.state.rounds[0], make_word("root"), (0,), world.block)
    assert list(foreseen.rounds) == [0]
