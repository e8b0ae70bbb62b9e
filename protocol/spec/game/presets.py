"""Presets by block time: the bounds of a deployment, and the windows of a task."""

from touchstone.protocol.spec.game.terms import EPOCH_SLOTS, DeploymentBounds, GameWindows
from touchstone.protocol.spec.params import TOKEN_WEI

BOUNDS_12S = DeploymentBounds(
    name="12s",
    least=GameWindows(
        delay=EPOCH_SLOTS, draw_grid=4, train_min=170, train_max=170, audit_max=120, post=10, respond=300,
        dispute=3_600, query=1_800,
    ),
    window_max=100_000, least_bond_wei=TOKEN_WEI, amount_max=1 << 90, header_blocks=200,
    proof_commit_blocks=100, draw_margin=4,
)  # fmt: skip
"""The bounds for blocks of 12 s: at least an hour for an answer, at least half a day for disputes."""
BOUNDS_2S = DeploymentBounds(
    name="2s",
    least=GameWindows(
        delay=EPOCH_SLOTS, draw_grid=12, train_min=360, train_max=360, audit_max=210, post=60, respond=1_800,
        dispute=21_600, query=3_800,
    ),
    window_max=600_000, least_bond_wei=TOKEN_WEI, amount_max=1 << 90, header_blocks=200,
    proof_commit_blocks=200, draw_margin=25,
)  # fmt: skip
"""The bounds for blocks of 2 s: the same times as for 12 s, except that draws wait for the same number of
blocks."""
BOUNDS_LOCAL = DeploymentBounds(
    name="local",
    least=GameWindows(
        delay=1, draw_grid=1, train_min=10, train_max=10, audit_max=12, post=2, respond=4, dispute=76,
        query=6,
    ),
    window_max=1_000_000, least_bond_wei=1, amount_max=1 << 90, header_blocks=200,
    proof_commit_blocks=50, draw_margin=1,
)  # fmt: skip
"""The bounds for a local chain with play money: short enough for tests, long enough that each call has a
block. The owner of one slot knows a draw in advance."""
PLAY_MONEY = frozenset({BOUNDS_LOCAL.name})
"""Presets whose delay is so short that draws can be known before the commitment: for play money only."""
BOUNDS = {bounds.name: bounds for bounds in (BOUNDS_12S, BOUNDS_2S, BOUNDS_LOCAL)}

WINDOWS_12S = GameWindows(
    delay=EPOCH_SLOTS, draw_grid=8, train_min=250, train_max=520, audit_max=180, post=25, respond=600,
    dispute=7_200, query=4_400,
)  # fmt: skip
"""The windows for blocks of 12 s: rounds of 50 minutes, audits within 36; two hours for an answer, a day for
disputes."""
WINDOWS_2S = GameWindows(
    delay=EPOCH_SLOTS, draw_grid=24, train_min=1_080, train_max=2_700, audit_max=600, post=150, respond=3_600,
    dispute=43_200, query=21_600,
)  # fmt: skip
"""The windows for blocks of 2 s: about the same times as for 12 s."""
WINDOWS_LOCAL = GameWindows(
    delay=1, draw_grid=2, train_min=40, train_max=80, audit_max=30, post=6, respond=10, dispute=200,
    query=720,
)  # fmt: skip
"""The windows for a local chain."""
GAME_WINDOWS = {"12s": WINDOWS_12S, "2s": WINDOWS_2S, "local": WINDOWS_LOCAL}
