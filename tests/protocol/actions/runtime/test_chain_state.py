"""Endpoints, folded from announcements."""

import pytest

from protocol.actions.runtime.chain_state import Network
from protocol.spec.errors import EnvironmentFault

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
