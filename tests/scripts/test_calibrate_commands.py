"""From a task to a signed profile of this machine."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.protocol.spec.profiles import make_profile
from tests.scripts.schemas import read_one
from tests.scripts.test_model_table import make_files, write_step
from touchstone.node.models.start_weights import make_start
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.signed_profiles import read_profile
from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.determinism import list_cpu_capabilities
from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.spec.calibration_profile import QUANTITIES, Profile, compute_subject, encode_profile
from touchstone.protocol.spec.calibration_rules import compute_maxima
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.scripts.calibration import measuring, task_calibration
from touchstone.scripts.calibration.calibration_folder import list_segments, write_workplace
from touchstone.scripts.calibration.measuring import measure, require_disk
from touchstone.scripts.home.home_config import HomeConfig
from touchstone.scripts.home.home_folder import create_home
from touchstone.scripts.touchstone import main

OPERATOR = "0x" + "12" * 20


@pytest.fixture(scope="module")
def dataset() -> bytes:
    return make_dataset()


@pytest.fixture(scope="module")
def spec(dataset: bytes) -> TaskSpec:
    schedule = replace(TINY_PLAN.schedule, total_steps=2 * TINY_PLAN.inner_steps)
    plan = replace(TINY_PLAN, rounds=2, schedule=schedule)
    return make_spec(*build_task(plan, dataset, OPERATOR, bytes(32)))


@pytest.fixture(scope="module")
def profile(spec: TaskSpec, dataset: bytes, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    capability = list_cpu_capabilities()[-1]
    two = (
        KernelConfiguration(1, True, capability),
        KernelConfiguration(1, True, capability, mkl="COMPATIBLE"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "list_every_configuration", lambda *_: two)
        folder = tmp_path_factory.mktemp("calibration")
        start = make_start(spec)
        return measure(folder, spec, dataset, start, list_segments(spec, 8), OPERATOR, lambda line: None)


# Measuring
def test_measure_describes_the_task_and_both_configurations(profile: Profile, spec: TaskSpec) -> None:
    assert profile.subject == compute_subject(spec) and profile.operator == OPERATOR
    assert len(profile.configurations) == 2 and profile.segments == 8
    assert {m.quantity for m in profile.measurements} == set(QUANTITIES)
    assert {m.stage for m in profile.measurements} >= {"zero moments", "warm-up", "end"}
    first_moment, *_ = compute_maxima(profile)
    assert 0 < first_moment < 1e-3
    assert encode_profile(profile)


def test_measure_names_a_configuration_that_does_not_run(
    spec: TaskSpec, dataset: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (KernelConfiguration(0, True, "default"),)
    monkeypatch.setattr(measuring, "list_every_configuration", lambda *_: broken)
    monkeypatch.setattr(measuring, "keep_well_conditioned", lambda noise: list(noise)[1:])
    said: list[str] = []
    with pytest.raises(EnvironmentFault, match="default-0-onednn"):
        segments = list_segments(spec, 1)[:1]
        measure(tmp_path, spec, dataset, make_start(spec), segments, OPERATOR, said.append)
    assert said[:2] == ["segments: 1; kernel configurations: 1", "ill-conditioned segments, left out: 1"]


def test_an_exact_task_is_not_calibrated(spec: TaskSpec) -> None:
    with pytest.raises(InvalidInput, match="no limits"):
        task_calibration._require_limits(replace(spec.training, numeric_format="exact15"))


def test_list_segments_takes_as_many_slots_as_it_needs(spec: TaskSpec) -> None:
    assert len(list_segments(spec, 8)) == 8 and len(list_segments(spec, 9)) == 16
    assert len(list_segments(spec, 9, rounds=1)) == 12
    segments = list_segments(spec, 16)
    assert len({s.name for s in segments}) == 16 and {s.slot for s in segments} == {0, 1}
    assert all(s.global_step == 8 * s.round + s.inner_step for s in segments)


def test_require_disk_says_how_much(tmp_path: Path, spec: TaskSpec) -> None:
    require_disk(tmp_path, spec, 1)
    with pytest.raises(EnvironmentFault, match="too little disk"):
        require_disk(tmp_path, spec, 1 << 40)


def test_run_calibrate_signs_what_it_measured(
    spec: TaskSpec,
    dataset: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home, password = tmp_path / "home", tmp_path / "password"
    home.mkdir(mode=0o700)
    password.write_text("secret")
    password.chmod(0o600)
    config = HomeConfig("http://nowhere", "nothing", password_file=str(password))
    key = create_home(home, config, "secret", is_devnet=True)
    asked = []

    def measure_nothing(
        folder: Path,
        given: TaskSpec,
        data: bytes,
        weights: Tensor,
        segments: list[object],
        operator: str,
        notify: object,
    ) -> Profile:
        asked.append((given, data, weights, len(segments)))
        return make_profile(operator=operator)

    task = tmp_path / "task.toml"
    task.write_text("")
    weights = make_start(spec)
    monkeypatch.setattr(task_calibration, "_read_task", lambda *_: (spec, dataset, weights))
    monkeypatch.setattr(task_calibration, "measure", measure_nothing)
    out = tmp_path / "profile.json"
    options = ["--out", str(out), "--home", str(home), "--segments", "8"]
    assert main(["calibrate", str(task), *options]) == 0
    said = capsys.readouterr().out
    for name, limit in (("first moment", "tau_m"), ("second moment", "tau_v"), ("weights", "tau_w")):
        assert f"largest distance of {name}, to be compared with {limit}: " in said
    assert asked == [(spec, dataset, weights, 8)] and read_profile(out).operator == key.address.lower()
    assert main(["calibrate", str(task), *options]) == 2, "a profile is not written over"
    out.unlink()
    capsys.readouterr()
    assert main(["calibrate", str(task), *options, "--json"]) == 0
    found = read_one("calibrate", capsys.readouterr().out)
    assert set(found["largest_distances"]) == {"tau_m", "tau_v", "tau_w"}


def test_what_a_task_begins_with_is_what_is_measured(tmp_path: Path) -> None:
    """Noise of a trained model is another than that of a fresh one."""
    path = write_step(tmp_path)
    spec, data, weights = task_calibration._read_task(path, OPERATOR)
    layout = make_files().layout
    start = draw_weights(layout, 99)
    assert torch.equal(weights, start) and spec.terms.initial_weights_root == tensor_root(start)
    segments = list_segments(spec, 1, 1)[:1]
    (tmp_path / "work").mkdir()
    workplace = write_workplace(tmp_path / "work", spec.training, data, segments)
    measuring.make_starts(workplace, weights, spec.terms.outer_learning_rate, spec.terms.outer_momentum)
    assert torch.equal(workplace.load("start", segments[0], 0).weights, start)
    path.write_text(path.read_text().replace("[model]", "initial_seed = 7\n[model]"))
    spec, _, weights = task_calibration._read_task(path, OPERATOR)
    assert torch.equal(weights, draw_weights(layout, 7))
