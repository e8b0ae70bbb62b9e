"""What a task fixes about its rounds, what a deployment allows of it, and the terms as they are posted.

A node checks the same limits as the contract before it stakes, whenever it joins: a task with a window of one
block would convict an honest seat (findings, C2).

`PostedTerms` is the twin of `GameTerms` in `contracts/game/GameTypes.sol`.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.params import LATE_RATE_ONE, MAX_SEGMENT_DRAWS, TOKEN_WEI
from touchstone.protocol.spec.task_spec import Limits, TaskSpec, TaskTerms, TrainingSpec

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
"""slots of an epoch: so many blocks a draw waits where money is at stake. Who owns all slots from a
commitment to the draw knows the draw (docs/decisions/0020-randomness.md, `economics/grinding.py`)."""


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
    """The most wei that a task can pay: every solver seat accepted in every round, three counted votes in
    every draw and in every late audit."""
    amounts = terms.amounts
    late = RANKS * amounts.late_pay if terms.late_chance else 0
    claim = amounts.solver_pay + RANKS * terms.draws * amounts.audit_pay + late
    return terms.rounds * terms.solver_seats * claim


def compute_least_segments(terms: GameTerms) -> int:
    """The least segments of a claim: so many that it has all its draws, else all of the round's."""
    return min(terms.segment_count, RANKS * terms.draws - 2)


def check_terms(terms: GameTerms, limits: DeploymentLimits) -> GameRefusal | None:
    """The first rule that the terms break, or None. Contract and nodes ask the same."""
    return next(_find_faults(terms, limits), None)


def _find_faults(terms: GameTerms, limits: DeploymentLimits) -> Iterator[GameRefusal]:
    windows = asdict(terms.windows)
    for name, least in asdict(limits.least).items():
        yield from _bound(name, windows[name], least, limits.window_max, "Window", ("Short", "Long"))
    yield from _bound_sums(terms, limits)
    yield from _bound_amounts(terms.amounts, limits)
    yield from _bound_numbers(terms)
    yield from _bound_contest(terms)


def _bound(
    name: str, actual: int, least: int, greatest: int, what: str, words: tuple[str, str]
) -> Iterator[GameRefusal]:
    if actual < least:
        yield GameRefusal(name=f"{what}Too{words[0]}", expected=f"{name} >= {least}", actual=actual)
    if actual > greatest:
        yield GameRefusal(name=f"{what}Too{words[1]}", expected=f"{name} <= {greatest}", actual=actual)


def _bound_sums(terms: GameTerms, limits: DeploymentLimits) -> Iterator[GameRefusal]:
    """Windows that must fit into one another."""
    w = terms.windows
    seal = w.delay + w.draw_grid
    leasts = {
        "train_max >= train_min": (w.train_max, w.train_min),
        "train_min >= delay + draw_grid + audit_max + post": (w.train_min, seal + w.audit_max + w.post),
        "audit_max / 3 >= delay + draw_grid + seal_margin": (w.audit_max // 3, seal + limits.seal_margin),
        "dispute >= 6 audit_max + least respond": (w.dispute, 6 * w.audit_max + limits.least.respond),
        "dispute >= until the next round's draw": (w.dispute, compute_late_reach(w)),
        "ask >= six rounds": (w.ask, ROUNDS_UNDER_WAY * (w.train_max + w.audit_max + w.post)),
    }
    for rule, (actual, least) in leasts.items():
        if actual < least:
            yield GameRefusal(name="WindowTooShort", expected=f"{rule} ({least})", actual=actual)


def compute_late_reach(windows: GameWindows) -> int:
    """Blocks from a round's close to the latest seal of the next round's draw, when all is slow."""
    return windows.audit_max + windows.post + windows.train_max + windows.audit_max // 3


def compute_duty_blocks(windows: GameWindows) -> int:
    """Returns the blocks from the close of a round with audits until its seats can settle it, if its root is
    not contested. From where late audits count it is as long."""
    return max(windows.dispute, 2 * windows.audit_max + windows.ask)


def compute_release_blocks(windows: GameWindows) -> int:
    """Returns about how many blocks after its seat has left, or the task has ended, a stake comes back: of
    one slow round, or of three usual ones that still hold the seat, and the windows of the last one."""
    return windows.train_max + windows.audit_max + windows.post + compute_duty_blocks(windows)


def _bound_amounts(amounts: GameAmounts, limits: DeploymentLimits) -> Iterator[GameRefusal]:
    """A bond is at most what a seat costs: who could take one can challenge."""
    seat = min(amounts.solver_stake, amounts.auditor_stake)
    for name, wei in asdict(amounts).items():
        least = limits.least_bond_wei if name.endswith(("_bond", "_stake")) else 0
        greatest = seat if name.endswith("_bond") else limits.amount_max
        yield from _bound(name, wei, least, greatest, "Amount", ("Small", "Large"))


def _bound_contest(terms: GameTerms) -> Iterator[GameRefusal]:
    """A contest that is opened in time ends within another window: it holds up the settlement of all."""
    least = 2 * terms.contest_levels * terms.windows.respond
    if terms.windows.dispute < least:
        rule = f"dispute >= 2 contest_levels respond ({least})"
        yield GameRefusal(name="WindowTooShort", expected=rule, actual=terms.windows.dispute)


def _bound_numbers(terms: GameTerms) -> Iterator[GameRefusal]:
    late = RANKS if terms.late_chance else 0
    bounds = {
        "rounds": (terms.rounds, 1, NUMBER_MAX),
        "segment_count": (terms.segment_count, 1, NUMBER_MAX),
        "draws": (terms.draws, 1, MAX_SEGMENT_DRAWS),
        "late_chance": (terms.late_chance, 0, LATE_RATE_ONE),
        "solver_seats": (terms.solver_seats, 1, SOLVER_SEATS_MAX),
        "least_solvers": (terms.least_solvers, 1, terms.solver_seats),
        "least_verifiers": (terms.least_verifiers, RANKS * terms.draws, AUDITOR_SEATS_MAX),
        "least_whistleblowers": (terms.least_whistleblowers, late, AUDITOR_SEATS_MAX),
        "contest_levels": (terms.contest_levels, 1, 16),
    }
    for name, (actual, least, greatest) in bounds.items():
        yield from _bound(name, actual, least, greatest, "Amount", ("Small", "Large"))


# --- Presets ------------------------------------------------------------------------------------------------
LIMITS_12S = DeploymentLimits(
    name="12s",
    least=GameWindows(
        delay=EPOCH_SLOTS, draw_grid=4, train_min=170, train_max=170, audit_max=120, post=10, respond=300,
        dispute=3_600, ask=1_800,
    ),
    window_max=100_000, least_bond_wei=TOKEN_WEI, amount_max=1 << 90, seal_blocks=200, proof_seal_blocks=100,
    seal_margin=4,
)  # fmt: skip
"""Blocks of 12 s: an answer has an hour at least, a dispute window half a day at least."""
LIMITS_2S = DeploymentLimits(
    name="2s",
    least=GameWindows(
        delay=EPOCH_SLOTS, draw_grid=12, train_min=360, train_max=360, audit_max=210, post=60, respond=1_800,
        dispute=21_600, ask=3_800,
    ),
    window_max=600_000, least_bond_wei=TOKEN_WEI, amount_max=1 << 90, seal_blocks=200, proof_seal_blocks=200,
    seal_margin=25,
)  # fmt: skip
"""Blocks of 2 s: the same times, and draws that wait for as many blocks."""
LIMITS_LOCAL = DeploymentLimits(
    name="local",
    least=GameWindows(
        delay=1, draw_grid=1, train_min=10, train_max=10, audit_max=12, post=2, respond=4, dispute=76, ask=6,
    ),
    window_max=1_000_000, least_bond_wei=1, amount_max=1 << 90, seal_blocks=200, proof_seal_blocks=50,
    seal_margin=1,
)  # fmt: skip
"""A chain of one's own, for play money: short enough for tests, long enough that each call has a block. Who
owns one slot knows a draw."""
PLAY_MONEY = frozenset({LIMITS_LOCAL.name})
"""Presets by whose delay draws can be known before the work is committed: for no money of worth."""
LIMITS = {limits.name: limits for limits in (LIMITS_12S, LIMITS_2S, LIMITS_LOCAL)}

WINDOWS_12S = GameWindows(
    delay=EPOCH_SLOTS, draw_grid=8, train_min=250, train_max=520, audit_max=180, post=25, respond=600,
    dispute=7_200, ask=4_400,
)  # fmt: skip
"""Rounds of 50 minutes, audits within 36; an answer has two hours, disputes open for a day."""
WINDOWS_2S = GameWindows(
    delay=EPOCH_SLOTS, draw_grid=24, train_min=1_080, train_max=2_700, audit_max=600, post=150, respond=3_600,
    dispute=43_200, ask=21_600,
)  # fmt: skip
"""The same times in blocks of 2 s."""
WINDOWS_LOCAL = GameWindows(
    delay=1, draw_grid=2, train_min=40, train_max=80, audit_max=30, post=6, respond=10, dispute=200, ask=720,
)  # fmt: skip
"""A chain of one's own."""
GAME_WINDOWS = {"12s": WINDOWS_12S, "2s": WINDOWS_2S, "local": WINDOWS_LOCAL}


@dataclass(frozen=True)
class PostedTerms:
    """What the contracts must know of a task; names and order as in Solidity. format: number of the numeric
    format; outer_learning_rate, outer_momentum: float32 bits; late_chance: in 1/65536; limits: what honest
    hardware may differ by, unused in exact tasks."""

    submitter: str
    salt: bytes
    initial_weights_root: bytes
    zero_root: bytes
    schedule_root: bytes
    step_root: bytes
    format: int
    weighting: int
    parameter_count: int
    rounds: int
    inner_steps: int
    segment_steps: int
    solver_seats: int
    draws: int
    late_chance: int
    least_solvers: int
    least_verifiers: int
    least_whistleblowers: int
    carry_moments: int
    outer_learning_rate: int
    outer_momentum: int
    windows: GameWindows
    amounts: GameAmounts
    limits: Limits


def make_spec(terms: Any, training: TrainingSpec) -> TaskSpec:
    """The task as training, replays and comparisons need it, from its posted terms (`PostedTerms`, or what
    an event has)."""
    limits = Limits(**{field.name: getattr(terms.limits, field.name) for field in fields(Limits)})
    same = {field.name for field in fields(TaskTerms)} - {"submitter", "limits"}
    values = {name: getattr(terms, name) for name in same}
    return TaskSpec(TaskTerms(submitter=str(terms.submitter).lower(), limits=limits, **values), training)
