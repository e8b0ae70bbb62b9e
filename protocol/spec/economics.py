"""The money of a task and what it must be so that cheating does not pay. Amounts in wei, time in blocks, all
exact.

Symbols of the design: B reward of an honest round, C cost that a cheat saves, V its gain from outside, q
draws, p its chance of being convicted, b the burned share of a slash, s the share of verifiers that a cheat
may own, F no-show fee.
"""

from fractions import Fraction
from math import floor

from protocol.spec.clock import compute_deadlines, compute_late_deadlines
from protocol.spec.containers import TaskTerms, Windows
from protocol.spec.errors import InvalidInput
from protocol.spec.params import MIN_VERIFIERS


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


def compute_least_no_show_fee_wei(cheat_share: Fraction, draws: int, reward_wei: int) -> int:
    """The least F above s^q B / (1 - s^q): below it a cheat gains by serving only rounds whose draws are all
    its own."""
    if not 0 <= cheat_share < 1 or draws < 1:
        raise InvalidInput(
            what="no fee deters this",
            expected="a share of verifiers below 1 and at least one draw",
            actual=f"share {cheat_share}, {draws} draws",
            remedy="Draw from verifiers that one party does not own altogether.",
        )
    all_owned = cheat_share**draws
    return floor(all_owned * reward_wei / (1 - all_owned)) + 1


def compute_deterring_stake_wei(
    *,
    cheated_share: Fraction,
    cost_wei: int,
    gain_wei: int,
    reward_wei: int,
    conviction: Fraction,
    burned_share: Fraction,
) -> int:
    """The least S >= ((f C + V) / p - (B + V)) / b: with it, cheating a share f of the work loses money on
    average.

    b divides because a cheat may be its own challenger and get the rest of the slash back."""
    if not 0 < conviction <= 1 or not 0 < burned_share <= 1:
        raise InvalidInput(
            what="no stake deters this",
            expected="a chance of conviction and a burned share above 0",
            actual=f"conviction {conviction}, burned share {burned_share}",
            remedy="Draw more segments, or burn a part of every slash.",
        )
    balance = (cheated_share * cost_wei + gain_wei) / conviction - (reward_wei + gain_wei)
    return max(0, -floor(-balance / burned_share))
