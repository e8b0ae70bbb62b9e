"""There are no admin keys to steal: no call, no storage and no instruction by which somebody could be above
the rules."""

import re

from tests.architecture.sources import ROOT
from touchstone.protocol.adapters.chain.abi import list_package_abis, load_abi

POWERS = re.compile(
    r"owner|admin|governor|guardian|pause|upgrade|initiali[sz]e|migrate|setParam|withdrawAll|rescue|sweep",
    re.IGNORECASE,
)
INSTRUCTIONS = re.compile(r"\b(delegatecall|callcode|selfdestruct|onlyOwner|tx\.origin)\b")
LOGGED_CALLER = """
        if (msg.sender == tx.origin && msg.sender.code.length == 0) return;
"""
"""The one use of tx.origin: it decides whether votes are logged whole, and nobody's right to anything."""


def list_contracts() -> list[str]:
    """All but the test network's own token, which anybody may mint."""
    return [name for name in list_package_abis() if name != "DevToken"]


def test_no_contract_has_a_call_for_an_owner() -> None:
    assert len(list_contracts()) >= 8
    for contract in list_contracts():
        entries = load_abi(contract)
        names = [entry.name for entry in entries if entry.kind == "function"]
        assert entries and not [name for name in names if POWERS.search(name)], contract


def test_no_source_hands_its_storage_to_other_code() -> None:
    sources = [path for path in (ROOT / "contracts").rglob("*.sol") if "devnet" not in path.parts]
    assert len(sources) >= 20
    for path in sources:
        text = path.read_text().replace(LOGGED_CALLER, "", 1)
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        assert not INSTRUCTIONS.search(code), path


def test_powers_are_found() -> None:
    for name in ("transferOwnership", "setAdmin", "pause", "upgradeTo"):
        assert POWERS.search(name), name
    assert INSTRUCTIONS.search("target.delegatecall(data)")
