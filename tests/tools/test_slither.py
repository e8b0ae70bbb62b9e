"""A finding needs a reason of its own kind, and a reason a finding."""

from tools import slither
from tools.slither import WAIVERS, Waiver

FINDING = {
    "check": "unused-return",
    "impact": "Medium",
    "description": "A.f() ignores return value by (None,last) = Frames.drawWindow(block)",
}


def test_a_finding_is_explained_by_check_and_description() -> None:
    assert slither.explain(FINDING) == "Only a part of the tuple is asked for."
    assert not slither.explain({**FINDING, "check": "arbitrary-send-erc20"})
    assert not slither.explain({**FINDING, "description": "A.f() ignores return value by token.transfer(to)"})


def test_no_waiver_covers_reentrancy_with_ether_or_a_strange_contract() -> None:
    checks = {waiver.check for waiver in WAIVERS}
    assert checks <= {
        "divide-before-multiply",
        "incorrect-equality",
        "incorrect-exp",
        "incorrect-shift",
        "reentrancy-no-eth",
        "uninitialized-local",
        "uninitialized-state",
        "unused-return",
    }
    other = "Reentrancy in Vault.withdraw()"
    assert not slither.explain({"check": "reentrancy-no-eth", "description": other})


def test_only_the_storage_of_the_game_may_look_uninitialized() -> None:
    state = {
        "check": "uninitialized-state",
        "description": "GameStorage._lines (a.sol#1) is never initialized",
    }
    assert slither.explain(state)
    assert not slither.explain({**state, "description": "TaskStorage._lines (a.sol#1) is never initialized"})


def test_a_waiver_is_about_one_check() -> None:
    assert not slither.explains(Waiver("incorrect-equality", "", "any"), FINDING)
    assert all(waiver.reason.endswith(".") for waiver in WAIVERS)
