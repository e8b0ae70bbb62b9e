"""The assumptions about the world outside a task, in wei and blocks.

Symbols: C compute of a round, V the worth of a false claim outside the task, s the share of auditors that a
cheat may own, D rounds from detection to closure.
"""

from dataclasses import dataclass
from fractions import Fraction

from touchstone.protocol.economics.false_claims import Sampling
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.terms import ANSWERS_MAX, GameTerms, compute_least_segments
from touchstone.protocol.spec.params import CHEAT_VERIFIER_SHARE_PERCENT


@dataclass(frozen=True)
class GasCosts:
    """Gas costs of acts, in wei of the task's token. `solver_round` is the commitment and a share of the
    round, `vote` includes its opening, `answer` is for a query. `defence` is all answers in a dispute,
    `contest` all answers in a contest. `conviction` is opening a dispute and proving a fault, with the replay
    and the trace for it. `fall` is all of a contester's moves down to a wrong leaf, if all seats are
    taken."""

    solver_round: int = 0
    vote: int = 0
    answer: int = 0
    defence: int = 0
    contest: int = 0
    conviction: int = 0
    fall: int = 0


@dataclass(frozen=True)
class Figures:
    """An operator's figures (symbols: see this module). `cost` is C, `gain` V, `round_blocks` the length of a
    usual round, `owned` s. `withholding_gain` is the smaller V that the task withstands if a solver withholds
    its data, None if it is V. `drift_gain` is V of drift within the limits of single steps, which costs a
    claim and never a seat. `voided_share` is the share of honest claims that are voided in unstable phases.
    `detection` is d, the chance that an honest auditor sees a false segment that it replays."""

    cost: int
    gain: int
    round_blocks: int
    gas: GasCosts = GasCosts()
    withholding_gain: int | None = None
    drift_gain: int = 0
    voided_share: Fraction = Fraction(0)
    owned: Fraction = Fraction(CHEAT_VERIFIER_SHARE_PERCENT, 100)
    detection: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        least = min(self.cost, self.gain, self.withholding_gain or 0, self.drift_gain)
        is_share = 0 <= self.owned < 1 and 0 <= self.voided_share < 1 and 0 < self.detection <= 1
        if least < 0 or not is_share or self.round_blocks < 1:
            raise InvalidInput(
                what="impossible figures",
                expected="no negative amount, shares below 1, a detection above 0, rounds of a block or more",
                actual=self,
                remedy="Correct the figures.",
            )

    @property
    def assumed_withholding_gain(self) -> int:
        """The V of a false claim whose solver withholds its data if honest auditors are drawn."""
        return self.gain if self.withholding_gain is None else self.withholding_gain


def read_sampling(terms: GameTerms, figures: Figures) -> Sampling:
    """Returns how a task is sampled, under the figures."""
    return Sampling(
        terms.segment_count,
        terms.draws,
        terms.late_chance,
        terms.least_verifiers,
        figures.owned,
        figures.detection,
        compute_least_segments(terms),
    )


def count_closing_rounds(terms: GameTerms, figures: Figures) -> int:
    """Returns D: the rounds that a seat still plays after the round of its false claim. The claim is decided
    after at most twice audit_max. The dispute ends after the claimant's answers, each with a move of the
    opener (`compute_dispute_clock`). Late audits come a round later."""
    windows = terms.windows
    late = figures.round_blocks if terms.late_chance else 0
    blocks = late + 2 * windows.audit_max + 2 * ANSWERS_MAX * windows.respond
    return -(-blocks // figures.round_blocks)
