"""The search finds tasks, accounts, disputes, rounds and blocks, a bounded number of each."""

import pytest

from tests.explorer.many_accounts import CHEAT, TASK, make_address
from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.places import FOUND_MAX, find_places

CHEATER = make_address("SOLVER", CHEAT)


def list_places(view: ChainView, text: str) -> list[tuple[str, str]]:
    return [(one["kind"], "/".join(one["place"])) for one in find_places(view, text)]


async def test_each_kind_of_place_is_found(cheated: ChainView) -> None:
    task = f"0x{TASK.hex()}"
    (dispute,) = cheated.state.inner[TASK].disputes
    assert list_places(cheated, task[:12]) == [("task", f"task/{task}")]
    assert list_places(cheated, TASK.hex()[:8].upper()) == [("task", f"task/{task}")]
    assert list_places(cheated, CHEATER) == [("account", f"accounts/{CHEATER}")]
    assert list_places(cheated, "chea") == [("account", f"accounts/{CHEATER}")]
    assert list_places(cheated, f"0x{dispute.hex()}") == [
        ("dispute", f"task/{task}/dispute/0x{dispute.hex()}")
    ]
    assert list_places(cheated, "round 1") == [("round", f"task/{task}/round/1")]
    block = cheated.convictions[TASK][0].block
    assert list_places(cheated, f"block {block}") == [("block", f"task/{task}/lines/{block + 1}/0")]
    assert list_places(cheated, "2")[0] == ("round", f"task/{task}/round/2")


@pytest.mark.parametrize("text", ["", "nothing of that name", "round 999", "block 7", "'; DROP", "%"])
async def test_what_names_nothing_finds_nothing(cheated: ChainView, text: str) -> None:
    assert not find_places(cheated, text)


async def test_no_search_finds_more_than_a_bounded_number(cheated: ChainView) -> None:
    """All accounts without a name begin so."""
    assert len(find_places(cheated, "0x")) <= FOUND_MAX and len(find_places(cheated, "model")) == 1
