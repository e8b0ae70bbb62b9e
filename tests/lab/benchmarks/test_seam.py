"""The attack suite counts what is a cheat, judges it as a verifier does, and tells how far out it was."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lab.benchmarks.hunting.arena import Arena, Calibrated, Ground, calibrate, make_starts
from lab.benchmarks.hunting.seam import Segment, Tally, defend, judge_attack, judge_forgery, open_segment
from tests.attacks.frame import Attack, every, is_equal, last, share, take_honest_step, tampered
from tests.attacks.hyperparameters import multiply_rate, rescale, scale
from tests.attacks.outer import Forgery, double
from tests.attacks.steps import skip
from tests.task_models import respecify
from touchstone.node.kit.states import StateStore
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import compute_allowances
from touchstone.protocol.spec.params import MIN_TAU
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.optimizers import AdamW

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
def states(ground: Ground, tmp_path: Path) -> StateStore:
    return StateStore(BlobStore(tmp_path, is_durable=False), ground.parameter_count)


@pytest.fixture
def segment(ground: Ground, limits: Calibrated, states: StateStore) -> Segment:
    return open_segment(ground, 2, [HERE], limits, states)


@pytest.fixture
def limits(ground: Ground) -> Calibrated:
    """Two configurations that agree in every bit: the tightest limits that the contract takes."""
    return calibrate(ground, [HERE, HERE])


def play(segment: Segment, attack: Attack) -> Tally:
    tally = Tally(attack.number, attack.name)
    judge_attack(segment, attack, tally)
    return tally


def test_stages_follow_each_other_and_some_are_attacked() -> None:
    arena = Arena("mouse", 5, 20, 2, attacked=3)
    assert arena.list_stages() == [0, 5, 10, 15, 20, 25, 30, 35]
    assert arena.list_attacked() == [0, 15, 30]


def test_limits_are_never_tighter_than_the_contract_takes(limits: Calibrated) -> None:
    assert limits.limits.tau_m == limits.limits.tau_v == limits.limits.tau_w == MIN_TAU * 10 // 4


def test_an_honest_claim_is_no_sample(segment: Segment) -> None:
    tally = play(segment, Attack("0", "honest", every(take_honest_step)))
    assert (tally.samples, tally.idle) == (0, 1)


def test_clipping_left_out_where_nothing_is_clipped_is_no_cheat(
    ground: Ground, segment: Segment, limits: Calibrated, states: StateStore
) -> None:
    quiet = Attack("11", "clip x 1000", every(scale("clip_norm", 1e3)))
    louder = Attack("11", "clip / 1000", every(scale("clip_norm", 1e-3)))
    relaxed = respecify(ground.spec, optimizer=replace(AdamW(), clip_norm=1e3))
    free = Ground(ARENA, ground.folder)
    free.spec = relaxed
    assert play(open_segment(free, 2, [HERE], limits, states), quiet).idle == 1
    assert play(segment, louder).samples == 1


def test_a_skipped_step_is_rejected_far_out(segment: Segment) -> None:
    tally = play(segment, Attack("5", "skipped", last(skip), share(0.5)))
    assert (tally.samples, tally.rejected, tally.detected, tally.saved) == (1, 1, 1.0, 0.5)
    assert tally.margin > 100 and "at step 2" in tally.weakest


def test_a_difference_inside_the_limits_is_a_sample_that_was_missed(segment: Segment) -> None:
    def nudge(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
        return replace(end, weights=torch.nextafter(end.weights, torch.full_like(end.weights, 9.0)))

    tally = play(segment, Attack("13", "one ulp", tampered(nudge)))
    assert (tally.samples, tally.rejected) == (1, 0) and tally.margin < 1


def test_the_margin_is_that_of_the_weakest_sample() -> None:
    tally = Tally("1", "x")
    for place, excess in (("a", 7.0), ("b", 3.0), ("c", 5.0)):
        tally.add("arena", place, excess, True)
    tally.add("other", "d", 0.5, False)
    assert (tally.margin, tally.weakest, tally.detected) == (0.5, "d", 0.75)


def test_a_smaller_dose_has_a_smaller_margin(segment: Segment) -> None:
    margins = [
        play(segment, Attack("11", "rate", every(rescale(multiply_rate(f))))).margin
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


def push_first_moment(segment: Segment, times: float) -> TrainingState:
    """The honest end with one first moment so many limits off."""
    end = segment.honest[0]
    _, allowed, _ = compute_allowances(end, segment.about.get_rate_sum(*segment.place), segment.about.limits)
    moment = end.first_moment.clone()
    moment[700] += times * float(allowed[700])
    return replace(end, first_moment=moment)


def test_what_is_little_beyond_the_limits_is_void_and_keeps_its_seat(segment: Segment) -> None:
    """Shared over two steps each lies inside; ten times as much does not. Not even once: at once it is as far
    off as the end is."""
    for times, is_kept in ((1.5, True), (15.0, False)):
        claimed = push_first_moment(segment, times)
        tally = play(segment, Attack("13", "one moment", tampered(lambda *_, end=claimed: end)))
        assert (tally.rejected, tally.kept) == (1, is_kept)
    assert defend(segment, push_first_moment(segment, 1.5)) == pytest.approx(1.5 / 1.9, rel=0.1)


def test_a_claim_is_weighed_by_what_it_does_to_the_model(segment: Segment) -> None:
    tally = play(segment, Attack("5", "skipped", every(skip), share(1.0)))
    assert tally.moved == pytest.approx(1.0) and tally.loss > 0
