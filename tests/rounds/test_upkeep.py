"""Nodes send what anybody may send: rightly written, each in its turn, and to the end whoever is silent."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.kit.members import Party as Sender
from tests.rounds.campaign import make_player
from tests.rounds.chain import RoundChain, Sent, open_round_chain
from tests.rounds.nodes import Watcher, make_node, make_watcher
from tests.rounds.player import Player
from tests.rounds.twin import Twin
from touchstone.node.kit.duty import Wait
from touchstone.node.upkeep.upkeep_duties import SendUpkeep, SettleSeats, Upkeep, list_duties
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.queries import QUERIED_WORDS
from touchstone.protocol.spec.game.state import StatementRef

UPKEEP = (
    calls.StartRounds, calls.DrawStart, calls.DrawRound, calls.DrawAudits, calls.DrawClosing, calls.LetStand,
    calls.FreeEpoch, calls.CloseTask, calls.PayOut, calls.SettleSeat, calls.MarkSilent, calls.EndRootContest,
    calls.EndQuery, calls.EndDispute,
)  # fmt: skip


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("upkeep"), BOUNDS_LOCAL) as opened:
        yield opened


class NodeTwin:
    """Sends the upkeep of a play as a node would, in place of the play's own writers."""

    def __init__(self, twin: Twin) -> None:
        self.twin, self.written = twin, Counter[str]()
        self._write, twin._send = twin._send, self.send  # type: ignore[method-assign]
        self._watcher = make_watcher(twin.chain, "", twin.signing)

    def send(self, call: GameCall, party: Sender) -> Sent | None:
        """Through `send_upkeep` where the call is upkeep and there is something to write."""
        state = self._watcher.catch_up()
        game = state.games[self.twin.task]
        names = {getattr(call, name, -1) for name in ("contest", "query", "dispute")} - {-1}
        if not isinstance(call, UPKEEP) or not names <= set(game.names.values()):
            return self._write(call, party)
        node, sent = make_node(self.twin.chain, party.address, state, self.twin.task)
        if isinstance(call, calls.SettleSeat):
            call = SettleSeats((call.seat,), call.until_round)
        try:
            asyncio.run(node.send_upkeep(call))
        except EnvironmentFault:
            # The play tries to seal what is not due: a node has nothing to prove then.
            assert type(call).__name__.startswith("Draw"), call
            return self._write(call, party)
        self.written[type(call).__name__] += sent[-1].error is None
        return sent[-1]


def test_what_nodes_write_is_what_the_contracts_take(chain: RoundChain) -> None:
    """Calls of upkeep pass where the machine's pass, in a play with questions."""
    player = make_player(chain, 31)
    nodes = NodeTwin(player.twin)
    player.join_all()
    player.play(260)
    assert len(nodes.written) >= 7 and sum(nodes.written.values()) > 25, nodes.written


FORWARDER = bytes.fromhex("602036038060205f375f5f825f5f5f355af15000")
"""Calls the address in the first word of its data with the rest of them."""


def test_a_stranger_ends_an_ask_that_came_by_way_of_another_contract(chain: RoundChain) -> None:
    """No call data say what was asked: the log does."""
    player = make_player(chain, 30)
    twin, other = player.twin, "0x" + "f0" * 20
    player.join_all()
    player.is_quiet = True
    ref = play_to_a_vote(player)
    chain.ask(("anvil_setCode", [other, "0x" + FORWARDER.hex()]))
    bond, vault = twin.state.terms.amounts.query_bond, chain.addresses["Vault"]
    stranger = twin.parties["stranger"].address
    word = twin.state.rounds[ref.round].votes[ref.slot, ref.draw or 0][ref.rank].word
    asked = twin._write_query_vote(calls.QueryVote(ref, word, 0, bond))
    assert asked is not None
    for contract, function, *arguments in (
        ("DevToken", "mint", other, bond), ("DevToken", "approve", vault, bond), ("Vault", "deposit", bond),
        asked,
    ):  # fmt: skip
        data = bytes(12) + bytes.fromhex(chain.find_place(contract)[2:])
        data += chain.encode(contract, function, *arguments)
        sent = chain._mine({"from": stranger, "to": other, "data": "0x" + data.hex()})
        assert sent["status"] == "0x1" and sent["logs"], function
    watcher = make_watcher(chain, stranger, twin.signing)
    state = watcher.catch_up()
    [opened] = state.inner[twin.task].queries.values()
    assert (opened.asker, opened.statement) == (other, ref)
    chain.mine_to(opened.clock)
    node, results = make_node(chain, stranger, watcher.catch_up(), twin.task)
    [number] = state.games[twin.task].queries
    asyncio.run(node.send_upkeep(calls.EndQuery(number)))
    assert results[-1].error is None
    assert [name for _, name, _ in results[-1].events if name == "QueryEnded"]


def play_to_a_vote(player: Player) -> StatementRef:
    """The first counted vote that can be asked about."""
    for _ in range(400):
        for index, game_round in player.twin.state.rounds.items():
            for (slot, draw), votes in game_round.votes.items():
                for rank, vote in votes.items():
                    if vote.word in QUERIED_WORDS:
                        return StatementRef(index, slot, draw, rank)
        player.step()
    raise AssertionError("nobody votes")


def send_one(nodes: list[Upkeep], watcher: Watcher, sent: list[Sent]) -> GameCall | None:
    """The first call that some node's loop would send now. It is not refused."""
    block = watcher.chain.get_block() + 1
    for node in nodes:
        for duty in list_duties(node.get_view(), block):
            if isinstance(duty, SendUpkeep):
                asyncio.run(duty.perform(node))
                assert sent[-1].error is None, (duty, sent[-1].error)
                watcher.catch_up()
                return duty.call
    return None


def wait(nodes: list[Upkeep], watcher: Watcher) -> None:
    """To the block before the next one in which something may be due, or a node's turn comes."""
    head = watcher.chain.get_block()
    waits = [d.block for node in nodes for d in list_duties(node.get_view(), head + 1) if isinstance(d, Wait)]
    later = min([*waits, get_next_block(nodes[0].get_view().game, head + 1) or head + 2, head + 400])
    watcher.chain.mine_to(max(head + 1, later - 1))
    watcher.catch_up()


def test_one_node_alone_brings_a_task_to_its_end(chain: RoundChain) -> None:
    """Nobody commits, nobody votes, one member's node is up: rounds stand, silent seats leave, all is settled
    and paid out, the task is closed."""
    player = make_player(chain, 33)
    player.join_all()
    task, account = player.twin.task, player.twin.parties[player.solvers[0]].address
    watcher = make_watcher(chain, account, player.twin.signing)
    node, sent = make_node(chain, account, watcher.catch_up(), task)
    done = Counter[str]()
    while not watcher.state.games[task].is_closed:
        call = send_one([node], watcher, sent)
        done[type(call).__name__] += 1
        assert sum(done.values()) < 1_000, done
        if call is None:
            wait([node], watcher)
    assert not watcher.state.games[task].seats and not watcher.state.is_staked(account)
    kinds = {"StartRounds", "DrawStart", "LetStand", "MarkSilent", "SettleSeats", "PayOut", "CloseTask"}
    assert kinds <= set(done), done
    assert done["SettleSeats"] < done["PayOut"], "seats are settled in pages"
