"""An account's page: what it owes until when, what it has, what is against it."""

from typing import Any

from tests.explorer.many_accounts import CHEAT, SUBMITTER, make_address
from tests.explorer.many_accounts_files import CHEATED_ROUNDS
from touchstone.explorer.account_page import make_account
from touchstone.explorer.chain_view import ChainView

CHEATER, HONEST = make_address("SOLVER", CHEAT), make_address("SOLVER", 0)


def find_task(view: ChainView, account: str) -> dict[str, Any]:
    found = make_account(view, account)
    assert found is not None
    (row,) = found["tasks"]
    return dict(row)


async def test_an_account_reads_what_it_owes_and_until_when(cheated: ChainView) -> None:
    row = find_task(cheated, HONEST)
    owed = {one["what"]: one["until_block"] for one in row["duties"]}
    assert owed.keys() == {
        f"train round {CHEATED_ROUNDS} and commit to it",
        "stay reachable, and answer who queries or disputes its work",
    }
    assert all(until is not None and until > cheated.next_block for until in owed.values())
    assert row["line"].startswith("it has earned ") and "are locked and come back in about" in row["line"]
    assert row["status"] == "active" and row["stake"] != "0 tokens" and not row["suspicious"]


async def test_a_convicted_account_reads_what_it_lost(cheated: ChainView) -> None:
    row = find_task(cheated, CHEATER)
    assert row["status"] == "convicted" and row["duties"] == [] and "are lost" in row["line"]
    found = make_account(cheated, CHEATER)
    assert found is not None and [one["is_against"] for one in found["disputes"]] == [True]
    assert {one["kind"] for one in row["suspicious"]} == {"rejected claim", "distance beyond the limit"}


async def test_who_is_nobody_has_no_page(cheated: ChainView) -> None:
    assert make_account(cheated, "0x" + "77" * 20) is None
    assert find_task(cheated, SUBMITTER)["role"] == "submitter"
