"""Honest parties that are harassed in every way answer everything, are paid for it, and lose nothing."""

from pathlib import Path

from protocol.spec.dispute_moves import MAX_DEMANDS_EACH
from protocol.spec.game_events import ContestEnded, DisputeClosed, FeeBurned, LeafAnswered, Slashed
from protocol.spec.statuses import Stage
from tests.e2e.harassment import QUICK_RAIDS, Harassed, count_style, harass, list_unpaid
from tests.e2e.reading import find
from tests.e2e.report import find_task
from tests.e2e.world import ONE_ROUND_PLAN


async def test_honest_parties_stand_every_kind_of_harassment(tmp_path: Path) -> None:
    found = await harass(tmp_path, QUICK_RAIDS)
    require_honest_unharmed(found)
    require_false_moves_refused(found)
    require_styles_played(found)
    require_attackers_poorer(found)


def require_honest_unharmed(found: Harassed) -> None:
    """All disputes end for the claimants, who have their pay, half of the bonds and the fees."""
    view = found.view
    disputes = view.disputes[find_task(view).task].disputes
    assert {one.stage for one in disputes.values()} == {Stage.CLOSED}
    assert {one.claimant for one in disputes.values()} >= {
        found.account_of(victim)
        for name in ("demands", "proofs", "silence", "flood")
        for victim in QUICK_RAIDS[name].list_victims(name)
    }
    assert len(find(view, DisputeClosed)) == len(disputes)
    assert len(find(view, LeafAnswered)) == sum(len(one.demands) for one in disputes.values()) > 0
    assert not find(view, Slashed) and not find(view, FeeBurned)
    assert {one.loser == one.rival for one in find(view, ContestEnded)} == {True}
    assert list_unpaid(found) == []


def require_false_moves_refused(found: Harassed) -> None:
    """Each was mined, and failed for the reason that it deserves; afterwards also because all is settled."""
    landed = [one for record in found.records.values() for one in record.landed]
    wrong = [one for one in landed if not one.is_right and one.error != "ClaimNotDisputable"]
    assert not wrong, wrong
    assert {one.name.split(":")[0] for one in landed if one.is_right} >= {
        "operation", "token", "label", "scalar", "demand", "pseudo-gradient", "an early end",
    }  # fmt: skip
    for record in found.records.values():
        assert len(record.failed) == len(record.landed)


def require_styles_played(found: Harassed) -> None:
    """Each did what it says."""
    styles = {name: count_style(found, name) for name in found.raids}
    assert styles["demands"]["demands"] == MAX_DEMANDS_EACH
    assert styles["proofs"]["disputes"] > 1 and styles["proofs"]["refused"] >= 50
    silence = styles["silence"]
    assert (silence["disputes"], silence["never_opened"], silence["demands"]) == (3, 1, 1)
    flood = styles["flood"]
    # One more where a demand is sent before an earlier one is heard of.
    assert flood["disputes"] == 2 and flood["demands"] >= 2 * 2 * 2
    assert flood["served"] > 0 and flood["turned_away"] > 0
    # A busy machine may be too late for one of its moves, and then for all that follow; never too early.
    last = styles["last"]
    assert last["late"] > 0 and last["early"] == 0
    assert styles["contest"]["contests"] == 1 and styles["contest"]["refused"] > 0


def require_attackers_poorer(found: Harassed) -> None:
    """None of them gained anything, and all who disputed or contested lost at least a bond."""
    bond_wei = ONE_ROUND_PLAN.amounts.dispute_bond
    for name in set(found.raids) - {"last"}:
        for attacker in found.raids[name].list_attackers(name):
            balance = found.balances[attacker]
            assert not balance.earned and sum(balance.lost.values()) >= bond_wei, attacker
