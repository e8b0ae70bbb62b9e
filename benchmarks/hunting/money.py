"""What an attack earns beyond honest work, in tokens, at a task's sampling and stakes.

Everything is counted in the cheat's favour: it spoils the segments for which the balance is best, its
accomplice is the finder of its own cheat, and the compute that it saves is worth the whole pay of a round, at
which honest work just breaks even. A claim found beyond the reject limit is disputed and convicted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations

from node.submit import TaskPlan
from protocol.spec.deterrence import compute_burned_wei
from protocol.spec.odds import compute_detection_probability, compute_owned_majority
from protocol.spec.params import CHEAT_VERIFIER_SHARE_PERCENT, LATE_RATE_ONE, TOKEN_WEI
from tests.e2e.plan import build_plan

OWNED = Fraction(CHEAT_VERIFIER_SHARE_PERCENT, 100)
"""The share of verifiers, and of whistleblowers, that a coalition may own."""


@dataclass(frozen=True)
class Deal:
    """A task's money in tokens and its sampling. price: what the compute of a round is worth."""

    pay: Fraction
    stake: Fraction
    audit_pay: Fraction
    audit_stake: Fraction
    no_show_fee: Fraction
    dispute_bond: Fraction
    finder_cap: Fraction
    price: Fraction
    segments: int
    draws: int
    late_rate: int
    verifiers: int

    @property
    def loss(self) -> Fraction:
        """What a convicted solver loses: its pay, and its stake but for what its own finder gets back."""
        return self.pay + self._lose(self.stake, Fraction(0))

    @property
    def audit_loss(self) -> Fraction:
        """What a convicted auditor loses of its stake."""
        return self._lose(self.audit_stake, Fraction(0))

    @property
    def self_challenge(self) -> Fraction:
        """What is burned of a solver's stake where finder and submitter are its own."""
        return self._lose(self.stake, self.pay)

    def _lose(self, stake: Fraction, submitter_cap: Fraction) -> Fraction:
        amounts = (int(one * TOKEN_WEI) for one in (stake, self.finder_cap, submitter_cap))
        return Fraction(compute_burned_wei(*amounts), TOKEN_WEI)

    @property
    def audit_price(self) -> Fraction:
        """What the replay of one segment is worth."""
        return self.price / self.segments


def read_deal(plan: TaskPlan | None = None) -> Deal:
    """The demo's task, or another."""
    plan = plan or build_plan()
    amounts = plan.amounts

    def tokens(wei: int) -> Fraction:
        return Fraction(wei, TOKEN_WEI)

    return Deal(
        pay=tokens(amounts.solver_pay),
        stake=tokens(amounts.solver_stake),
        audit_pay=tokens(amounts.audit_pay),
        audit_stake=tokens(amounts.audit_stake),
        no_show_fee=tokens(amounts.no_show_fee),
        dispute_bond=tokens(amounts.dispute_bond),
        finder_cap=tokens(amounts.finder_cap),
        price=tokens(amounts.solver_pay),
        segments=plan.inner_steps // plan.segment_steps,
        draws=plan.segment_draws,
        late_rate=plan.late_rate,
        verifiers=plan.max_verifiers,
    )


# --- Solvers ------------------------------------------------------------------------------------------------
def compute_capture(
    deal: Deal, spoiled: frozenset[int], detected: Fraction, owned: Fraction = Fraction(0)
) -> Fraction:
    """The chance that an auditor who is not the cheat's own meets a spoiled segment and sees it. detected:
    its chance to see what it meets; owned: the cheat's share of auditors."""
    seen = detected * (1 - owned)
    return compute_detection_probability(deal.segments, deal.draws, spoiled, deal.late_rate, seen)


def compute_net(
    deal: Deal, saved: float, detected: float, owned: Fraction = Fraction(0), convicted: float = 1.0
) -> Fraction:
    """Of the best choice of segments to spoil: compute saved, less what is lost when caught. Below zero:
    honest work earns more. convicted: the share of those caught who lose their stake, not their pay alone."""
    loss = deal.pay + Fraction(convicted) * (deal.loss - deal.pay)
    return max(
        Fraction(len(spoiled), deal.segments) * Fraction(saved) * deal.price
        - compute_capture(deal, spoiled, Fraction(detected), owned) * loss
        for spoiled in _list_choices(deal)
    )


def compute_bearable_gain(deal: Deal, detected: float, owned: Fraction = Fraction(0)) -> Fraction:
    """What one spoiled segment must be worth to somebody outside before it pays."""
    return min(
        compute_capture(deal, frozenset({segment}), Fraction(detected), owned) * deal.loss
        for segment in range(deal.segments)
    )


def _list_choices(deal: Deal) -> Iterator[frozenset[int]]:
    segments = range(deal.segments)
    return map(frozenset, chain.from_iterable(combinations(segments, n + 1) for n in segments))


# --- Everybody else -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Play:
    """An attack that is not a false computation. net: tokens beyond honest work."""

    number: str
    name: str
    net: Fraction


def list_plays(deal: Deal) -> tuple[Play, ...]:
    """What they earn beyond honest work."""
    invented = deal.audit_price - deal.audit_pay - deal.audit_loss
    copied = deal.audit_price - compute_fall(deal) * (deal.audit_pay + deal.audit_loss)
    return (
        Play("18", "one more draw after a bad one", -deal.pay),
        Play("19", "nothing computed, only one's own verifiers served", compute_serving_net(deal, OWNED)),
        Play("25", "verifier invents its result", invented),
        Play("26", "verifier is handed a false root", copied),
        Play("26", "verifier is handed an honest root", deal.audit_price),
        Play("27", "idle solver and half of all auditors", compute_net(deal, 1.0, 1.0, OWNED)),
        Play("28", "false accusation", -deal.dispute_bond),
        Play("28", "false accusation of oneself", -deal.dispute_bond / 2),
        Play("31", "self-challenge, submitter included", -deal.self_challenge),
        Play("32", "honest work rejected", invented),
        Play("33", "silence after the draw", deal.audit_price - deal.audit_pay - deal.no_show_fee),
        Play("33b", "a broken trace against those who accepted", -deal.loss),
    )


def compute_fall(deal: Deal) -> Fraction:
    """The chance that a claim without any work falls although one verifier hands in what its solver gave it:
    somebody else is drawn first onto another segment, or audits late. Then a whistleblower's replay takes the
    verifier with it."""
    return 1 - Fraction(1, deal.verifiers) ** (deal.draws - 1) * (1 - Fraction(deal.late_rate, LATE_RATE_ONE))


def compute_serving_net(deal: Deal, owned: Fraction) -> Fraction:
    """Nothing is computed, and nobody is served but the cheat's own, who decide all draws or outvote whoever
    is not. A late auditor is not served either: its word costs nothing (docs/decisions/0008)."""
    chance = compute_owned_majority(owned, deal.verifiers) ** deal.draws
    return deal.price - (1 - chance) * (deal.pay + deal.no_show_fee)
