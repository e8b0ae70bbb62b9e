"""Long plays of machine and contracts side by side.

.venv/bin/python -m tests.rounds.campaign [first seed] [plays] [steps]
"""

import sys
from collections import Counter
from pathlib import Path

from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.player import Player
from tests.rounds.twin import Twin
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms, GameWindows

AMOUNTS = GameAmounts(
    solver_stake=2_000, auditor_stake=500, solver_pay=100, audit_pay=10, late_pay=20, dropped_fee=60,
    unserved_fee=70, contest_bond=300, query_bond=40, dispute_bond=80, finder_cap=150,
)  # fmt: skip


def make_player(chain: RoundChain, seed: int, windows: GameWindows = WINDOWS_LOCAL) -> Player:
    """A task of few seats; its shape follows from the seed."""
    draws = 1 + seed % 2
    solvers = [f"solver {i}" for i in range(3 + seed % 3)]
    auditors = [f"auditor {i}" for i in range(2 * 3 * draws + seed % 5)]
    terms = GameTerms(
        submitter="", domain=bytes([seed % 256]) * 32, root=b"", rounds=40, segment_count=5 + seed % 4,
        draws=draws, late_chance=(0, 1 << 15, 1 << 16)[seed % 3], solver_seats=3 + seed % 2, least_solvers=1,
        least_verifiers=3 * draws, least_whistleblowers=3 if seed % 3 else 0, contest_levels=1,
        is_exact=seed % 7 == 6, windows=windows, amounts=AMOUNTS,
    )  # fmt: skip
    return Player(Twin(chain, terms, (*solvers, *auditors)), seed, solvers, auditors)


def play(chain: RoundChain, seed: int, steps: int) -> Counter[tuple[str, str | None]]:
    """One task; the counts of its calls, and of its logs."""
    player = make_player(chain, seed)
    player.join_all()
    player.play(steps)
    return player.counts + Counter({("log", name): n for name, n in player.twin.logged.counts.items()})


def main() -> None:
    """Plays, one after the other on one chain."""
    first, plays, steps = (int(one) for one in (*sys.argv[1:], *("0", "3", "300")[len(sys.argv) - 1 :]))
    total: Counter[tuple[str, str | None]] = Counter()
    with open_round_chain(Path("build/rounds"), BOUNDS_LOCAL) as chain:
        for seed in range(first, first + plays):
            total += play(chain, seed, steps)
            print(seed, sum(total.values()), flush=True)
    for key, count in sorted(total.items(), key=str):
        print(count, *key)


if __name__ == "__main__":
    main()
