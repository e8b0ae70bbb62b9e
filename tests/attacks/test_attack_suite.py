"""Every attack of a solver makes a claim that passes for one, and is none."""

from functools import partial

import pytest
import torch

from tests.attacks.attack_suite import ATTACKS
from tests.attacks.frame import Attack, is_equal, list_honest_ends
from tests.attacks.outer import FORGERIES, Forgery
from tests.attacks.precision import BF16, FP16, Round, round_to_tf32, short_operands
from tests.protocol.compute.conftest import TOKENS, build_tiny_training
from tests.task_models import draw_first
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.outer.pseudo_gradients import count_delta_bytes, encode_delta
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.task_spec import ScheduleConfig
from touchstone.step.optimizers import AdamW

# Still warming up and clipped, so that attacks on either change something.
SPEC = build_tiny_training(
    schedule=ScheduleConfig(nearest(3e-3), warmup_steps=20, total_steps=200),
    optimizer=AdamW(clip_norm=0.25),
)
BATCHES: GetBatch = partial(get_batch, open_corpus(TOKENS, SPEC), SPEC, bytes(32), 0)
STEPS = 2


@pytest.fixture(scope="module")
def start() -> TrainingState:
    fresh = begin_round(draw_first(SPEC), 0)
    return train_segment(fresh, SPEC, BATCHES, 0, 3)[0]


@pytest.fixture(scope="module")
def honest(start: TrainingState) -> tuple[TrainingState, TrainingState]:
    return list_honest_ends(start, SPEC, BATCHES, 3, STEPS)


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_attacks_end_where_the_counters_must_be_and_elsewhere_than_the_honest(
    attack: Attack, start: TrainingState, honest: tuple[TrainingState, TrainingState]
) -> None:
    before = start.weights.clone()
    claimed, losses = attack.train(start, SPEC, BATCHES, 3, STEPS)
    assert (claimed.local_step, claimed.global_step) == (3 + STEPS, 3 + STEPS) and len(losses) == STEPS
    for vector in (claimed.weights, claimed.first_moment, claimed.second_moment):
        assert vector.dtype == torch.float32 and vector.shape == start.weights.shape
        assert bool(torch.isfinite(vector).all())
    assert not any(is_equal(claimed, end) for end in honest)
    assert torch.equal(start.weights, before)
    assert 0 <= attack.saved(SPEC, STEPS) <= 1


def test_names_are_unique() -> None:
    names = [attack.name for attack in ATTACKS] + [forgery.name for forgery in FORGERIES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("forgery", FORGERIES, ids=[forgery.name for forgery in FORGERIES])
def test_forgeries_are_well_formed_and_false(
    forgery: Forgery, start: TrainingState, honest: tuple[TrainingState, TrainingState]
) -> None:
    claimed = forgery.forge(start.weights, honest[0].weights)
    assert len(claimed) == count_delta_bytes(start.weights.numel())
    assert claimed != encode_delta(start.weights, honest[0].weights)


def test_tf32_keeps_ten_bits_and_rounds_to_the_nearest() -> None:
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, 1 + 2**-12, -3.0])
    assert round_to_tf32(x).tolist() == [1.0, 1 + 2**-10, 1 + 2**-10, 1.0, -3.0]


@pytest.mark.parametrize("rounding", [BF16, FP16, round_to_tf32])
def test_products_forward_and_backward_have_rounded_factors(
    rounding: Round,
) -> None:
    a, b = torch.rand(4, 4, requires_grad=True), torch.rand(4, 4)
    with short_operands(rounding):
        product = a @ b
        [gradient] = torch.autograd.grad(product.sum(), a)
    assert torch.equal(product, rounding(a.detach()) @ rounding(b))
    assert torch.equal(gradient, torch.ones(4, 4) @ rounding(b).T)
