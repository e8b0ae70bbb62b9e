"""What a cheat risks and what it can gain: the inequalities from which stakes and fees follow. Exact.

Symbols: B reward of an honest round, C compute of a round, V gain of a cheat from outside, f = j / n share of
the segments that it spoils, p chance of being convicted, p1 chance of being found before the merge, s share
of auditors that it may own, m chance that they decide all draws of a claim, F no-show fee.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from protocol.spec.containers import Amounts
from protocol.spec.errors import InvalidInput
from protocol.spec.odds import compute_least_detection, compute_owned_majority, compute_owned_reveals
from protocol.spec.params import CHEAT_VERIFIER_SHARE_PERCENT, LATE_RATE_ONE, MAX_AUDITORS

SHARE_DIVISOR = 4
"""Of a slash: finder and submitter get at most a quarter each (`StakeVault.SHARE_DIVISOR`), so at least half
is burned whoever they are."""


@dataclass(frozen=True)
class Figures:
    """What a submitter states about its task. cost_wei: C, compute of one solver's round; gain_wei: V, what a
    false claim that gets through is worth to somebody outside; gas_price_wei: one gas, in wei of the task's
    token; owned: s, share of verifiers and of whistleblowers that a cheat may own; choices: the grinding
    margin, how many draws a cheat may choose among; detection: d, chance that an honest auditor sees a false
    segment that it replays."""

    cost_wei: int
    gain_wei: int
    gas_price_wei: int
    owned: Fraction = Fraction(CHEAT_VERIFIER_SHARE_PERCENT, 100)
    choices: int = 1
    detection: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        counts = (self.cost_wei, self.gain_wei, self.gas_price_wei, self.choices - 1)
        if min(counts) < 0 or not 0 <= self.owned < 1 or not 0 < self.detection <= 1:
            raise InvalidInput(
                what="impossible figures",
                expected="no negative amount, a share below 1, a detection above 0, at least one choice",
                actual=self,
                remedy="Correct the table [economics] of the task file.",
            )

    @property
    def seen(self) -> Fraction:
        """Chance that whoever audits a false segment is not the cheat's own and sees it."""
        return self.detection * (1 - self.owned)


@dataclass(frozen=True)
class Sampling:
    """How much of a round is looked at, and by how many. steps: k, of a segment;
    late_rate in 1/65536."""

    segments: int
    steps: int
    draws: int
    late_rate: int
    solvers: int
    verifiers: int
    whistleblowers: int

    @property
    def late_share(self) -> Fraction:
        """Chance of a late audit of an accepted claim."""
        return Fraction(self.late_rate, LATE_RATE_ONE) if self.whistleblowers else Fraction(0)


def compute_burned_wei(stake_wei: int, finder_cap_wei: int, submitter_cap_wei: int) -> int:
    """What a slash of `stake_wei` burns: neither finder nor submitter, who may be the cheat, gets more than
    its cap and a quarter."""
    quarter = stake_wei // SHARE_DIVISOR
    return stake_wei - min(finder_cap_wei, quarter) - min(submitter_cap_wei, quarter)


def compute_stake_burning_wei(burned_wei: int, finder_cap_wei: int, submitter_cap_wei: int) -> int:
    """The least stake of which a slash burns at least `burned_wei`: the burned part is the largest of four
    straight lines, so the stake is the least of where they reach it."""
    low, high = sorted((finder_cap_wei, submitter_cap_wei))
    lines = (2 * burned_wei, ceil(Fraction(4 * (burned_wei + low), 3)), burned_wei + low + high)
    return max(0, min(lines))


def compute_capture(sampling: Sampling, figures: Figures, spoiled: int) -> tuple[Fraction, Fraction]:
    """Chances that the best `spoiled` segments to spoil are found by the first audit, and by any. A cheat
    that may choose among g draws is found only when all of them find it."""
    first, late_rate = 0, sampling.late_rate if sampling.whistleblowers else 0
    return tuple(  # type: ignore[return-value]
        compute_least_detection(sampling.segments, sampling.draws, spoiled, rate, figures.seen)
        ** figures.choices
        for rate in (first, late_rate)
    )


def compute_burden_wei(sampling: Sampling, figures: Figures, reward_wei: int) -> int:
    """What a slash must burn so that no choice of segments to spoil pays: (f C + (1 - p1) V) / p - B for
    every f = j / n. p1: found before the merge, which voids the claim; a later conviction slashes and leaves
    the gain."""
    burdens = []
    for least, spoiled in _list_spans(sampling.segments):
        first, ever = compute_capture(sampling, figures, least)
        burdens.append(
            compute_deterring_stake_wei(
                cheated_share=Fraction(spoiled, sampling.segments),
                cost_wei=figures.cost_wei,
                gain_wei=figures.gain_wei,
                reward_wei=reward_wei,
                conviction=ever,
                burned_share=Fraction(1),
                voided=first,
            )
        )
    return max(burdens)


def _list_spans(segments: int) -> Iterator[tuple[int, int]]:
    """Every number of spoiled segments; above 64 spans of them, from the least (caught least) to the most
    (saves most), so that what is computed of a span holds for all in it."""
    least = 1
    while least <= segments:
        most = min(segments, least + least // 64)
        yield least, most
        least = most + 1


def compute_bearable_gain_wei(sampling: Sampling, figures: Figures, reward_wei: int, burned_wei: int) -> int:
    """The largest V under which one false segment does not pay, C counted too."""
    first, ever = compute_capture(sampling, figures, 1)
    saved = Fraction(figures.cost_wei, sampling.segments)
    return floor(max(Fraction(0), (ever * (burned_wei + reward_wei) - saved) / (1 - first)))


def compute_owned_round(sampling: Sampling, figures: Figures) -> Fraction:
    """Chance that a cheat's verifiers decide all draws of its claim, the best of its choices."""
    majority = compute_owned_majority(figures.owned, sampling.verifiers)
    return 1 - (1 - majority**sampling.draws) ** figures.choices


def compute_least_late_share(sampling: Sampling, figures: Figures, amounts: Amounts) -> Fraction:
    """c >= C_v / (d (R + L)): a verifier bribed to hand in the solver's root saves the replay C_v, and risks
    pay R and the burned L where a second, honest look finds the claim false."""
    burned = compute_burned_wei(amounts.audit_stake, amounts.finder_cap, amounts.audit_pay)
    risk = figures.seen * (amounts.audit_pay + burned)
    saved = Fraction(figures.cost_wei, sampling.segments)
    return saved / risk if risk else Fraction(int(saved > 0))


def compute_least_no_show_fee_wei(
    cheat_share: Fraction, draws: int, reward_wei: int, verifiers: int = MAX_AUDITORS
) -> int:
    """The least F above m B / (1 - m), m the chance that a cheat's own verifiers decide all draws: below it a
    cheat gains by serving nobody else. verifiers: at most so many take part."""
    if not 0 <= cheat_share < 1 or draws < 1:
        raise InvalidInput(
            what="no fee deters this",
            expected="a share of verifiers below 1 and at least one draw",
            actual=f"share {cheat_share}, {draws} draws",
            remedy="Draw from verifiers that one party does not own altogether.",
        )
    return compute_least_fee_wei(compute_owned_majority(cheat_share, verifiers) ** draws, reward_wei)


def compute_serving_fee_wei(sampling: Sampling, figures: Figures, amounts: Amounts) -> int:
    """The least F > (m (B + V) + e) / (1 - m): a coalition that computes nothing and serves only its own
    auditors loses. e: what these are paid for their audits, whatever becomes of the claim. Nothing else stops
    it: what a late auditor says of a state that it never got costs nobody anything (docs/decisions/0008)."""
    audits = sampling.draws * compute_owned_reveals(figures.owned, sampling.verifiers)
    earned = amounts.solver_pay + figures.gain_wei
    return compute_least_fee_wei(
        compute_owned_round(sampling, figures), earned, ceil(audits * amounts.audit_pay)
    )


def compute_least_fee_wei(owned_round: Fraction, reward_wei: int, extra_wei: int = 0) -> int:
    """The least F above (m B + e) / (1 - m) for m = `owned_round`, e = `extra_wei`. Raises InvalidInput where
    m is 1."""
    if owned_round >= 1:
        raise InvalidInput(
            what="no fee deters this",
            expected="a share of verifiers that cannot decide every draw",
            actual=f"all draws of a share {float(owned_round):.4g} of all claims",
            remedy="Wait for more verifiers, or assume that a cheat owns fewer.",
        )
    return floor((owned_round * reward_wei + extra_wei) / (1 - owned_round)) + 1


def compute_deterring_stake_wei(
    *,
    cheated_share: Fraction,
    cost_wei: int,
    gain_wei: int,
    reward_wei: int,
    conviction: Fraction,
    burned_share: Fraction,
    voided: Fraction | None = None,
) -> int:
    """The least S >= ((f C + (1 - p1) V) / p - B) / b: with it, cheating a share f of the work loses money on
    average. p1 (`voided`) is p where nothing is said: all that is found is found before the merge.

    b divides because a cheat may be its own challenger and get the rest of the slash back."""
    if not 0 < conviction <= 1 or not 0 < burned_share <= 1:
        raise InvalidInput(
            what="no stake deters this",
            expected="a chance of conviction and a burned share above 0",
            actual=f"conviction {conviction}, burned share {burned_share}",
            remedy="Draw more segments, audit late, or burn a part of every slash.",
        )
    kept = 1 - (conviction if voided is None else voided)
    balance = (cheated_share * cost_wei + kept * gain_wei) / conviction - reward_wei
    return max(0, ceil(balance / burned_share))
