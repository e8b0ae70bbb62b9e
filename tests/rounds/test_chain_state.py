"""A node that only reads logs has the games that were played, whatever else is on the chain."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.rounds.campaign import make_player
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.player import Player
from touchstone.node.kit.chain_state import FOLDS, KEPT_BLOCKS, ChainState
from touchstone.protocol.adapters.chain.answers import Head, read_logs
from touchstone.protocol.adapters.chain.contract_events import Event, decode_log, make_registry
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS
from touchstone.protocol.adapters.chain.follower import NEAR_BLOCKS, LogBatch
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.vault import credit_of

STEPS = 60


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("states"), BOUNDS_LOCAL) as opened:
        yield opened


@pytest.fixture(scope="module")
def players(chain: RoundChain) -> list[Player]:
    """Two tasks, played one after the other."""
    found = list[Player]()
    for seed in (11, 12):
        found.append(make_player(chain, seed))
        found[-1].join_all()
        found[-1].play(STEPS)
    return found


@pytest.fixture(scope="module")
def events(chain: RoundChain, players: list[Player]) -> list[Event]:
    """Everything that the contracts have logged."""
    registry = make_registry({chain.addresses[name]: name for name in GAME_CONTRACTS.values()})
    query = {"address": list(registry.contracts), "fromBlock": "0x0", "toBlock": "latest"}
    found = []
    for log in chain.ask(("eth_getLogs", [query]))[0]:
        one = decode_log(registry, read_logs([log])[0])
        assert one is not None
        place = (int(log["blockNumber"], 16), int(log["logIndex"], 16), b"", b"")
        found.append(Event(one.contract, one.name, one.arguments, *place))
    return found


def make_state(chain: RoundChain, player: Player) -> ChainState:
    member = player.twin.parties[player.solvers[0]]
    return ChainState(member.address, chain.bounds, player.twin.signing)


def make_batch(events: Sequence[Event], block: int, forget_from: int | None = None) -> LogBatch:
    return LogBatch(Head(block, b"", b"", 0, 0), tuple(events), forget_from)


def take_all(state: ChainState, events: Sequence[Event]) -> ChainState:
    state.take(make_batch(events, events[-1].block_number))
    return state


def assert_games(state: ChainState, chain: RoundChain, players: list[Player]) -> None:
    block = chain.get_block()
    for player in players:
        told = get_state_at(state.games[player.twin.task], block)
        played = get_state_at(player.twin.state, block)
        assert (told.rounds, told.seats, told.root) == (played.rounds, played.seats, played.root)


def test_all_games_are_told(chain: RoundChain, players: list[Player], events: list[Event]) -> None:
    """Games, texts, credits and stakes of both tasks."""
    state = take_all(make_state(chain, players[0]), events)
    assert_games(state, chain, players)
    for player in players:
        assert state.texts[player.twin.task] == b"text"
        assert state.task_terms[player.twin.task].parameter_count == 200
        seats = player.twin.state.seats.values()
        held = {seat.account for seat in seats if seat.status != SeatStatus.CONVICTED}
        for party in player.twin.parties.values():
            assert state.credits[party.address] == player.twin.state.vault.get_wei(credit_of(party.address))
            assert state.is_staked(party.address) == (party.address in held)
    assert not state.refused


def test_after_a_reorg_what_stands_is_told(
    chain: RoundChain, players: list[Player], events: list[Event]
) -> None:
    """Half of the events come, and others in their place, and then the right ones."""
    state, middle = make_state(chain, players[0]), events[len(events) // 2].block_number
    before = [event for event in events if event.block_number < middle]
    joined = next(event for event in events if event.name == "SeatJoined")
    stray = replace(joined, arguments={**joined.arguments, "seat": 0x1003F, "account": "0x" + "77" * 20})
    state.take(make_batch([*before, replace(stray, block_number=middle)], middle))
    assert state.is_staked("0x" + "77" * 20)
    state.take(make_batch(events[len(before) :], events[-1].block_number, forget_from=middle))
    assert not state.is_staked("0x" + "77" * 20)
    assert_games(state, chain, players)
    assert state.head_block == events[-1].block_number


def test_what_cannot_be_folded_stops_nobody(
    chain: RoundChain, players: list[Player], events: list[Event]
) -> None:
    """A task with impossible terms is left out, one with impossible logs is dropped; the others go on."""
    posted = next(event for event in events if event.name == "TaskPosted")
    bad = posted.arguments["terms"]._replace(segment_steps=0, rounds=0)
    stranger = {**posted.arguments, "task": b"\1" * 32}
    malformed = replace(posted, arguments={**stranger, "terms": bad})
    settled = next(event for event in events if event.name == "ClaimTaken")
    other = replace(posted, arguments={**posted.arguments, "task": b"\2" * 32})
    broken = replace(settled, arguments={**settled.arguments, "task": b"\2" * 32})
    state = make_state(chain, players[0])
    take_all(state, [malformed, other, *events, broken])
    assert_games(state, chain, players)
    assert set(state.refused) == {b"\1" * 32, b"\2" * 32}
    own = replace(broken, arguments={**settled.arguments, "round": 999})
    with pytest.raises(KeyError):
        take_all(state, [own])


def test_what_is_opened_has_its_clock_and_its_name_until_it_ends(
    chain: RoundChain, players: list[Player], events: list[Event]
) -> None:
    state = take_all(make_state(chain, players[0]), events)
    opened = [one for one in events if one.name in ("Contested", "QueryOpened", "DisputeOpened")]
    assert opened, "these plays ask nothing"
    for event in opened:
        task, name = event.arguments["task"], event.arguments.get("id") or event.arguments["dispute"]
        said = [one for one in events if name in one.arguments.values()]
        is_open = name in state.games[task].names
        assert is_open == (not said[-1].name.endswith("Ended"))
        book: Any = state.contests[task].contests if event.name == "Contested" else {
            **state.inner[task].disputes, **state.inner[task].queries
        }  # fmt: skip
        assert book[name].clock >= event.block_number


def show(state: ChainState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in FOLDS if name != "network"} | {
        "peers": state.network.peers, "seated": state._seated,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_after_many_reorgs_all_is_as_if_there_had_been_none(
    chain: RoundChain, players: list[Player], events: list[Event], seed: int
) -> None:
    """Block by block, and now and then some are taken back: a fold goes on from a snapshot of its own."""
    chance, state, block = random.Random(seed), make_state(chain, players[0]), events[0].block_number
    last, depths = events[-1].block_number, []
    while block <= last:
        step, forget_from = chance.randint(1, 40), None
        if chance.random() < 0.3:
            forget_from = max(events[0].block_number, block - chance.randint(1, NEAR_BLOCKS))
            depths.append(block - forget_from)
        first, block = forget_from or block, min(last, block + step) + 1
        state.take(make_batch([e for e in events if first <= e.block_number < block], block - 1, forget_from))
    assert max(depths) > 20 and state.head_block == last
    assert show(state) == show(take_all(make_state(chain, players[0]), events))


def test_a_reorg_that_goes_deeper_than_what_is_kept_is_told(
    chain: RoundChain, players: list[Player], events: list[Event]
) -> None:
    state, last = take_all(make_state(chain, players[0]), events), events[-1].block_number
    for block in range(last + 1, last + 4 * KEPT_BLOCKS):
        state.take(make_batch([], block))
    assert len(state._events) == 0, "what cannot be taken back any more needs no memory"
    with pytest.raises(EnvironmentFault, match="removed more blocks"):
        state.take(make_batch([], last + 4 * KEPT_BLOCKS, forget_from=last))


def test_of_tasks_that_a_node_does_not_work_on_only_the_seats_are_folded(
    chain: RoundChain, players: list[Player], events: list[Event]
) -> None:
    """Any account can post a task and log what it likes there."""
    own, other = (player.twin.task for player in players)
    whole, focused = make_state(chain, players[0]), make_state(chain, players[0])
    near = events[-1].block_number - NEAR_BLOCKS
    middle = next(place for place, event in enumerate(events) if event.block_number > near)
    for state in (whole, focused):
        take_all(state, events[:middle])
    focused.focus(own)
    assert list(focused.games) == [own]
    for state in (whole, focused):
        take_all(state, events[middle:])
        state.take(make_batch(events[middle:], events[-1].block_number, forget_from=near + 1))
    assert list(focused.games) == [own] and focused.games[own] == whole.games[own]
    for player in players:
        for party in player.twin.parties.values():
            for task in (own, other):
                assert focused.is_member(party.address, task) == whole.is_member(party.address, task)
            assert focused.is_staked(party.address) == whole.is_staked(party.address)
    posted = next(event for event in events if event.name == "TaskPosted")
    later = replace(posted, arguments={**posted.arguments, "task": b"\5" * 32})
    focused.take(make_batch([later], events[-1].block_number + 1))
    assert b"\5" * 32 not in focused.games
