"""The explorer has the games that were played, over restarts and reorgs, and the money to the wei."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.explorer.plays import find_first, make_batch, open_reader, open_view, play_task, read_all
from tests.rounds.chain import RoundChain
from tests.rounds.player import Player
from touchstone.explorer import chain_view
from touchstone.explorer.chain_view import ChainView
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.money_reasons import MoneyKind
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.vault import BURNED

SECRET_URL = "https://chain.example/key-of-the-operator"


async def follow_to(view: ChainView, block: int) -> None:
    """Until the view has folded this block."""
    following = asyncio.create_task(view.run())
    try:
        while view.head is None or view.head.number != block:
            done, _ = await asyncio.wait(
                {following, asyncio.create_task(view.wait_for_change(view.turn))},
                return_when=asyncio.FIRST_COMPLETED,
            )
            if following in done:
                following.result()
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


def assert_games(view: ChainView, chain: RoundChain, players: list[Player]) -> None:
    block = chain.get_block()
    for player in players:
        told = get_state_at(view.state.games[player.twin.task], block)
        played = get_state_at(player.twin.state, block)
        assert (told.rounds, told.seats, told.root) == (played.rounds, played.seats, played.root)


async def test_all_games_are_told_with_their_money(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        await follow_to(view, chain.get_block())
        assert_games(view, chain, players)
        for player in players:
            task, logged = player.twin.task, player.twin.logged
            money = view.find_money(task)
            assert money == logged.compute_money()
            assert any(one.earned or one.sum_settled(MoneyKind.SETTLED) for one in money.values())
            for party in player.twin.parties.values():
                one = money.get(party.address, AccountMoney(party.address))
                assert view.state.credits[party.address] == logged.brought[party.address] + one.change
            burned = view.state.games[task].money.burned
            assert player.twin.state.vault.get_wei(BURNED) == sum(burned.values())
            (oldest,) = view.index.list_lines(task, (view.posted[task], 1 << 30), 1)
            assert "posts the task" in oldest[2]


async def test_a_restart_reads_only_what_is_new(
    own_chain: RoundChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the events; the chain is asked for those after its last head."""
    chain = own_chain
    player = play_task(chain, 11, steps=30)
    async with open_reader(chain) as reader:
        async with open_view(reader, tmp_path / "index.sqlite") as view:
            await follow_to(view, chain.get_block())
        before = chain.get_block()
        player.play(30)
        asked, read = list[int](), reader._reader.read

        async def note(first: int, last: int) -> list[Event]:
            asked.append(first)
            return await read(first, last)

        monkeypatch.setattr(reader._reader, "read", note)
        async with open_view(reader, tmp_path / "index.sqlite") as view:
            await follow_to(view, chain.get_block())
            assert_games(view, chain, [player])
        assert asked and min(asked) == before + 1


async def test_what_a_reorg_took_back_while_the_explorer_was_away_is_gone(
    own_chain: RoundChain, tmp_path: Path
) -> None:
    chain = own_chain
    player = play_task(chain, 11, steps=30)
    before = chain.ask(("evm_snapshot", []))[0]
    other = play_task(chain, 12, steps=5)
    async with open_reader(chain) as reader:
        async with open_view(reader, tmp_path / "index.sqlite") as view:
            await follow_to(view, chain.get_block())
            assert other.twin.task in view.state.games
        chain.ask(("evm_revert", [before]))
        chain.ask(("anvil_mine", [hex(3)]))
        async with open_view(reader, tmp_path / "index.sqlite") as view:
            await follow_to(view, chain.get_block())
            assert_games(view, chain, [player])
            assert set(view.state.games) == set(view.posted) == {player.twin.task}
            lines = view.index.list_lines(other.twin.task, (1 << 60, 0), 10)
            assert not lines


async def test_a_reorg_while_it_looks_folds_what_stands(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    """A stray seat comes and goes; convictions and money are not counted twice."""
    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        events = await read_all(reader)
        middle = events[len(events) // 2].block_number
        joined = find_first(events, lambda one: one.name == "SeatJoined")
        account = "0x" + "77" * 20
        stray = {**joined.arguments, "seat": 0x1003F, "account": account}
        before = [one for one in events if one.block_number < middle]
        await view.take(make_batch([*before, replace(joined, arguments=stray, block_number=middle)], middle))
        assert view.state.is_staked(account)
        rest = [one for one in events if one.block_number >= middle]
        await view.take(make_batch(rest, events[-1].block_number, forget_from=middle))
        assert not view.state.is_staked(account)
        assert_games(view, chain, players)
        convicted = sum(len(found) for found in view.convictions.values())
        assert convicted == sum(one.name == "SeatConvicted" for one in events)


async def test_a_chain_that_is_silent_is_told_and_asked_again(
    chain: RoundChain, players: list[Player], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages say so meanwhile, without the chain's address, which may hold a key of the operator's
    provider; what waiting cannot mend ends the explorer."""
    monkeypatch.setattr(chain_view, "RETRY_S", 0.0)
    failures, follow = [True, True], GameChain.follow

    def follow_or_fail(reader: GameChain, processed: Sequence[Head] = ()) -> AsyncIterator[LogBatch]:
        return fail(failures.pop()) if failures else follow(reader, processed)

    async def fail(retryable: bool) -> AsyncIterator[LogBatch]:
        for fault in (
            EnvironmentFault(
                what="no chain", expected="", actual="", remedy="", where=SECRET_URL, retryable=retryable
            ),
        ):
            raise fault
        yield make_batch([], 0)

    monkeypatch.setattr(GameChain, "follow", follow_or_fail)
    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        running = asyncio.create_task(view.run())
        assert await view.wait_for_change(0) == 1 and view.fault == "no chain"
        running.cancel()
        await follow_to(view, chain.get_block())
        assert not view.fault and not failures
        assert_games(view, chain, players)
        failures.append(False)
        with pytest.raises(EnvironmentFault, match="no chain"):
            await view.run()


async def test_a_task_that_cannot_be_understood_stops_no_other(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        events = await read_all(reader)
        posted = find_first(events, lambda one: one.name == "TaskPosted")
        bad = posted.arguments["terms"]._replace(segment_steps=0, rounds=0)
        values = {**posted.arguments, "task": b"\1" * 32, "terms": bad}
        stranger = replace(posted, arguments=values, block_number=0, log_index=0)
        await view.take(make_batch([stranger, *events], events[-1].block_number))
        assert_games(view, chain, players)
        assert b"\1" * 32 in view.state.refused


async def test_each_conviction_names_the_dispute_that_it_ended(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    """A contract may end several disputes in one transaction; a conviction by another proof names none."""
    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        events = await read_all(reader)
        posted = find_first(events, lambda one: one.name == "TaskPosted")
        task = posted.arguments["task"]
        ended = find_first(events, lambda one: one.name == "DisputeEnded")
        convicted = find_first(events, lambda one: one.name == "SeatConvicted")
        told = list[Event]()
        for seat, outcome in enumerate((DisputeStage.CONVICTED, DisputeStage.CONVICTED, DisputeStage.MOOT)):
            end = {"task": task, "dispute": bytes([seat + 1]) * 32, "outcome": outcome}
            told.append(replace(ended, arguments=end))
            told.append(replace(convicted, arguments={**convicted.arguments, "task": task, "seat": seat}))
        number, name = convicted.block_number, bytes(32)
        told = [
            replace(one, block_number=number, log_index=at, transaction_hash=name)
            for at, one in enumerate(told)
        ]
        await view.take(make_batch([posted, *told], number))
        found = [one.dispute for one in view.convictions[task]]
        assert found == [b"\1" * 32, b"\2" * 32, None]


async def test_a_round_that_cannot_be_shown_stops_nothing(
    chain: RoundChain, players: list[Player], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event would come again at every start, and end the explorer each time."""

    def fail(*_: object) -> None:
        raise ValueError("a round that this program does not understand")

    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        events = await read_all(reader)
        await view.take(make_batch(events, events[-1].block_number))
        monkeypatch.setattr(chain_view, "make_round", fail)
        values = {"task": players[0].twin.task, "epoch": 0}
        freed = replace(events[-1], contract="Rounds", name="EpochFreed", arguments=values, log_index=1 << 20)
        await view.take(make_batch([freed], events[-1].block_number))
        assert not view.state.games[players[0].twin.task].rounds


async def test_numbers_that_the_chains_node_has_lost_hold_up_no_block(
    chain: RoundChain, players: list[Player], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few are asked for with each block, those first that were not asked for yet."""
    asked = list[int]()

    async def lose(connection: Connection, disputes: str, event: Event, numeric_format: str) -> None:
        asked.append(event.log_index)
        raise EnvironmentFault(what="no such transaction", expected="", actual="", remedy="")

    monkeypatch.setattr(chain_view, "NUMBERS_AT_ONCE", 2)
    monkeypatch.setattr(chain_view, "find_number", lose)
    monkeypatch.setattr(chain_view, "decode_training", lambda text: SimpleNamespace(numeric_format="float32"))
    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        events = await read_all(reader)
        posted = find_first(events, lambda one: one.name == "TaskPosted")
        one = find_first(events, lambda one: one.name == "SeatConvicted")
        values = {**one.arguments, "task": posted.arguments["task"]}
        number = one.block_number
        convicted = [replace(one, arguments=values, log_index=at) for at in range(3)]
        await view.take(make_batch([posted, *convicted], number))
        assert asked == [0, 1]
        await view.take(make_batch([], number + 1))
        assert asked == [0, 1, 2, 0]


async def test_a_number_that_cannot_be_shown_ends_no_reading(
    chain: RoundChain, players: list[Player], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any stranger may post a task of its own program, and have a seat of its own convicted in it."""

    def overflow() -> dict[str, object]:
        raise OverflowError("a number that no float holds")

    async def find(*_: object) -> SimpleNamespace:
        return SimpleNamespace(to_json=overflow)

    monkeypatch.setattr(chain_view, "find_number", find)
    monkeypatch.setattr(chain_view, "decode_training", lambda text: SimpleNamespace(numeric_format="float32"))
    async with open_reader(chain) as reader, open_view(reader, tmp_path / "index.sqlite") as view:
        events = await read_all(reader)
        posted = find_first(events, lambda one: one.name == "TaskPosted")
        one = find_first(events, lambda one: one.name == "SeatConvicted")
        convicted = replace(one, arguments={**one.arguments, "task": posted.arguments["task"]})
        await view.take(make_batch([posted, convicted], one.block_number))
        assert view.index.find_number(one.transaction_hash) == (True, None)
        await view.take(make_batch([], one.block_number + 1))
        assert view.head is not None and view.head.number == one.block_number + 1
