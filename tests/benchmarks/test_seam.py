"""The zoo counts what is a cheat, judges it as a verifier does, and tells how far out it was."""

from dataclasses import replace

import pytest
import torch

from benchmarks.hunting.arena import Arena, Calibrated, Ground, calibrate, make_starts, widen
from benchmarks.hunting.seam import Segment, Tally, judge_attack, judge_forgery, open_segment
from protocol.compute.calibrate import FLOORS, KernelConfiguration, Proposal
from protocol.compute.conditioning import Conditioning
from protocol.compute.determinism import pin_kernels
from protocol.compute.outer import encode_delta
from protocol.compute.step import TrainingState
from protocol.spec.containers import TrainingSpec
from protocol.spec.params import MIN_ACCEPT_TAU
from protocol.spec.tolerance import Judgement
from tests.attacks.frame import Attack, every, is_equal, last, share, take_honest_step, tampered
from tests.attacks.hyperparameters import multiply_rate, rescale, scale
from tests.attacks.outer import Forgery, double
from tests.attacks.steps import skip

HERE = KernelConfiguration(1, True, "default")
ARENA = Arena("mouse", 2, 4, 1)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    pin_kernels(1)
    ground = Ground(ARENA, tmp_path_factory.mktemp("arena"))
    make_starts(ground)
    for stage in ARENA.list_stages():
        ground.save(HERE.name, stage, ground.replay(ground.load_start(stage), stage))
    return ground


@pytest.fixture
def segment(ground: Ground, limits: Calibrated) -> Segment:
    return open_segment(ground, 2, [HERE], limits)


@pytest.fixture
def limits(ground: Ground) -> Calibrated:
    """Two configurations that agree in every bit: the tightest limits that the contract takes."""
    return calibrate(ground, [HERE, HERE])


def play(segment: Segment, attack: Attack, limits: Calibrated) -> Tally:
    tally = Tally(attack.number, attack.name)
    judge_attack(segment, attack, limits, tally)
    return tally


def test_stages_follow_each_other_and_some_are_attacked() -> None:
    arena = Arena("mouse", 5, 20, 2, attacked=3)
    assert arena.list_stages() == [0, 5, 10, 15, 20, 25, 30, 35]
    assert arena.list_attacked() == [0, 15, 30]


def test_limits_are_never_tighter_than_the_contract_takes(limits: Calibrated) -> None:
    assert limits.proposal.accept.tau_m == limits.proposal.accept.tau_w == MIN_ACCEPT_TAU
    assert limits.proposal.reject.tau_v == MIN_ACCEPT_TAU * 10 // 4
    wide = Proposal(replace(limits.proposal.accept, tau_m=2**60), limits.proposal.reject)
    assert widen(wide).accept.tau_m == 2**60


def test_an_honest_claim_is_no_sample(segment: Segment, limits: Calibrated) -> None:
    tally = play(segment, Attack("0", "honest", every(take_honest_step)), limits)
    assert (tally.samples, tally.idle) == (0, 1)


def test_clipping_left_out_where_nothing_is_clipped_is_no_cheat(
    ground: Ground, segment: Segment, limits: Calibrated
) -> None:
    quiet = Attack("11", "clip x 1000", every(scale("clip_norm", 1e3)))
    louder = Attack("11", "clip / 1000", every(scale("clip_norm", 1e-3)))
    relaxed = replace(ground.spec, optimizer=replace(ground.spec.optimizer, clip_norm=1e3))
    free = Ground(ARENA, ground.folder)
    free.spec = relaxed
    assert play(open_segment(free, 2, [HERE], limits), quiet, limits).idle == 1
    assert play(segment, louder, limits).samples == 1


def test_a_skipped_step_is_rejected_far_out(segment: Segment, limits: Calibrated) -> None:
    tally = play(segment, Attack("5", "skipped", last(skip), share(0.5)), limits)
    assert (tally.samples, tally.rejected, tally.detected, tally.saved) == (1, 1, 1.0, 0.5)
    assert tally.margin > 100 and "at step 2" in tally.weakest


def test_a_difference_inside_the_limits_is_a_sample_that_was_missed(
    segment: Segment, limits: Calibrated
) -> None:
    def nudge(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
        return replace(end, weights=torch.nextafter(end.weights, torch.full_like(end.weights, 9.0)))

    tally = play(segment, Attack("13", "one ulp", tampered(nudge)), limits)
    assert (tally.samples, tally.rejected) == (1, 0) and tally.margin < 1


def test_the_margin_is_that_of_the_weakest_sample() -> None:
    tally = Tally("1", "x")
    for place, excess in (("a", 7.0), ("b", 3.0), ("c", 5.0)):
        tally.add("arena", place, excess, Judgement.REJECT)
    tally.add("other", "d", 0.5, Judgement.GREY)
    assert (tally.margin, tally.weakest, tally.detected, tally.grey) == (0.5, "d", 0.75, 1)


def test_a_smaller_dose_has_a_smaller_margin(segment: Segment, limits: Calibrated) -> None:
    margins = [
        play(segment, Attack("11", "rate", every(rescale(multiply_rate(f)))), limits).margin
        for f in (0.9, 0.99, 0.999)
    ]
    assert margins == sorted(margins, reverse=True)


def test_a_pseudo_gradient_is_false_by_a_byte(segment: Segment) -> None:
    tally, honest = Tally("23", "x"), Tally("23", "y")
    judge_forgery(segment, Forgery("23", "x", double), tally)
    judge_forgery(segment, Forgery("23", "y", encode_delta), honest)
    assert (tally.samples, tally.rejected, honest.samples, honest.idle) == (1, 1, 0, 1)
    # The largest element of a block is 64 to 127 quanta; doubled it is as far off again.
    assert 63.5 < tally.margin < 128.5


def test_equal_is_bit_by_bit(segment: Segment) -> None:
    end = segment.honest[0]
    other = replace(end, second_moment=end.second_moment + 1e-3)
    assert is_equal(end, end) and not is_equal(end, other)


def test_what_may_be_the_segment_s_own_noise_is_not_counted_as_found(
    segment: Segment, limits: Calibrated
) -> None:
    reject = limits.proposal.reject
    allowed = reject.tau_m * 2.0**-64 * (float(segment.honest[0].second_moment[700]) ** 0.5 + FLOORS.eps_m)

    def push(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
        moment = end.first_moment.clone()
        moment[700] += 50 * allowed
        return replace(end, first_moment=moment)

    attack = Attack("1", "one element", tampered(push))
    assert not segment.conditioning.is_ill and play(segment, attack, limits).rejected == 1
    chaos = Conditioning((0.1, 6.0, 0.1), (0.1, 0.1, 0.1))
    loud = play(replace(segment, conditioning=chaos), attack, limits)
    assert (loud.rejected, loud.grey) == (0, 1)
