"""An account without a seat plays on for a bond that it has in an open ask, dispute or contest: whatever
refuses it a seat, and until the bond is out."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.node.health.test_checks import ACCOUNT
from tests.protocol.spec.game.simulation import START_BLOCK, make_terms
from tests.scripts.sitting import NOW, SEAT, MadeSession, StillNode, do_nothing, run_nothing, silence
from touchstone.node.joining.dataset import DatasetSource
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop import node as node_module
from touchstone.node.loop.node import Node
from touchstone.node.serving import audit_opening
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import has_bond
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import OpenQuery, RunningDispute, StatementRef, create_game
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.account import task_names
from touchstone.scripts.command_line.command_errors import NotNeeded
from touchstone.scripts.home.home_folder import list_left, note_left
from touchstone.scripts.seats import seat_session

TASK = b"t" * 32
STATEMENT = StatementRef(round=0, slot=0)
Change = Callable[[Any], Any]


# A bond that is left
OPEN: dict[str, Change] = {
    "ask": lambda account: {"queries": {3: OpenQuery(3, STATEMENT, 1, VoteWord.ACCEPT, 0, account, 99)}},
    "dispute": lambda account: {"disputes": {3: RunningDispute(3, STATEMENT, 1, account, 99)}},
}


@pytest.mark.parametrize("kind", OPEN)
async def test_a_node_whose_seat_is_paid_out_is_needed_until_its_bond_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It was killed in a dispute that it opened in the last blocks of its window. Without it the bond is
    lost, and the cheat keeps its stake."""
    made_up, played = MadeSession(tmp_path), list[SeatRequest]()
    game = replace(made_up.get_game(), **OPEN[kind](made_up.get_account()))
    note_left(tmp_path, TASK)

    async def run(role: SeatRole, config: object, task: bytes, request: SeatRequest) -> bool:
        played.append(request)
        return False

    sitting = made_up.sit(monkeypatch, run)
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, game))
    await sitting.agree()
    await sitting.play()
    assert [request.is_held for request in played] == [True] and list_left(tmp_path) == {TASK.hex()}
    assert not made_up.agreed, "no seat was agreed on"
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, made_up.get_game()))
    with pytest.raises(NotNeeded):
        await made_up.sit(monkeypatch, run).agree()


async def test_a_bond_is_played_also_where_all_seats_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service would be started again and again meanwhile, and its bond's clock run out."""
    made_up, played = MadeSession(tmp_path), list[SeatRequest]()
    game = replace(made_up.get_game(), **OPEN["dispute"](made_up.get_account()))

    def refuse(*_: object) -> None:
        raise GameRefusal(name="SeatsTaken")

    async def run(role: SeatRole, config: object, task: bytes, request: SeatRequest) -> bool:
        played.append(request)
        return False

    sitting = made_up.sit(monkeypatch, run)
    monkeypatch.setattr(seat_session, "refuse_seat", refuse)
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, game))
    await sitting.agree()
    await sitting.play()
    assert [request.is_held for request in played] == [True] and not made_up.agreed
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, made_up.get_game()))
    with pytest.raises(GameRefusal):
        await sitting.agree()


@pytest.mark.parametrize("has_dispute", [True, False])
async def test_a_bond_is_played_where_another_account_has_the_number_of_the_seat(has_dispute: bool) -> None:
    """The lowest free number is dealt out next, so the former seat is soon forgotten."""
    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    if has_dispute:
        game = replace(game, **OPEN["dispute"](ACCOUNT))
    request = SeatRequest(SeatRole.VERIFIER, is_held=True)
    playing_on = asyncio.create_task(StillNode.make(game).work_on(TASK, request))
    done, _ = await asyncio.wait({playing_on}, timeout=0.5)
    assert bool(done) is not has_dispute
    playing_on.cancel()
    await asyncio.gather(playing_on, return_exceptions=True)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_seat_that_was_paid_out_since_the_command_began_is_not_taken_again(is_known: bool) -> None:
    """`touchstone solve` said: going on as solver 0. It asked nothing, since the seat was leaving."""
    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    node = StillNode.make(replace(game, former={7: SEAT} if is_known else {}))
    assert await node.work_on(TASK, SeatRequest(SeatRole.SOLVER, is_held=True)) is False and not node.taken
    with pytest.raises(EnvironmentFault):
        await node.work_on(TASK, SeatRequest(SeatRole.SOLVER))
    assert len(node.taken) == 1, "who asks for a new one gets it"


async def test_a_seat_that_the_followed_endpoint_does_not_show_yet_is_not_paid_out() -> None:
    """The command began by an endpoint that has the seat. The node ended, as one that is not needed, and a
    service does not start such a one again: the seat was silent."""
    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    node, blocks = StillNode.make(game), list[object]()

    async def find_seat(*_: object) -> int:
        return 1 << 16 | SEAT.number

    async def take_next() -> None:
        blocks.append(None)
        if len(blocks) == 3:
            node.change(replace(game, seats={SEAT.number: SEAT}))

    cast(Any, node.chain).game.seat_of = find_seat
    vars(node.following)["take_next"] = take_next
    with pytest.raises(EnvironmentFault):
        await node.work_on(TASK, SeatRequest(SeatRole.SOLVER, is_held=True))
    assert len(node.taken) == 1, "it goes on with its seat"


def test_a_bond_is_its_own_accounts() -> None:
    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    assert not has_bond(game, "alice")
    for change in OPEN.values():
        found = replace(game, **change("alice"))
        assert has_bond(found, "alice") and not has_bond(found, "bob")


async def test_a_bond_is_played_where_the_money_for_a_seat_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stake was lost, and another account took the number of its seat: the conviction is forgotten."""
    made_up = MadeSession(tmp_path)
    game = replace(made_up.get_game(), **OPEN["dispute"](made_up.get_account()))
    sitting = made_up.sit(monkeypatch, run_nothing)

    async def lack(*_: object) -> None:
        raise InvalidInput(what="too few tokens", expected="", actual="", remedy="")

    monkeypatch.setattr(seat_session, "agree_on_seat", lack)
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, game))
    await sitting.agree()
    assert sitting.request is not None and sitting.request.is_held and sitting.is_seated
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, made_up.get_game()))
    with pytest.raises(InvalidInput):
        await sitting.agree()


async def test_a_bond_waits_for_no_room_for_a_seat_and_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine had too little memory for a new seat, or the operator did not answer for hours, or the
    check before the stake failed: each time the bond's clock ran out."""
    made_up, played = MadeSession(tmp_path), list[SeatRequest]()
    game = replace(made_up.get_game(), **OPEN["dispute"](made_up.get_account()))

    async def refuse(*_: object) -> None:
        raise EnvironmentFault(what="no memory", expected="", actual="", remedy="", retryable=False)

    async def run(role: SeatRole, config: object, task: bytes, request: SeatRequest) -> bool:
        played.append(request)
        return False

    sitting = made_up.sit(monkeypatch, run, is_agreed=False)
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, game))
    monkeypatch.setattr(seat_session, "find_room", refuse)
    await sitting.agree()
    await sitting.play()
    assert [request.is_held for request in played] == [True] and not made_up.agreed
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, made_up.get_game()))
    with pytest.raises(EnvironmentFault):
        await sitting.agree()


async def test_who_typed_the_command_is_asked_once_its_bond_is_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had left the task, and asked for a seat again, while a dispute ran. What it had left stayed written
    down, and its next service took the seat for one that nobody wants."""
    made_up = MadeSession(tmp_path)
    game = replace(made_up.get_game(), **OPEN["dispute"](made_up.get_account()))
    note_left(tmp_path, TASK)
    sitting = made_up.sit(monkeypatch, run_nothing, is_agreed=False)
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, game))
    await sitting.agree()
    assert list_left(tmp_path) == {TASK.hex()}, "nobody was asked yet"
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, made_up.get_game()))
    asked = list[str]()

    async def offer_seat(*_: object) -> SeatRequest:
        return SeatRequest(SeatRole.SOLVER, 5, require_wanted=lambda _: asked.append("Lock it?"))

    monkeypatch.setattr(seat_session, "agree_on_seat", offer_seat)
    await sitting.agree()
    assert sitting.request is not None and sitting.request.require_wanted is not None
    assert not asked and list_left(tmp_path) == {TASK.hex()}, "the machine is checked first"
    sitting.request.require_wanted(NOW)
    assert asked == ["Lock it?"] and list_left(tmp_path) == set()


async def test_a_leave_is_heard_until_the_stake_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up = MadeSession(tmp_path)
    sitting = made_up.sit(monkeypatch, run_nothing)
    await sitting.agree()
    assert sitting.request is not None and sitting.request.require_wanted is not None
    sitting.request.require_wanted(NOW)
    note_left(tmp_path, TASK)
    with pytest.raises(NotNeeded, match="left the task for good"):
        sitting.request.require_wanted(NOW)


async def test_a_bond_is_played_though_a_transaction_waits_for_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own move, sent with too little gas price before it was killed: only a running node replaces it."""
    made_up = MadeSession(tmp_path)
    game = replace(made_up.get_game(), **OPEN["dispute"](made_up.get_account()))
    note_left(tmp_path, TASK)
    sitting = made_up.sit(monkeypatch, run_nothing)

    async def wait(*_: object) -> None:
        raise silence()

    monkeypatch.setattr(seat_session, "require_no_seat", wait)
    monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, game))
    await sitting.agree()
    assert sitting.request is not None and sitting.request.is_held


def test_a_task_whose_id_starts_alike_keeps_no_node_from_its_bond() -> None:
    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    alike = TASK[:6] + bytes(26)
    state: Any = SimpleNamespace(
        games={TASK: replace(game, **OPEN["dispute"](ACCOUNT)), alike: game}, refused={}, account=ACCOUNT
    )
    assert task_names.find_own_game(state, TASK[:6].hex())[0] == TASK


@pytest.mark.parametrize("is_start_given", [False, True])
async def test_a_bond_needs_no_first_weights(monkeypatch: pytest.MonkeyPatch, is_start_given: bool) -> None:
    """Nobody serves given ones: a seat went on, a bond did not. Those of a seed do not fit on a full disk:
    neither went on, and each start ended there."""

    def lack(*_: object) -> None:
        raise silence()

    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    training, terms = (
        SimpleNamespace(is_start_given=is_start_given),
        SimpleNamespace(initial_weights_root=b""),
    )
    node = StillNode.make(game)
    node.joined = node.open_task(TASK, SimpleNamespace(training=training, terms=terms))
    monkeypatch.setattr(node_module, "require_start_here", lack)
    with pytest.raises(EnvironmentFault):
        await node._have_start()
    node.change(replace(game, **OPEN["dispute"](ACCOUNT)))
    await node._have_start()


async def join_made_up(monkeypatch: pytest.MonkeyPatch, game: Any, team: object) -> StillNode:
    """A node that has joined a task without a text. team: what it opens where it wants workers."""
    spec = SimpleNamespace(training=None, terms=SimpleNamespace(submitter=""))
    monkeypatch.setattr(node_module, "read_spec", lambda *_: spec)
    monkeypatch.setattr(node_module, "open_team", lambda *_: team)
    for name in ("pin_kernels", "refuse_harmful", "require_format", "require_step_root"):
        monkeypatch.setattr(node_module, name, lambda *_, **__: None)
    monkeypatch.setattr(node_module, "fetch_step", do_nothing)
    monkeypatch.setattr(node_module, "require_start_here", lambda *_: None)
    monkeypatch.setattr(node_module, "get_initial_header", lambda *_: None)
    monkeypatch.setattr(DatasetSource, "open", do_nothing)
    node = StillNode.make(game)
    node.state.task_terms[TASK] = cast(Any, SimpleNamespace(format=None))
    await Node.join(node, TASK)
    return node


async def test_a_bond_needs_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took the memory in which the dispute was to be played. Who may still get a seat has them."""
    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    bound, seats = replace(game, **OPEN["dispute"](ACCOUNT)), {7: replace(SEAT, account=ACCOUNT)}
    teams = list[object]()
    for now in (bound, game, replace(bound, seats=seats)):
        teams += (await join_made_up(monkeypatch, now, "a team")).teams
    assert teams == [None, "a team", "a team"]


async def test_workers_end_where_the_task_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else knew of them: each start of the service left a team behind."""

    def fail(*_: object) -> None:
        raise silence()

    game, closed = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK))), list[str]()
    team = SimpleNamespace(close=lambda: closed.append("team"))
    monkeypatch.setattr(StillNode, "open_task", fail)
    with pytest.raises(EnvironmentFault, match="silent"):
        await join_made_up(monkeypatch, game, team)
    assert closed == ["team"]


def test_a_bond_waits_for_no_ray_and_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It audits nothing. A seat goes on with processes of this machine."""
    opened = list[str]()

    def open_pool(config: Any) -> None:
        opened.append(config.executor)
        if config.executor == "ray":
            raise silence()

    monkeypatch.setattr(audit_opening, "open_pool", open_pool)
    monkeypatch.setattr(audit_opening, "has_replay_processes", lambda _: True)
    game = replace(
        LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK))), **OPEN["dispute"](ACCOUNT)
    )
    config = NodeConfig(Path(), Path(), "", cast(Any, None), executor="ray")
    audit_opening.open_seated_pool(config, game, ACCOUNT)
    assert not opened
    seated = replace(game, seats={7: replace(SEAT, account=ACCOUNT)})
    audit_opening.open_seated_pool(config, seated, ACCOUNT)
    assert opened == ["ray", "process"]


async def test_a_play_for_a_bond_ends_with_it_also_where_the_seat_is_forgotten() -> None:
    """It went on until the task was closed: a stranger who joins takes the number of the former seat."""
    game = LoggedGame(**vars(create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)))
    node = StillNode.make(replace(game, **OPEN["dispute"](ACCOUNT)))
    request = SeatRequest(SeatRole.VERIFIER, is_held=True)
    playing_on = asyncio.create_task(node.work_on(TASK, request))
    await asyncio.sleep(0.1)
    assert not playing_on.done()
    node.change(game, REORG_BLOCKS)
    done, _ = await asyncio.wait({playing_on}, timeout=0.1)
    assert not done, "the chain may take back the end of the game"
    node.change(game, 1)
    done, _ = await asyncio.wait({playing_on}, timeout=1)
    playing_on.cancel()
    await asyncio.gather(playing_on, return_exceptions=True)
    assert done


async def test_a_service_looks_for_a_seat_again_once_its_bond_is_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All seats were taken. It ended with status 0, and systemd (on-failure) did not start it again."""
    made_up, played = MadeSession(tmp_path), list[bool]()
    bound = replace(made_up.get_game(), **OPEN["dispute"](made_up.get_account()))

    async def run(role: SeatRole, config: object, task: bytes, request: SeatRequest) -> bool:
        played.append(request.is_held)
        monkeypatch.setattr(seat_session, "find_own_game", lambda *_: (TASK, made_up.get_game()))
        return len(played) == 2

    def refuse(task: bytes, game: Any, *_: object) -> None:
        if game.disputes:
            raise InvalidInput(what="SeatsTaken", expected="", actual="", remedy="")

    sitting = made_up.sit(monkeypatch, run)
    for name, made in (
        ("refuse_seat", refuse), ("find_own_game", lambda *_: (TASK, bound)),
    ):  # fmt: skip
        monkeypatch.setattr(seat_session, name, made)
    await sitting.run()
    assert played == [True, False]
