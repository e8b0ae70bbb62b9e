"""The money of a task and what it must be so that cheating does not pay. Amounts in wei, time in blocks, all
exact.

    figures (C, V, s, gas) --+
    sampling (n, q, c) ------+--> requirements: amount, least, inequality --> task create says or refuses
    amounts (B, S, A, F) ----+                                           --> derive_amounts

Symbols: B reward of an honest round, C compute of a round, V gain of a cheat from outside, n segments, q
draws, c chance of a late audit, p chance of being convicted (p1: before the merge), s the share of auditors
that a cheat may own, m chance that they decide all draws of a claim, F no-show fee, S and A stakes of solver
and auditor.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import ceil
from typing import Protocol

from protocol.spec.clock import compute_deadlines, compute_late_deadlines
from protocol.spec.containers import Amounts, TaskTerms, Windows
from protocol.spec.deterrence import (
    SHARE_DIVISOR,
    Figures,
    Sampling,
    compute_burden_wei,
    compute_burned_wei,
    compute_capture,
    compute_least_late_share,
    compute_owned_round,
    compute_serving_fee_wei,
    compute_stake_burning_wei,
)
from protocol.spec.errors import InvalidInput
from protocol.spec.params import (
    LATE_RATE_ONE,
    MAX_SEGMENT_DRAWS,
    MIN_VERIFIERS,
    TOKEN_WEI,
)


def compute_round_escrow_wei(terms: TaskTerms) -> int:
    """The most that one round can pay out: every solver accepted, every draw escalated, every late audit
    drawn."""
    amounts = terms.amounts
    audits = terms.segment_draws * MIN_VERIFIERS * amounts.audit_pay
    return terms.max_solvers * (amounts.solver_pay + audits + amounts.late_pay) + amounts.merge_pay


def compute_escrow_wei(terms: TaskTerms) -> int:
    """What `createTask` pulls from the submitter (`escrowFor`); `closeTask` refunds what was not paid out."""
    return terms.rounds * compute_round_escrow_wei(terms)


def compute_round_span_blocks(windows: Windows) -> int:
    """Blocks from a round's start to the next one's, escalation used to its end and nothing contested."""
    return compute_deadlines(0, windows).reserve_compare_end + windows.merge


def compute_worst_span_blocks(windows: Windows) -> int:
    """Blocks from a round's start until its stake can be free at the latest: every clock used to its end, a
    contested merge, and one full dispute opened in the last block (`Clock.worstSpan`). Unbonding must take
    longer."""
    late = compute_late_deadlines(compute_round_span_blocks(windows) + windows.merge, windows)
    return late.dispute_end + 3 * windows.respond + windows.name + windows.prove


# --- What each amount must be -------------------------------------------------------------------------------
GAS_SOLVER = 1_300_000
"""gas of a solver's round: enrol, commit, its share of the calls that anybody may send, and the outer root
where it falls to it. This figure and those below are a little above what `./dev bench economics` measures
(eight accounts a round)."""
GAS_SOLVER_DRAW = 150_000
"""gas of opening one draw: start, end, leaves."""
GAS_AUDIT = 250_000
"""gas of one audit: commit and reveal."""
GAS_ENROL = 900_000
"""gas of an auditor's round without any audit: enrolment, its share of the calls that anybody may send."""
GAS_MERGE = 400_000
"""gas of posting an outer root and settling it."""
GAS_CHALLENGE = 1_300_000
"""gas of whoever opens a dispute and proves a fault (docs/decisions/0013)."""
GAS_DEFENCE = 500_000
"""gas of a claimant that answers a dispute to its end, without demands."""
GAS_ANSWER = 200_000
"""gas of showing one demanded leaf."""
GAS_PRICE_WEI = TOKEN_WEI // 10**7
"""Where nobody states another: a million gas costs a tenth of a token."""
TRACE_STEPS = 10
"""Computing and hashing a step's whole trace takes up to nine plain steps (docs/operating.md)."""


@dataclass(frozen=True)
class Requirement:
    """One inequality that an amount must satisfy, with the figures that fixed it."""

    name: str
    actual: int
    least: int
    inequality: str
    because: str
    is_money: bool = True

    @property
    def holds(self) -> bool:
        """Whether the amount is at least what it must be."""
        return self.actual >= self.least

    def show(self, value: int) -> str:
        """A value of it for people: whole tokens, or the bare number."""
        return _say(value) if self.is_money else f"{value}"


class Sampled(Protocol):
    """What says how much of a round is sampled: a task's terms, or a plan of them."""

    @property
    def segment_count(self) -> int:
        """n."""

    @property
    def segment_steps(self) -> int:
        """k."""

    @property
    def segment_draws(self) -> int:
        """q."""

    @property
    def late_rate(self) -> int:
        """c in 1/65536."""

    @property
    def max_solvers(self) -> int:
        """Solvers of a round."""

    @property
    def max_verifiers(self) -> int:
        """Verifiers of a round."""

    @property
    def max_whistleblowers(self) -> int:
        """Whistleblowers of a round."""


def read_sampling(terms: Sampled) -> Sampling:
    """The sampling of a task whose rounds are full."""
    return Sampling(
        terms.segment_count,
        terms.segment_steps,
        terms.segment_draws,
        terms.late_rate,
        terms.max_solvers,
        terms.max_verifiers,
        terms.max_whistleblowers,
    )


def list_requirements(amounts: Amounts, sampling: Sampling, figures: Figures) -> tuple[Requirement, ...]:
    """Every amount with the least that it must be, the inequality that fixes it and the figures in it."""
    return (
        *_list_pays(amounts, sampling, figures),
        *_list_stakes(amounts, sampling, figures),
        *_list_bonds(amounts, sampling, figures),
        *_list_odds(amounts, sampling, figures),
    )


def _list_pays(a: Amounts, sampling: Sampling, figures: Figures) -> Iterator[Requirement]:
    price, audit = figures.gas_price_wei, Fraction(figures.cost_wei, sampling.segments)
    gas = GAS_SOLVER + sampling.draws * GAS_SOLVER_DRAW
    paid = f"compute {_say(figures.cost_wei)}, {gas:,} gas"
    yield _require("solver_pay", a.solver_pay, figures.cost_wei + gas * price, "B >= C + gas", paid)
    each = Fraction(sampling.draws * sampling.solvers, sampling.verifiers)
    gas = GAS_AUDIT + ceil(GAS_ENROL / each)
    replay = f"replay {_say(audit)}"
    yield _require(
        "audit_pay",
        a.audit_pay,
        audit + gas * price,
        "pay >= C / n + gas",
        f"{replay}, {gas:,} gas an audit at {_say_share(each)} audits a verifier",
    )
    if sampling.late_share:
        each = sampling.late_share * sampling.solvers / sampling.whistleblowers
        gas = GAS_AUDIT + ceil(GAS_ENROL / each)
        because = f"{replay}, {gas:,} gas an audit at {_say_share(each)} audits a whistleblower"
        yield _require("late_pay", a.late_pay, audit + gas * price, "pay >= C / n + gas", because)
    yield _require("merge_pay", a.merge_pay, GAS_MERGE * price, "pay >= gas", f"{GAS_MERGE:,} gas")


def _list_stakes(a: Amounts, sampling: Sampling, figures: Figures) -> Iterator[Requirement]:
    burden = compute_burden_wei(sampling, figures, a.solver_pay)
    first, ever = compute_capture(sampling, figures, 1)
    yield _require(
        "solver_stake",
        a.solver_stake,
        compute_stake_burning_wei(burden, a.finder_cap, a.solver_pay),
        "burned(S) >= (f C + (1 - p1) V) / p - B",
        f"V {_say(figures.gain_wei)}; one of {sampling.segments} segments: p1 {_say_share(first)}, "
        f"p {_say_share(ever)}; {_say(burden)} must burn",
    )
    # Two of three must reject: each risks its own stake.
    replay = Fraction(figures.cost_wei, sampling.segments)
    spite = ceil(Fraction(figures.gain_wei, 2) + replay)
    risk = sampling.late_share * figures.seen
    bribe = ceil(replay / risk) - a.audit_pay if risk else 0
    burning = compute_stake_burning_wei(max(spite, bribe), a.finder_cap, a.audit_pay)
    challenge = _compute_challenge_wei(sampling, figures)
    yield _require(
        "audit_stake",
        a.audit_stake,
        max(burning, SHARE_DIVISOR * challenge),
        "burned(A) >= V / 2 + C / n, C / n / (c d) - pay; A / 4 >= a challenge",
        f"two of three void honest work: {_say(spite)} each; bribed: {_say(bribe)}; "
        f"a challenge: {_say(challenge)}",
    )
    draws = -(-sampling.draws * sampling.solvers // sampling.verifiers)
    yield _require("enrol_stake", a.enrol_stake, draws * a.no_show_fee, "E >= draws F", f"{draws} draws each")
    owned = compute_owned_round(sampling, figures)
    yield _require(
        "no_show_fee",
        a.no_show_fee,
        compute_serving_fee_wei(sampling, figures, a),
        "F > (m (B + V) + e) / (1 - m)",
        f"m {_say_share(owned)} of all claims are decided by the cheat's own verifiers, paid e",
    )
    yield _require(
        "merge_bond",
        a.merge_bond,
        compute_stake_burning_wei(figures.gain_wei, a.finder_cap, a.merge_pay),
        "burned(M) >= V",
        f"V {_say(figures.gain_wei)}",
    )


def _list_bonds(a: Amounts, sampling: Sampling, figures: Figures) -> Iterator[Requirement]:
    price, audit = figures.gas_price_wei, Fraction(figures.cost_wei, sampling.segments)
    defence = GAS_DEFENCE * price + audit + _compute_trace_wei(sampling, figures)
    yield _require(
        "dispute_bond",
        a.dispute_bond,
        2 * defence,
        "D / 2 >= a defence",
        f"{GAS_DEFENCE:,} gas, a replay, a trace: {_say(defence)}",
    )
    yield _require("demand_fee", a.demand_fee, GAS_ANSWER * price, "fee >= gas", f"{GAS_ANSWER:,} gas")
    challenge = _compute_challenge_wei(sampling, figures)
    yield _require(
        "finder_cap",
        a.finder_cap,
        max(Fraction(challenge), 3 * (audit + GAS_AUDIT * price)),
        "cap >= a challenge, 3 audits",
        f"{GAS_CHALLENGE:,} gas, a replay, a trace: {_say(challenge)}",
    )


def _list_odds(a: Amounts, sampling: Sampling, figures: Figures) -> Iterator[Requirement]:
    least = compute_least_draws(a, sampling, figures)
    yield Requirement(
        "segment_draws",
        sampling.draws,
        least,
        "the fewest under which S and F suffice",
        f"n {sampling.segments}, s {_say_share(figures.owned)}, {figures.choices} draws to choose among",
        is_money=False,
    )
    share = compute_least_late_share(sampling, figures, a)
    yield Requirement(
        "late_rate",
        sampling.late_rate if sampling.whistleblowers else 0,
        ceil(share * LATE_RATE_ONE),
        "c >= C_v / (d (R + L))",
        f"{_say_share(share)} of all accepted claims",
        is_money=False,
    )


def compute_least_draws(a: Amounts, sampling: Sampling, figures: Figures) -> int:
    """The fewest draws under which the solver's stake and the no-show fee deter; one more than there can be
    where none do."""
    most = min(MAX_SEGMENT_DRAWS, (sampling.segments + 1) // 2)
    burned = compute_burned_wei(a.solver_stake, a.finder_cap, a.solver_pay)
    for draws in range(1, most + 1):
        fewer = replace(sampling, draws=draws)
        is_fee_enough = a.no_show_fee >= compute_serving_fee_wei(fewer, figures, a)
        if is_fee_enough and burned >= compute_burden_wei(fewer, figures, a.solver_pay):
            return draws
    return most + 1


def _compute_trace_wei(sampling: Sampling, figures: Figures) -> Fraction:
    return Fraction(TRACE_STEPS * figures.cost_wei, sampling.segments * sampling.steps)


def _compute_challenge_wei(sampling: Sampling, figures: Figures) -> int:
    audit = Fraction(figures.cost_wei, sampling.segments)
    return ceil(GAS_CHALLENGE * figures.gas_price_wei + audit + _compute_trace_wei(sampling, figures))


def compute_finder_wei(amounts: Amounts) -> int:
    """What whoever convicts an auditor gets of its stake."""
    return min(amounts.finder_cap, amounts.audit_stake // SHARE_DIVISOR)


def is_second_look_worth(amounts: Amounts, sampling: Sampling, figures: Figures) -> bool:
    """Whether the finder's share of an auditor's stake pays for the replay that shows its sentence false and
    for the challenge that proves it."""
    replay = Fraction(figures.cost_wei, sampling.segments)
    return compute_finder_wei(amounts) >= replay + _compute_challenge_wei(sampling, figures)


def is_bond_worth(amounts: Amounts, queued: int) -> bool:
    """Whether to open a dispute on an auditor of whom `queued` others are open: each doubles the bond, which
    is lost where the proof fails, and may be twice the finder's share."""
    return amounts.dispute_bond << queued <= 2 * compute_finder_wei(amounts)


def is_conviction_worth(amounts: Amounts, queued: int) -> bool:
    """Whether to open a dispute on a solver of whom `queued` others are open: no bond is larger than the
    stake that a conviction takes, or all who find one claim false would put up more and more for the same
    end. A cheat that drives the bond beyond that by disputes on itself puts up nearly as much, and half of it
    is burned."""
    return amounts.dispute_bond << queued <= amounts.solver_stake


def _require(name: str, actual_wei: int, least_wei: Fraction | int, rule: str, because: str) -> Requirement:
    return Requirement(name, actual_wei, max(1, ceil(least_wei)), rule, because)


def _say(amount_wei: Fraction | int) -> str:
    return f"{float(Fraction(amount_wei, TOKEN_WEI)):.4g}"


def _say_share(share: Fraction) -> str:
    return f"{float(share):.4g}"


def assume_figures(reward_wei: int) -> Figures:
    """The figures of a submitter that states none: compute takes three tenths of the reward, a false claim
    that gets through is worth one reward, and a million gas a tenth of a token."""
    return Figures(cost_wei=3 * reward_wei // 10, gain_wei=reward_wei, gas_price_wei=GAS_PRICE_WEI)


def refuse_paying_cheats(amounts: Amounts, sampling: Sampling, figures: Figures) -> None:
    """Raises InvalidInput that names every amount under which a cheat gains or honest work loses."""
    broken = [one for one in list_requirements(amounts, sampling, figures) if not one.holds]
    if broken:
        raise InvalidInput(
            what="under these amounts cheating pays, or honest work does not",
            expected="; ".join(f"{one.name} {one.inequality}: {one.show(one.least)}" for one in broken),
            actual="; ".join(f"{one.name}: {one.show(one.actual)}" for one in broken),
            where=", ".join(one.name for one in broken),
            remedy="Raise them (or lower outside_gain, if that is what you believe), or let them be derived.",
        )


def derive_amounts(
    reward_wei: int, sampling: Sampling, figures: Figures, margin: Fraction = Fraction(11, 10)
) -> Amounts:
    """Amounts that satisfy every requirement, each `margin` times its least, for a reward that the submitter
    chooses. Each depends on earlier ones only, so a few passes settle all of them."""
    names = [field.name for field in fields(Amounts)]
    amounts = Amounts(**{**dict.fromkeys(names, 1), "solver_pay": reward_wei})
    for _ in range(len(names)):
        least = {
            one.name: ceil(one.least * margin)
            for one in (*_list_pays(amounts, sampling, figures), *_list_bonds(amounts, sampling, figures))
        }
        least |= {one.name: ceil(one.least * margin) for one in _list_stakes(amounts, sampling, figures)}
        found = replace(amounts, **{**least, "solver_pay": reward_wei})
        found = _cap_finder(found)
        if found == amounts:
            break
        amounts = found
    refuse_paying_cheats(amounts, sampling, figures)
    return amounts


def _cap_finder(amounts: Amounts) -> Amounts:
    """Nodes want a finder's share of at most a quarter of the least stake, and a fee for a demand of at most
    the bond (`task_rules.py`)."""
    least = SHARE_DIVISOR * amounts.finder_cap
    return replace(
        amounts,
        solver_stake=max(amounts.solver_stake, least, amounts.no_show_fee),
        audit_stake=max(amounts.audit_stake, least),
        merge_bond=max(amounts.merge_bond, least),
    )
