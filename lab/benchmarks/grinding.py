"""Prints the two tables of decision 0020: how much owning slots of the chain says about a draw.

`./dev bench grinding` runs it.
"""

import sys
from fractions import Fraction
from math import comb

from touchstone.protocol.economics.grinding import bound_known, count_moments, play
from touchstone.protocol.spec.game.presets import GAME_WINDOWS, PLAY_MONEY, WINDOWS_12S

DRAWS = {
    "10 of 100 segments spoiled, 5 drawn": comb(90, 5) / comb(100, 5),
    "10 of 100 segments spoiled, 20 drawn": comb(90, 20) / comb(100, 20),
    "all three auditors of a draw, 8 of 24 verifiers own": comb(8, 3) / comb(24, 3),
}
"""Cases for a cheat, with their chances in a fair draw."""
SHARES = (0.01, 0.1, 0.3)
KNOWING = (0.1, 0.3, 0.45)


def render_known() -> str:
    """Returns the table of draws that are known before the work is committed, a row for each preset."""
    heads = [f"{share:.0%} of the slots" for share in KNOWING]
    lines = [f"| preset | delay | moments of a round | {' | '.join(heads)} |", "|---" * 6 + "|"]
    for name, windows in GAME_WINDOWS.items():
        bounds = [bound_known(Fraction(str(share)), windows) for share in KNOWING]
        shown = " | ".join(f"{float(bound):.0e}" if bound < 1 else "always" for bound in bounds)
        money = " (play money)" if name in PLAY_MONEY else ""
        lines.append(f"| {name}{money} | {windows.delay} | {count_moments(windows)} | {shown} |")
    return "\n".join(lines)


def render_played() -> str:
    """Returns the table of draws that a cheat influences after the work is committed, with the windows for
    blocks of 12 s."""
    lines = [
        "| draw | fair, with drand too | share of slots | escapes | at the best moment | blocks withheld |",
        "|---" * 6 + "|",
    ]
    for draw, fair in DRAWS.items():
        for share in SHARES:
            found, is_first = play(fair, share, WINDOWS_12S), share == SHARES[0]
            told = f"{draw} | {fair:.1%} |" if is_first else "| |"
            shown = f"{found.escape:.1%} | {found.chosen:.0%} | {found.withheld:.2f}"
            lines.append(f"| {told} {share} | {shown} |")
    return "\n".join(lines)


def main() -> int:
    """Prints both tables."""
    print(render_known(), render_played(), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
