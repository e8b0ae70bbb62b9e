"""Endpoints, folded from announcements; whose money it is, where only the vault tells."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.protocol.spec.game.cashier import open_cashier
from tests.protocol.spec.game.telling import list_logs
from tests.protocol.spec.game.test_logs import play_contests
from touchstone.node.kit import chain_state
from touchstone.node.kit.chain_state import ChainState, Network
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.pots import BONDS, name_pot
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_contest import ContestFolds
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.typed_data import SigningDomain

ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20


def make_network(*said: tuple[str, str]) -> Network:
    network = Network()
    for account, url in said:
        network.announce(account, url, bytes(32))
    return network


def at(port: int) -> str:
    return f"https://127.0.0.1:{port}"


def test_the_last_endpoint_counts() -> None:
    network = make_network((ALICE, at(1)), (BOB, at(2)), (ALICE, at(3)))
    assert network.find(ALICE).url == at(3)
    assert [peer.account for peer in network.others(ALICE)] == [BOB]


def test_who_never_announced_cannot_be_found() -> None:
    with pytest.raises(EnvironmentFault, match=ALICE):
        make_network((BOB, at(1))).find(ALICE)


def test_a_malformed_endpoint_takes_the_earlier_one_away() -> None:
    network = make_network((ALICE, at(1)), (ALICE, "file:///etc/passwd"))
    assert network.others(ALICE) == []


TASK = b"t" * 32


def test_who_brought_the_leaf_of_a_contest_is_told_by_the_vault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contest's own log does not say who gets a part of the bond."""
    for name in ("fold_inner", "fold_contest"):
        monkeypatch.setattr(chain_state, name, lambda book, *_: book)
    world, signing = play_contests(), SigningDomain(1, ALICE)
    cashier, state = open_cashier(world), ChainState(ALICE, BOUNDS_LOCAL, signing)
    terms = cashier.state
    state.games[TASK] = LoggedGame(terms.terms, terms.bounds, terms.vault, terms.root, terms.paused_since)
    state.inner[TASK], state.contests[TASK] = InnerBook(10), ContestFolds(5)
    state._seated = cast(Any, SimpleNamespace(take=lambda event: None))
    for block in sorted({block for block, _ in world.log}):
        told = [event for at, event in world.log if at == block]
        for place, event in enumerate(told):
            for name, values in list_logs(cashier.state, told, place):
                state.fold(make_event(name, values, block))
            cashier.take([*world.log[: cashier.seen], (block, event)])
    assert cashier.state == world.state and state.games[TASK].money == cashier.book
    assert MoneyReason.BOND_SHARE in state.games[TASK].money.find("solver1").sums


def make_event(name: str, values: dict[str, Any], block: int) -> Event:
    pot = {"pot": name_pot(BONDS, TASK), "wei_": 0} if name == "Given" else {"task": TASK}
    return Event("", name, {**values, **pot}, block, 0, bytes(32), bytes(32))
