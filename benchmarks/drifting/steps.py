"""One machine shows each state of a segment; another one judges each step from the state before it.

The rule is that of `actions/dispute/step_judging.py`, with the same functions; states come from a folder
instead of the wire.
"""

from dataclasses import replace

from benchmarks.setting import INNER_STEPS
from protocol.actions.dispute.step_judging import stands_out
from protocol.compute.audit.compare import Verdict, judge_state, rank_excess, shake, unshake
from protocol.compute.program.step import train_segment
from protocol.spec.containers import Limits
from protocol.spec.schedule import compute_learning_rate_sum
from scripts.calibrate_commands import SEED, Segment, Workplace


def name_step(machine: str, step: int) -> str:
    """Under which name a machine's state after so many steps of a segment is stored."""
    return f"{machine}.{step}"


def show_steps(workplace: Workplace, machine: str, segment: Segment) -> None:
    """Stores the k + 1 states of a segment, as this process computes them."""
    state, batches = workplace.load("start", segment, 0), workplace.get_batches(segment)
    workplace.save(name_step(machine, 0), segment, state)
    for step in range(segment.steps):
        state = train_segment(state, workplace.training, batches, segment.inner_step + step, 1)[0]
        workplace.save(name_step(machine, step + 1), segment, state)


def judge_steps(workplace: Workplace, claimant: str, segment: Segment, limits: Limits) -> list[Verdict]:
    """How far each claimed step lies from what this process computes from the claimed state before it, up to
    the first one beyond the limits that is no noise of its own."""
    training, batches, found = workplace.training, workplace.get_batches(segment), list[Verdict]()
    for step in range(segment.steps):
        before, after = (workplace.load(name_step(claimant, at), segment, at) for at in (step, step + 1))
        rate_sum = compute_learning_rate_sum(training.schedule, before.global_step, 1, INNER_STEPS)
        own = train_segment(before, training, batches, segment.inner_step + step, 1)[0]
        verdict = judge_state(after, own, rate_sum, limits)
        if verdict.is_beyond:
            shaken = train_segment(shake(before, SEED), training, batches, segment.inner_step + step, 1)[0]
            noise = rank_excess(unshake(shaken, before, SEED), own, rate_sum, limits)
            excess = rank_excess(after, own, rate_sum, limits)
            verdict = replace(verdict, is_beyond=stands_out(excess, noise))
        found.append(verdict)
        if verdict.is_beyond:
            break
    return found
