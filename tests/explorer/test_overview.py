"""What goes over all tasks: the figures of the first page, and what is suspicious."""

from tests.explorer.many_accounts import CHEAT, TASK, make_address
from tests.explorer.many_accounts_files import CHEATED_ROUNDS, CHEATED_SOLVERS
from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.front_documents import make_front

CHEATER = make_address("SOLVER", CHEAT)


async def test_the_first_page_counts_over_all_tasks(cheated: ChainView) -> None:
    front = make_front(cheated)
    assert front["figures"]["models"] == 1 and front["figures"]["convictions"] == 1
    assert (
        front["figures"]["rounds"] == CHEATED_ROUNDS + 1
        and front["figures"]["audits"] >= CHEATED_ROUNDS * CHEATED_SOLVERS
    )
    assert front["conviction"]["headline"] == "cheat wrote 2481.77 where 1654.34 is right."


# What is suspicious
async def test_rejected_claims_and_far_distances_are_listed_with_whom_they_are_about(
    cheated: ChainView,
) -> None:
    rows = cheated.list_suspicious(TASK)
    assert {one["account"] for one in rows} == {CHEATER}
    (rejected,) = [one for one in rows if one["kind"] == "rejected claim"]
    assert rejected["round"] == CHEATED_ROUNDS - 1
    assert rejected["what"] == "3 REJECT votes on its claim; its solver was convicted"
    assert len([one for one in rows if one["kind"] == "distance beyond the limit"]) == CHEATED_ROUNDS
    assert cheated.list_suspicious(TASK) is rows, "computed once for each head"


async def test_reserves_that_were_not_asked_are_not_needed(cheated: ChainView) -> None:
    document = cheated.make_round(TASK, CHEATED_ROUNDS - 1)
    assert document is not None
    slots = {one["slot"]: one["draws"][0]["ranks"] for one in document["slots"]}
    assert [one["why_none"] for one in slots[0]] == ["", "not needed", "not needed"]
    assert [one["word"] for one in slots[1]] == ["REJECT_STATE"] * 3
