"""What owning slots gives, against plays tried one by one; and the delays of all presets."""

from dataclasses import replace
from fractions import Fraction

import pytest

from touchstone.protocol.economics import grinding
from touchstone.protocol.economics.grinding import bound_known, count_moments, play
from touchstone.protocol.spec.game.presets import BOUNDS, GAME_WINDOWS, PLAY_MONEY, WINDOWS_12S
from touchstone.protocol.spec.game.terms import EPOCH_SLOTS

HOSTILE = Fraction("0.45")
"""Of the slots: nobody who owns half of a chain needs a draw."""
NEVER = Fraction(1, 1_000_000)


@pytest.mark.parametrize("name", GAME_WINDOWS)
def test_no_preset_for_money_lets_anybody_know_a_draw_before_it_commits(name: str) -> None:
    """With the delay of 4 blocks that the preset for blocks of 12 s once had, 30 % of the slots knew the draw
    in a quarter of the rounds and more."""
    windows, least = GAME_WINDOWS[name], BOUNDS[name].least
    if name in PLAY_MONEY:
        assert bound_known(HOSTILE, windows) == 1, "it is named play money for nothing"
        return
    assert windows.delay >= least.delay >= EPOCH_SLOTS
    # A task may choose its own windows, down to the least.
    for one in (windows, replace(windows, delay=least.delay, draw_grid=least.draw_grid)):
        assert bound_known(HOSTILE, one) < NEVER
    assert bound_known(Fraction("0.3"), replace(windows, delay=4, draw_grid=8)) > Fraction(1, 4)


@pytest.mark.parametrize(
    ("owned", "escape", "withheld"),
    [
        # Nobody owns a slot.
        ("....", 0.5, 0.0),
        # The last of two blocks: made, or withheld for the honest one behind it.
        (".x..", 0.75, 0.5),
        # The first of two: whatever it does, an honest one comes after it.
        ("x...", 0.5, 0.0),
        # Both: {0, 1}; or one of them, and an honest one behind them.
        ("xx..", 0.75, 0.5),
        # Two of three, as they are: {0,1}, {0,2}, {1,2}; else an honest one.
        ("xxx.", 1 - 0.5**4, 0.875 + 0.125 * 2),
        # The cheat may let its first slot pass: of the next two one makes the last block.
        ("x.xx", 1 - 0.5**3, 1 + 0.75 + 0.25 * 2),
    ],
)  # fmt: skip
def test_small_plays_are_those_that_a_hand_finds(owned: str, escape: float, withheld: float) -> None:
    """Two blocks to come, half of all values good."""
    found = grinding._play_backwards([one == "x" for one in owned] + [False] * 8, 0.5, 2)[0]
    assert found == pytest.approx((escape, withheld))


def test_who_owns_nothing_has_a_fair_draw_and_who_owns_more_a_better_one() -> None:
    fair = 0.1
    plays = [play(fair, share, WINDOWS_12S) for share in (0.0, 0.05, 0.2)]
    nothing = plays[0]
    assert (nothing.escape, nothing.chosen, nothing.withheld) == pytest.approx((fair, fair, 0))
    for less, more in zip(plays, plays[1:], strict=False):
        assert less.escape < more.escape < more.chosen and less.withheld < more.withheld
    assert count_moments(WINDOWS_12S) == WINDOWS_12S.train_max // WINDOWS_12S.draw_grid
