"""Distances by class and stage, limits from how far honest kernels differ, and a step on another device."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tests.task_models import get_model, parameter_layout
from tests.training_setting import list_configurations, propose_limits
from touchstone.protocol.compute.audit.distance_survey import FLOORS, Survey, get_tensor_class, name_stage
from touchstone.protocol.compute.audit.kernel_configurations import list_devices, list_every_configuration
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import Distances, Floors
from touchstone.protocol.spec.calibration_profile import STAGES, TENSOR_CLASSES
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.task_spec import ScheduleConfig, TrainingSpec
from touchstone.step.optimizers import AdamW


# Classes, stages, configurations
def test_get_tensor_class_sorts_every_parameter(spec: TrainingSpec) -> None:
    found = {p.name: get_tensor_class(p.name) for p in parameter_layout(get_model(spec))}
    assert set(found.values()) == set(TENSOR_CLASSES)
    assert found["model.layers.1.self_attn.k_proj.weight"] == "attention"
    assert found["model.layers.1.input_layernorm.weight"] == found["model.norm.weight"] == "norm"


@pytest.mark.parametrize(("name", "expected"), [
    ("transformer.wte.weight", "embedding"), ("transformer.wpe.weight", "embedding"),
    ("transformer.h.0.attn.c_attn.bias", "attention"), ("lm_head.weight", "head"),
    ("transformer.h.0.mlp.c_fc.weight", "mlp"), ("transformer.ln_f.bias", "norm"),
    ("model.layers.0.self_attn.q_norm.weight", "attention"),
])  # fmt: skip
def test_get_tensor_class_sorts_the_names_of_published_models(name: str, expected: str) -> None:
    assert get_tensor_class(name) == expected


def test_name_stage_knows_all_four() -> None:
    schedule = ScheduleConfig(0.125, warmup_steps=20, total_steps=160, inner_warmup_steps=8)
    places = {(0, 0): 0, (40, 0): 0, (10, 10): 1, (45, 5): 1, (50, 10): 2, (150, 30): 3}
    found = {place: name_stage(schedule, *place, 10) for place in places}
    assert found == {place: STAGES[number] for place, number in places.items()}


def change_one(state: TrainingState, element: int, by: float) -> TrainingState:
    weights = state.weights.clone()
    weights[element] += by
    return replace(state, weights=weights)


def test_survey_puts_a_distance_where_it_lies(spec: TrainingSpec, state: TrainingState) -> None:
    state = replace(state, second_moment=state.second_moment + 1)
    norm = parameter_layout(get_model(spec))[-2]
    survey = Survey(get_step(spec).layout)
    for by in (0.0, 0.25, 0.5):
        survey.add(change_one(state, norm.offset + 3, by), state, 2.0, "end")
    found = {(m.quantity, m.tensor_class): m for m in survey.summarize()}
    assert {m.stage for m in found.values()} == {"end"} and {m.pairs for m in found.values()} == {3}
    assert {place for place, m in found.items() if m.quantiles[-1]} == {("weights", "norm")}
    median, *_, largest = found["weights", "norm"].quantiles
    assert median * 2.0**-64 == pytest.approx(0.125) and largest * 2.0**-64 == pytest.approx(0.25)


def test_survey_refuses_what_is_not_finite(spec: TrainingSpec, state: TrainingState) -> None:
    with pytest.raises(EnvironmentFault, match="not finite"):
        Survey(get_step(spec).layout).add(change_one(state, 0, float("nan")), state, 1.0, "end")


def test_list_every_configuration_offers_all_combinations() -> None:
    found = list_every_configuration(("avx2", "default"))
    assert len({one.name for one in found}) == len(found) == 16
    assert {one.environment.get("MKL_CBWR") for one in found} == {None, "COMPATIBLE"}
    assert {one.name for one in list_configurations(("avx2", "default"))} <= {one.name for one in found}


def test_list_every_configuration_adds_devices() -> None:
    *_, last = list_every_configuration(("default",), ("cuda",))
    assert last.name == last.device == "cuda"


def test_one_card_of_each_kind_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = ["H100", "H100", "A10"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(cards))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: cards[number])
    assert list_devices() == ("cuda", "cuda:2")
    cards.clear()
    assert list_devices() == ()


@pytest.mark.parametrize(
    ("capabilities", "count"),
    [(("avx512", "avx2", "default"), 6), (("avx2", "default"), 6), (("default",), 4)],
)
def test_the_configurations_cover_what_the_processor_has(capabilities: Sequence[str], count: int) -> None:
    found = list_configurations(capabilities)
    assert len({one.name for one in found}) == len(found) == count
    assert {one.threads for one in found} == {1, 2} and {one.onednn for one in found} == {True, False}
    assert {one.cpu_capability for one in found} == set(capabilities)


# Limits
def test_the_floor_of_the_first_moment_is_where_moments_stop_moving_weights() -> None:
    assert FLOORS.eps_m == pytest.approx(AdamW().epsilon)


def test_proposed_limits_scale_the_largest_distance_of_each_kind() -> None:
    pairs = [Distances(1e-5, 2e-5, 3e-6, 0, 0, 0), Distances(2e-5, 1e-5, 1e-6, 0, 0, 0)]
    limits = propose_limits(pairs, Floors(1e-5, 1e-14, 1e-7))
    taus = (limits.tau_m, limits.tau_v, limits.tau_w)
    assert [tau / 2**64 for tau in taus] == pytest.approx([2e-4, 2e-4, 3e-5])
    assert limits.eps_m * 2.0**-149 == pytest.approx(1e-5)
    assert limits.tau_r * 2.0**-64 == pytest.approx(1e-7)


def test_no_measurement_gives_no_limits() -> None:
    with pytest.raises(InvalidInput, match="nothing was measured"):
        propose_limits([])


def test_noise_as_large_as_the_values_gives_no_limits() -> None:
    with pytest.raises(InvalidInput, match="differ too much"):
        propose_limits([Distances(1e-5, 0.2, 1e-5, 0, 0, 0)])
