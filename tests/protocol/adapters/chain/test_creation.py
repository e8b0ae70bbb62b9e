"""Where contracts land, and what creates them."""

from dataclasses import astuple

import pytest

from touchstone.protocol.adapters.chain.abi import load_abi, parse_abi
from touchstone.protocol.adapters.chain.creation import (
    compute_creation_address,
    compute_game_code,
    list_selectors,
)
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, PARTS
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL


def test_creation_addresses_are_those_of_ethereum() -> None:
    # The first contracts of a well-known account, as block explorers show them.
    account = "0x6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0"
    assert compute_creation_address(account, 0) == "0xcd234a471b72ba2f1ccf0a70fcaba648a5eecd8d"
    assert compute_creation_address(account, 1) == "0x343c43a37d37dff08ae8c4a11544c718abb4fcf8"
    assert compute_creation_address(account, 2) == "0xf778b86fa74e846c4f0a1fbd1335fe81c00a0c91"


def test_an_unknown_constructor_argument_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    where = dict.fromkeys((*GAME_CONTRACTS.values(), "token"), "0x" + "22" * 20)
    assert len(compute_game_code("Tasks", where, BOUNDS_LOCAL)) > len(astuple(BOUNDS_LOCAL.least))
    abi = [{"type": "constructor", "inputs": [{"name": "ruler", "type": "address"}]}]
    monkeypatch.setattr(
        "touchstone.protocol.adapters.chain.creation.find_constructor",
        lambda contract: parse_abi(contract, abi)[0],
    )
    with pytest.raises(InvalidInput, match="unknown.*ruler"):
        compute_game_code("Tasks", where, BOUNDS_LOCAL)


def test_each_call_of_game_has_its_code_in_one_part() -> None:
    """A call that no part has is refused for ever; one that two have lets no deployment be created."""
    selectors = [one for part in PARTS for one in list_selectors(part)]
    assert len(selectors) == len(set(selectors))
    assert {one.selector for one in load_abi("IGame") if one.kind == "function"} <= set(selectors)
