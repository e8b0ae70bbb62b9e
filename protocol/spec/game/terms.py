"""What a task fixes about its rounds, and what a deployment allows of it."""

from dataclasses import dataclass

from touchstone.protocol.spec.audit_draws import RANKS

SOLVER_SEATS_MAX = 64
"""solver seats of a pool: a bitmap word has room, and 64 claims merge in one transaction."""
ROUNDS_UNDER_WAY = 6
"""rounds whose worst time an ask may come late: auditors keep their ends so long."""
ANSWERS_MAX = 3
"""answers that a dispute can ask of a seat, each within `respond`."""
NUMBER_MAX = (1 << 16) - 1
"""rounds of a task and segments of a round: the contract keeps them in 16 bits."""
AUDITOR_SEATS_MAX = 1_024
"""seat numbers of an auditor role: `freeEpoch` looks at every seat of a task in one call."""
EPOCH_ROUNDS = 16
"""rounds whose pay the contract adds up in one place: a seat settles its part of an epoch at once."""
RING_ROUNDS = 128
"""rounds that the contract has places for. A new one takes the place of one that all seats have settled."""
FALLS_MAX = 8
"""falls after which a task is halted: settling and closing look at each."""
SILENCES_MAX = 3
"""missed rounds, or missed primary draws, after which a seat is marked silent."""


EPOCH_SLOTS = 32
"""slots of an epoch: so many blocks a draw waits if money is at stake. Who owns all slots from a commitment
to the draw knows the draw (docs/decisions/0020-randomness.md, `economics/grinding.py`)."""


@dataclass(frozen=True)
class GameWindows:
    """All in blocks. delay, draw_grid: the randomness of a draw is that of the first multiple of draw_grid
    from delay after the close. train_min, train_max: from OPEN. audit_max, post: from the close, one after
    the other. respond: for one answer. dispute: from the close. ask: from where votes stop counting."""

    delay: int
    draw_grid: int
    train_min: int
    train_max: int
    audit_max: int
    post: int
    respond: int
    dispute: int
    ask: int


@dataclass(frozen=True)
class GameAmounts:
    """All in wei. Pay is per round, per counted vote, per late vote; fees are taken from a stake at
    settlement."""

    solver_stake: int
    auditor_stake: int
    solver_pay: int
    audit_pay: int
    late_pay: int
    dropped_fee: int
    unserved_fee: int
    contest_bond: int
    ask_bond: int
    dispute_bond: int
    finder_cap: int


@dataclass(frozen=True)
class GameTerms:
    """A task as its rounds need it. segment_count: n; draws: q; late_chance: c in 65,536ths. contest_levels:
    how often a contester names a child, 1 + ceil(depth / 4) times. The first child is a tensor, each further
    one a node four levels down its tree, until it is a leaf. is_exact: its votes need no limits, so no signer
    can be asked."""

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
class DeploymentLimits:
    """Constants of a deployment, chosen for its block time. least: least windows in blocks; window_max: the
    greatest window; least_bond_wei: of every bond and stake; amount_max: the greatest amount in wei;
    seal_blocks: how long a block's header can be proven; proof_seal_blocks: how long a sealed proof is good;
    seal_margin: blocks at least left for sealing a draw."""

    name: str
    least: GameWindows
    window_max: int
    least_bond_wei: int
    amount_max: int
    seal_blocks: int
    proof_seal_blocks: int
    seal_margin: int


def compute_escrow(terms: GameTerms) -> int:
    """Returns the most wei that a task can pay. Then every solver seat is accepted in every round, and three
    votes count in every draw and in every late audit."""
    amounts = terms.amounts
    late = RANKS * amounts.late_pay if terms.late_chance else 0
    claim = amounts.solver_pay + RANKS * terms.draws * amounts.audit_pay + late
    return terms.rounds * terms.solver_seats * claim


def compute_least_segments(terms: GameTerms) -> int:
    """Returns the least number of segments of a claim: enough for all its draws, or else all of the
    round's."""
    return min(terms.segment_count, RANKS * terms.draws - 2)


def compute_late_reach(windows: GameWindows) -> int:
    """Returns the number of blocks from a round's close to the latest seal of the next round's draw, at
    most."""
    return windows.audit_max + windows.post + windows.train_max + windows.audit_max // 3


def compute_duty_blocks(windows: GameWindows) -> int:
    """Returns the blocks from the close of a round with audits until its seats can settle it, if its root is
    not contested. From where late audits count it is as long."""
    return max(windows.dispute, 2 * windows.audit_max + windows.ask)


def compute_release_blocks(windows: GameWindows) -> int:
    """Returns about how many blocks after its seat has left, or the task has ended, a stake comes back: of
    one slow round, or of three usual ones that still hold the seat, and the windows of the last one."""
    return windows.train_max + windows.audit_max + windows.post + compute_duty_blocks(windows)
