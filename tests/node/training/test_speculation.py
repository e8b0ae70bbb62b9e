"""Training ahead: what is trained while a round is audited, what is kept when the next one opens, and that
nothing is said because of a guess."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import get_account, get_sent
from tests.node.merging.stage import Stage, finish, give, hand, open_stage
from touchstone.node.kit.duty import Wait
from touchstone.node.models.claim_openings import name_claim
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.models.outer_step import OuterSteps
from touchstone.node.models.work_requests import may_read_delta
from touchstone.node.records.claim_records import ClaimName, ClaimWork, compute_basis
from touchstone.node.training import claims, speculation
from touchstone.node.training.claims import MakeClaim, get_basis
from touchstone.node.training.speculation import TrainSpeculatively
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.roles.role_nodes import Member

SEGMENTS, ALL = 4, (0, 1, 2)
SIGNERS = tuple(compute_seat_id(SeatRole.SOLVER, number) for number in range(3))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first inner step of each segment that anybody trains."""
    return watch(monkeypatch, lambda count: None)


def watch(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[int], object]) -> list[int]:
    """`meanwhile` happens while the n-th segment is trained."""
    steps: list[int] = []

    def train(*arguments: Any) -> Any:
        steps.append(arguments[3])
        meanwhile(len(steps))
        return train_segment(*arguments)

    monkeypatch.setattr(claims, "train_segment", train)
    return steps


async def audit(stage: Stage, *slots: int) -> Member:
    """Round 0 is audited, and the first node has all pseudo-gradients and an ACCEPT on the claims of these
    slots."""
    await stage.commit(1, 2, 3)
    stage.draw()
    await stage.fetch_all(1)
    give(stage.nodes[1], *map(hand, slots))
    return stage.nodes[1]


def find_due(stage: Stage, node: Member) -> TrainSpeculatively | None:
    due = [
        one
        for one in speculation.list_duties(node.get_view(), stage.world.block)
        if not isinstance(one, Wait)
    ]
    assert len(due) <= 1 and all(isinstance(one, TrainSpeculatively) for one in due)
    return due[0] if due else None  # type: ignore[return-value]


def post(stage: Stage, root: bytes, *slots: int) -> MakeClaim:
    """The chain takes this root over these claims, and opens round 1; the claim that is due then."""
    if stage.world.state.rounds[0].votes == {}:
        stage.accept(*ALL)
    stage.world.send(calls.PostRoot(0, slots, root, SIGNERS), "anybody")
    stage.sync()
    (duty,) = claims.list_duties(stage.nodes[1].get_view(), stage.world.block)
    assert isinstance(duty, MakeClaim) and duty.round == 1
    return duty


def find_work(node: Member, root: bytes) -> ClaimWork:
    """What is trained of round 1 on this root."""
    beacon = node.game.beacons.get(1) or node.game.rounds[1].beacon
    assert beacon is not None
    return node.rooms.tools.claims.works[1, compute_basis(root, beacon)]


def get_expected_root(node: Member, duty: TrainSpeculatively) -> bytes:
    return get_root(node.rooms.tools.claims.merges[duty.key])


async def test_the_next_round_is_trained_while_this_one_is_audited_and_nothing_twice(
    tmp_path: Path, trained: list[int]
) -> None:
    """And it is what training after OPEN comes to, carried moments included."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        duty = find_due(stage, first)
        assert duty == TrainSpeculatively(make_key(first.game.rounds[0], ALL), first.game.beacons[1])
        trained.clear()
        await duty.perform(first.rooms.speculation)
        root, merges = get_expected_root(first, duty), dict(first.rooms.tools.claims.merges)
        ahead_of_it = find_work(first, root)
        assert trained == [0, 2, 4, 6] and ahead_of_it.finished is not None
        assert find_due(stage, first) is None
        assert not get_sent(first) and not first.rooms.tools.claims.signatures
        making = post(stage, root, *ALL)
        await making.perform(first.rooms.training)
        assert trained == [0, 2, 4, 6] and first.rooms.tools.claims.merges == merges
        ((name, sent),) = get_sent(first)
        assert name == "game.commit" and sent[1:3] == (1, root)
        assert sent[-2:] == (ahead_of_it.finished.claim_root, SEGMENTS)
        del first.rooms.tools.claims.works[1, making.basis]
        anew = await finish(first, 1)
        assert (anew.delta_root, anew.carried_root) == (
            ahead_of_it.finished.delta_root, ahead_of_it.finished.carried_root,
        )  # fmt: skip
        assert find_work(first, root).boundaries[0].local_step == 8


async def test_when_the_round_opens_in_the_middle_it_is_trained_on_and_committed_to_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        duty, opened = find_due(stage, first), asyncio.Event()
        assert duty is not None
        root, loop = (
            get_root(await first.rooms.outer_steps.merge_claims(duty.key)),
            asyncio.get_running_loop(),
        )

        def meanwhile(count: int) -> None:
            if count == 2:
                post(stage, root, *ALL)
                loop.call_soon_threadsafe(opened.set)

        trained = watch(monkeypatch, meanwhile)
        training_ahead = asyncio.create_task(duty.perform(first.rooms.speculation))
        await opened.wait()
        (making,) = claims.list_duties(first.get_view(), stage.world.block)
        assert isinstance(making, MakeClaim)
        await asyncio.gather(training_ahead, making.perform(first.rooms.training))
        assert trained == [0, 2, 4, 6] and [name for name, _ in get_sent(first)] == ["game.commit"]


async def test_a_vote_against_a_claim_starts_the_training_from_what_is_likelier_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment at hand is the last one of the old guess."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        against = next(slot for slot in ALL if slot != stage.get_slot(1))
        others = tuple(slot for slot in ALL if slot != against)
        votes = [hand(slot, VoteWord.REJECT_STATE if slot == against else VoteWord.ACCEPT) for slot in ALL]
        duty = find_due(stage, first)
        assert duty is not None
        trained = watch(monkeypatch, lambda count: give(first, *votes))
        with pytest.raises(EnvironmentFault, match="other claims are expected"):
            await duty.perform(first.rooms.speculation)
        other = find_due(stage, first)
        assert other is not None and other.key == make_key(first.game.rounds[0], others)
        await other.perform(first.rooms.speculation)
        assert trained == [0, 0, 2, 4, 6]
        assert sorted(find_work(first, get_expected_root(first, duty)).boundaries) == [0, 1]
        assert not get_sent(first)


async def test_where_the_round_opens_on_another_root_it_is_trained_anew_from_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trained on the guess is neither committed to nor shown."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        others = (stage.get_slot(2), stage.get_slot(3))
        merged = await first.rooms.outer_steps.merge_claims(
            make_key(first.game.rounds[0], tuple(sorted(others)))
        )
        duty = find_due(stage, first)
        assert duty is not None
        await duty.perform(first.rooms.speculation)
        expected = find_work(first, get_expected_root(first, duty)).finished
        trained = watch(monkeypatch, lambda count: None)
        making = post(stage, get_root(merged), *sorted(others))
        await making.perform(first.rooms.training)
        finished = find_work(first, get_root(merged)).finished
        assert expected is not None and finished is not None and trained == [0, 2, 4, 6]
        ((_, sent),) = get_sent(first)
        assert sent[4] == finished.claim_root != expected.claim_root
        assert find_work(first, get_root(merged)).boundaries[0].local_step == 0
        stage.world.send(calls.CommitRound(*sent[1:]), get_account(1))
        stage.world.jump(stage.world.block + 1_000)
        stage.sync()
        assert may_read_delta(first.get_view(), finished.delta_root) and not may_read_delta(
            first.get_view(), expected.delta_root
        )


async def test_a_training_that_loses_its_base_stops_at_the_next_boundary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        others = tuple(sorted((stage.get_slot(2), stage.get_slot(3))))
        root = get_root(await first.rooms.outer_steps.merge_claims(make_key(first.game.rounds[0], others)))
        duty = find_due(stage, first)
        assert duty is not None
        trained = watch(monkeypatch, lambda count: post(stage, root, *others) if count == 1 else None)
        with pytest.raises(EnvironmentFault, match="other claims are expected"):
            await duty.perform(first.rooms.speculation)
        assert trained == [0]


async def test_after_a_kill_the_training_ahead_goes_on_at_its_last_boundary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stage(tmp_path, 2, 3) as stage:

        def die(count: int) -> None:
            if count == 3:
                raise RuntimeError("killed")

        async with stage.open(1):
            first = await audit(stage, *ALL)
            duty = find_due(stage, first)
            assert duty is not None
            trained = watch(monkeypatch, die)
            with pytest.raises(RuntimeError, match="killed"):
                await duty.perform(first.rooms.speculation)
        async with stage.open(1) as first:
            await stage.fetch_all(1)
            give(first, *map(hand, ALL))
            assert find_due(stage, first) == duty
            await duty.perform(first.rooms.speculation)
            assert trained == [0, 2, 4, 4, 6] and find_work(first, get_expected_root(first, duty)).finished


@pytest.mark.parametrize("seeds", [(2, 3), (1, 3)])
async def test_a_guessed_root_that_is_posted_over_other_claims_is_not_built_on(
    tmp_path: Path, seeds: tuple[int, int]
) -> None:
    """The own merge contradicts it, also where the own claim is one of them."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        duty, others = find_due(stage, first), sorted(map(stage.get_slot, seeds))
        assert duty is not None
        await duty.perform(first.rooms.speculation)
        making = post(stage, get_expected_root(first, duty), *others)
        with pytest.raises(ProtocolFault, match="not the merge of its claims"):
            await making.perform(first.rooms.training)
        assert not get_sent(first)


async def test_a_claim_with_moments_of_a_wrong_guess_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guessed root is posted without the own claim, and cannot be merged here. To carry the moments of
    the own claim would be a fault that takes the seat."""

    async def pass_by(*arguments: Any) -> None:
        return None

    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        duty, others = find_due(stage, first), sorted((stage.get_slot(2), stage.get_slot(3)))
        assert duty is not None
        await duty.perform(first.rooms.speculation)
        work = find_work(first, get_expected_root(first, duty))
        salts, expected, local_step = work.salts, work.finished, work.boundaries[0].local_step
        making = post(stage, get_expected_root(first, duty), *others)
        monkeypatch.setattr(OuterSteps, "check_base", pass_by)
        await making.perform(first.rooms.training)
        assert work.finished is not None and work.finished != expected and work.salts != salts
        assert (local_step, work.boundaries[0].local_step) == (8, 0)
        assert len(get_sent(first)) == 1


# What is due
async def test_pseudo_gradients_are_waited_for_and_what_does_not_come_is_left_out(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1, 2, 3)
        game_round, first = stage.draw(), stage.nodes[1]
        give(first, *map(hand, ALL))
        (wait,) = speculation.list_duties(first.get_view(), stage.world.block)
        windows = stage.world.state.terms.windows
        assert wait == Wait((game_round.closed or 0) + windows.audit_max // 8 + 1)
        stage.world.jump(wait.block)
        stage.sync()
        assert find_due(stage, first) is None, "nothing has come"
        present = tuple(sorted((stage.get_slot(1), stage.get_slot(3))))
        first.rooms.tools.claims.fetched |= {
            name_claim(first.get_view(), game_round, slot) for slot in present
        }
        assert find_due(stage, first) == TrainSpeculatively(
            make_key(game_round, present), first.game.beacons[1]
        )


async def test_nothing_is_trained_while_the_guess_is_not_more_than_half_of_the_claims(tmp_path: Path) -> None:
    """In the first round no solver has failed yet: words against two of three claims take them out."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage)
        own, other, third = (stage.get_slot(number) for number in (1, 2, 3))
        give(first, hand(third, VoteWord.REJECT_STATE))
        duty = find_due(stage, first)
        assert duty is not None
        assert duty.key == make_key(first.game.rounds[0], tuple(sorted((own, other))))
        give(first, *(hand(slot, VoteWord.REJECT_STATE) for slot in (other, third)))
        assert find_due(stage, first) is None


async def test_nothing_is_due_before_the_close_and_after_the_root(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        await stage.commit(1)
        assert not list(speculation.list_duties(stage.nodes[1].get_view(), stage.world.block))
        await stage.commit(2, 3)
        stage.draw()
        await stage.fetch_all(1)
        first = stage.nodes[1]
        give(first, *map(hand, ALL))
        post(
            stage,
            get_root(await first.rooms.outer_steps.merge_claims(make_key(first.game.rounds[0], ALL))),
            *ALL,
        )
        assert not list(speculation.list_duties(first.get_view(), stage.world.block))


@pytest.mark.parametrize("rounds", [1, 3])
async def test_nothing_is_due_after_the_last_round_or_a_halt(tmp_path: Path, rounds: int) -> None:
    async with open_stage(tmp_path, 1, 2, 3, rounds=rounds) as stage:
        first = await audit(stage, *ALL)
        assert (find_due(stage, first) is None) == (rounds == 1)
        if rounds > 1:
            stage.world.send(calls.HaltTask(), stage.world.state.terms.submitter)
            stage.sync()
            assert find_due(stage, first) is None


async def test_a_seat_that_leaves_trains_ahead_for_the_rounds_that_hold_it_and_a_convicted_one_does_not(
    tmp_path: Path,
) -> None:
    """It owes them a claim, and a fee where it comes too late: it must not begin later than all others."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        due, seat = find_due(stage, first), stage.world.get_seat(get_account(1))
        stage.world.send(calls.LeaveSeat(seat.number), get_account(1))
        stage.sync()
        assert due is not None and find_due(stage, first) == due
        convicted = replace(seat, status=SeatStatus.CONVICTED)
        seats = {**stage.world.state.seats, seat.number: convicted}
        stage.world.state = replace(stage.world.state, seats=seats)
        stage.sync()
        assert find_due(stage, first) is None


async def test_nothing_is_due_without_a_place_or_a_beacon_in_the_next_round(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        before, own = stage.world.state, stage.world.get_seat(get_account(1)).number
        pool = before.pools[1]
        others = replace(pool, solvers=tuple(number for number in pool.solvers if number != own))
        changed = (replace(before, pools={**before.pools, 1: others}), replace(before, beacons={}))
        for state in changed:
            stage.world.state = state
            stage.sync()
            assert find_due(stage, first) is None
        stage.world.state = before
        stage.sync()
        assert find_due(stage, first) is not None


async def test_nothing_is_built_on_a_root_that_is_contested_by_the_own_merge(tmp_path: Path) -> None:
    """Round 1 is audited, on a root of round 0 that this node merged otherwise."""
    async with open_stage(tmp_path, 1, 2, 3) as stage:
        first = await audit(stage, *ALL)
        made = await first.rooms.outer_steps.merge_claims(make_key(first.game.rounds[0], ALL))
        for root, is_due in ((get_root(made), True), (b"w" * 32, False)):
            before = stage.world.state, stage.world.block
            post(stage, root, *ALL)
            await _audit_second(stage)
            assert (find_due(stage, first) is not None) == is_due
            stage.world.state, stage.world.block = before


async def _audit_second(stage: Stage) -> None:
    """All commit in round 1, which is closed; their pseudo-gradients came."""
    game_round = stage.world.state.rounds[1]
    for seed in (1, 2, 3):
        words = (game_round.base_root, game_round.beacon or b"", bytes([seed]) * 32, SEGMENTS)
        stage.world.send(calls.CommitRound(1, *words), get_account(seed))
        stage.nodes[1].rooms.tools.claims.fetched.add(ClaimName(1, get_account(seed), bytes([seed]) * 32))
    stage.draw(1)
    assert get_basis(stage.world.state.rounds[1]) is not None
