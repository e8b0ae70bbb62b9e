"""10,000 draws of a deployed ledger against the published odds (fixed seeds: no chance in the test)."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.e2e.cheats import list_spoiled_segments
from tests.e2e.draw_odds import DRAWS, Drawn, Setting, ask_ledger, check_draws, match
from tests.e2e.first_devnet import DevnetOptions, run_devnet

SKIP = Fraction(5, 100)


def make_draws(counts: dict[tuple[int, ...], int]) -> list[Drawn]:
    return [Drawn(segments, None) for segments, count in counts.items() for _ in range(count)]


async def test_ledger_draws_as_published(tmp_path: Path) -> None:
    options = DevnetOptions(path=tmp_path / "deployment.json", log=tmp_path / "anvil.log", block_time_s=0)
    async with run_devnet(options, report=lambda _: None) as devnet:
        found = await check_draws(devnet.rpc_url, devnet.deployment, SKIP)
        assert found.count == DRAWS
        assert found.holds, found
        # More segments, rarer late audits: another set of odds.
        wide = Setting(6, 2, 1 << 14, list_spoiled_segments(30, 5, Fraction(1, 30)))
        drawn = await ask_ledger(devnet.rpc_url, devnet.deployment, wide)
        assert match(wide, drawn).holds
        # The same draws do not pass for those of another late rate.
        assert not match(replace(wide, late_rate=1 << 16), drawn).holds


@pytest.mark.parametrize(
    ("counts", "holds"),
    [
        ({(0, 2): 3334, (0, 3): 3333, (1, 3): 3333}, True),
        ({(0, 2): 3500, (0, 3): 3167, (1, 3): 3333}, False),
        ({(0, 2): 5000, (0, 3): 5000}, False),
    ],
)
def test_match_sees_a_skew(counts: dict[tuple[int, ...], int], holds: bool) -> None:
    setting = Setting(4, 2, 0, frozenset({0}))
    assert match(setting, make_draws(counts)).holds is holds
