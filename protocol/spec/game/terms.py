"""Defines the terms of a task's rounds, and what a deployment allows."""

from dataclasses import dataclass

from touchstone.protocol.spec.audit_draws import RANKS

SOLVER_SEATS_MAX = 64
"""The most solver seats of a pool: a bitmap fits into one word, and 64 claims merge in one transaction."""
ROUNDS_UNDER_WAY = 6
"""The window for queries lasts at least this many of the longest rounds; auditors keep their ends so long."""
ANSWERS_MAX = 3
"""The most answers of a seat in a dispute, each within `respond`."""
NUMBER_MAX = (1 << 16) - 1
"""The most rounds of a task and segments of a round, because the contract keeps them in 16 bits."""
AUDITOR_SEATS_MAX = 1_024
"""The most seat numbers of an auditor role, because `freeEpoch` looks at every seat of a task in one call."""
EPOCH_ROUNDS = 16
"""The rounds of an epoch, whose pay the contract adds up in one place. A seat settles its part of an epoch at
once."""
RING_ROUNDS = 128
"""The rounds that the contract has places for. A new round takes the place of one that all seats have
settled."""
SILENCES_LEAST = 3
"""A seat is marked silent for this many missed rounds or more; an auditor for missed draws of which it was
the primary."""


EPOCH_SLOTS = 32
"""The slots of an epoch of Ethereum. A draw waits for this many blocks if money is at stake, because an owner
of all slots from a commitment to the draw knows the draw (docs/decisions/0020-randomness.md,
`economics/grinding.py`)."""


@dataclass(frozen=True)
class GameWindows:
    """Windows in blocks. A draw takes the randomness of the first multiple of `draw_grid` that is `delay` or
    more after the close. `train_min` and `train_max` count from the opening, `audit_max` and then `post` from
    the close. `respond` is for one answer. `dispute` counts from the close, `ask` from the end of voting."""

    delay: int
    draw_grid: int
    train_min: int
    train_max: int
    audit_max: int
    post: int
    respond: int
    dispute: int
    query: int


@dataclass(frozen=True)
class GameAmounts:
    """Amounts in wei. Pay is for each round, each counted vote, each counted late vote; fees are taken from a
    stake at settlement."""

    solver_stake: int
    auditor_stake: int
    solver_pay: int
    audit_pay: int
    late_pay: int
    dropped_fee: int
    unserved_fee: int
    contest_bond: int
    query_bond: int
    dispute_bond: int
    finder_cap: int


@dataclass(frozen=True)
class GameTerms:
    """The terms of a task that its rounds need. `segment_count` is n, `draws` is q, `late_chance` is c in
    65,536ths. `contest_levels` is how often a contester names a child: 1 + ceil(depth / 4) times, first a
    tensor, then nodes four levels further down, until a leaf. `is_exact` says that votes need no limits, so
    no signer can be queried."""

    submitter: str
    domain: bytes
    root: bytes
    rounds: int
    segment_count: int
    draws: int
    late_chance: int
    solver_seats: int
    least_solvers: int
    least_verifiers: int
    least_whistleblowers: int
    contest_levels: int
    is_exact: bool
    windows: GameWindows
    amounts: GameAmounts


@dataclass(frozen=True)
class DeploymentBounds:
    """The constants of a deployment, chosen for its block time. `least` are the least windows in blocks,
    `window_max` is the greatest. `least_bond_wei` is for every bond and stake, `amount_max` is the greatest
    amount in wei. `header_blocks` is how long a block's header can be proven. `proof_commit_blocks` is how
    long a commitment to a proof is valid. `draw_margin` is the least number of blocks to record a draw."""

    name: str
    least: GameWindows
    window_max: int
    least_bond_wei: int
    amount_max: int
    header_blocks: int
    proof_commit_blocks: int
    draw_margin: int


def compute_escrow(terms: GameTerms) -> int:
    """Returns the most wei that a task can pay: if every solver seat is accepted in every round, and three
    votes count in every draw and every late audit."""
    amounts = terms.amounts
    late = RANKS * amounts.late_pay if terms.late_chance else 0
    claim = amounts.solver_pay + RANKS * terms.draws * amounts.audit_pay + late
    return terms.rounds * terms.solver_seats * claim


def compute_least_segments(terms: GameTerms) -> int:
    """Returns the least number of segments of a claim: enough for all its draws, or else all of the
    round's."""
    return min(terms.segment_count, RANKS * terms.draws - 2)


def compute_late_reach(windows: GameWindows) -> int:
    """Returns the most blocks from a round's close to the latest recording of the next round's draw, also
    where convictions let the root come later, or the task pauses between the two and starts again before its
    closing seed can be drawn. A fall is not counted."""
    posted, start = 2 * windows.audit_max + windows.post, 2 * (windows.delay + windows.draw_grid)
    return posted + start + windows.train_max + windows.audit_max // 3


def compute_duty_blocks(windows: GameWindows) -> int:
    """Returns the blocks from the close of a round with audits until its seats can settle it, if its root is
    not contested. It takes as many blocks from the block where late audits count."""
    return max(windows.dispute, 2 * windows.audit_max + windows.query)


def compute_release_blocks(windows: GameWindows) -> int:
    """Estimates how many blocks it takes until a stake is returned, from when its seat leaves or the task
    ends. It counts one slow round, or three usual rounds that still hold the seat, and the windows of the
    last one."""
    return windows.train_max + windows.audit_max + windows.post + compute_duty_blocks(windows)
