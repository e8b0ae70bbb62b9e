"""Endpoints and stakes, folded from events."""

from typing import Any

import pytest

from protocol.actions.network import Network
from protocol.spec import game_events
from protocol.spec.errors import EnvironmentFault
from tests.protocol.actions.facts import ALICE, BOB, TOKEN, announce, deposit, slash


def make_network(*found: object) -> Network:
    network = Network()
    for event in found:
        network.take(event)  # type: ignore[arg-type]
    return network


def test_the_last_endpoint_counts() -> None:
    network = make_network(announce(ALICE, 1), announce(BOB, 2), announce(ALICE, 3))
    assert network.find(ALICE).url == "https://127.0.0.1:3"
    assert [peer.account for peer in network.others(ALICE)] == [BOB]


def test_who_never_announced_cannot_be_found() -> None:
    with pytest.raises(EnvironmentFault, match=ALICE):
        make_network(announce(BOB)).find(ALICE)


def test_a_malformed_endpoint_takes_the_earlier_one_away() -> None:
    network = make_network(announce(ALICE), announce(ALICE, url="file:///etc/passwd"))
    assert network.others() == []


def test_stake_is_what_was_put_in_less_all_that_left() -> None:
    lost: dict[str, Any] = {"exposure": bytes(32), "amount_wei": 10 * TOKEN, "reason": bytes(32)}
    fee = game_events.FeeBurned(block_number=3, account=ALICE, **lost)
    moved = game_events.CreditMoved(block_number=4, from_=ALICE, to=BOB, **lost)
    withdrawn = game_events.Withdrawn(block_number=5, account=ALICE, amount_wei=30 * TOKEN)
    network = make_network(deposit(ALICE), slash(ALICE, 40 * TOKEN), fee, moved)
    assert network.stakes_wei == {ALICE: 40 * TOKEN}
    network.take(withdrawn)
    assert network.is_staked(ALICE)
    network.take(fee)
    assert not network.is_staked(ALICE) and not network.is_staked(BOB)
