"""The made-up task that the explorer is measured with is one that it understands; and what misses a bar.

The measurement itself: `./dev bench explorer`, with `--short` for one minute of live blocks.
"""

from pathlib import Path
from typing import cast

import pytest

from lab.benchmarks.explorer import Reading, list_shortfalls, make_report
from tests.explorer.many_accounts import DEPLOYMENT, DISPUTED_EVERY, TASK, make_address, make_chain
from tests.explorer.many_accounts_files import make_accounts, make_files
from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.names import Names
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS

ROUNDS, SOLVERS, LIVE = DISPUTED_EVERY + 3, 4, 2


async def test_the_explorer_understands_all_that_is_made_up(tmp_path: Path) -> None:
    """All claims are accepted and paid, old epochs are freed, one auditor is convicted."""
    counts = make_files(tmp_path, ROUNDS, SOLVERS, LIVE)
    index = EventIndex(tmp_path / "stored.sqlite", DEPLOYMENT)
    view = ChainView(cast(GameChain, make_chain(tmp_path / "live.sqlite")), index, Names({}))
    try:
        await view.refold()
        game, inner = view.state.games[TASK], view.state.inner[TASK]
        assert index.count_events() == counts["stored"] and not view.state.refused
        assert game.next_round == ROUNDS + 1 and game.freed_epochs > 0 and 0 not in game.rounds
        closed = [one for one in game.rounds.values() if one.index < ROUNDS]
        assert all(one.phase == RoundPhase.POSTED and len(one.merged) == SOLVERS for one in closed)
        old = view.make_round(TASK, 7)
        assert old is not None and {one["status"] for one in old["slots"]} == {"accepted"}
        solver = make_address(SeatRole.SOLVER.name, 0)
        paid = game.freed_epochs * EPOCH_ROUNDS * game.terms.amounts.solver_pay
        found = view.find_money(TASK)[solver]
        assert found.sums[MoneyReason.ACCEPTED_CLAIM] == paid
        assert found.earned and found.locked == game.terms.amounts.solver_stake
        [conviction] = view.convictions[TASK]
        ended = {one.stage for one in inner.disputes.values()}
        assert ended == {DisputeStage.CLEARED, DisputeStage.CONVICTED}
        assert game.seats[conviction.seat].status == SeatStatus.CONVICTED and not view._sought
        async for batch in view.chain.follow([]):
            await view.take(batch)
            if view.state.games[TASK].next_round == ROUNDS + LIVE + 1:
                break
    finally:
        index.close()


def test_a_task_of_many_accounts_goes_on_where_it_was() -> None:
    """Blocks come in their order, each whole, and none is empty."""
    accounts = make_accounts(3, SOLVERS)
    blocks = list(accounts.play(3))
    numbers = [batch.head.number for batch in blocks]
    assert numbers == sorted(set(numbers)) and all(batch.events for batch in blocks)
    assert all(event.block_number == one.head.number for one in blocks for event in one.events)


@pytest.mark.parametrize(
    ("seconds", "memory", "said"),
    [
        ({"task": [0.2, 0.4]}, [100.0] * 40, []),
        ({"task": [0.2, 1.2]}, [100.0] * 40, ["task: 1.20 s"]),
        ({"start: all is folded": [30.0]}, [150.0] * 4 + [100.0] * 36, []),
        ({"task": [0.2]}, [100.0] * 20 + [110.0] * 20, ["memory: 100 MB, then 110"]),
    ],
)
def test_what_falls_short(seconds: dict[str, list[float]], memory: list[float], said: list[str]) -> None:
    """A slowest click counts, and memory once the start is over; the fold has no bar."""
    reading = Reading(seconds, [(float(at), mb) for at, mb in enumerate(memory)])
    report = make_report(reading, {"stored": 1, "live": 1}, 1, 1)
    assert report["shortfalls"] == said == list_shortfalls(report)
