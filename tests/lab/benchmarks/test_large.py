"""The large task: what is counted and judged, its task file, and a false solver that keeps no trace. The play
itself is `./dev bench large --short`."""

import copy
import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.benchmarks import large
from lab.benchmarks.large import (
    FULL,
    SHORT,
    cut_texts,
    format_task,
    judge,
    list_ratios,
    make_task,
    write_jsonl,
)
from lab.benchmarks.large_run import party as parties
from lab.benchmarks.large_run.party import (
    Clock,
    Heard,
    count_rows,
    hold_back,
    hold_back_openings,
    make_planted,
)
from tests.kit.nodes import TASK, make_view
from tests.task_models import draw_first, parameter_count, respecify, split_parameters
from tests.training_setting import build_demo_schedule, build_training
from touchstone.demo.planted import make_planting_compute
from touchstone.node.defending import defence
from touchstone.node.kit.duty import Room, Wait
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerBook, InnerDispute
from touchstone.protocol.spec.game.logged_terms import count_contest_levels
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.plain_decoder import Decoder
from touchstone.whistleblower.challenging import OpenDispute, ProveStatement, next_actions

PEAKS = {"cheat": 5, "solver-1": 5, "verifier-1": 2, "verifier-2": 2, "verifier-3": 2, "submitter": 9}
NOTE = {"held_bytes": 1000, "touched_bytes": 1100, "fetched_bytes": 1200}
KERNELS = {
    name: "DEFAULT" if name.startswith("verifier") else "AVX2" for name in PEAKS if name != "submitter"
}
FOUND: dict[str, Any] = {
    "failure": "",
    "merged": {0: 2, 1: 1},
    "votes": [("verifier-1", "round 0 slot 0", "ACCEPT"), ("verifier-1", "round 1 slot 0", "REJECT_STATE")],
    "convicted": ["cheat"],
    "peak_bytes": {name: peak * 10**9 for name, peak in PEAKS.items()},
    "data": {name: NOTE | {"kernels": {"cpu_capability": one}} for name, one in KERNELS.items()},
    "traces": [("verifier-1", 60, 1000)],
    "seconds": {"pack": 600.0, large.WHOLE: 9000.0},
}


# What is counted and judged
def test_a_contest_of_either_form_ends_within_its_window() -> None:
    for play in (FULL, SHORT):
        windows = tomllib.loads(format_task(play))["windows"]
        turns = 2 * count_contest_levels(parameter_count(play.model))
        assert windows["dispute"] >= turns * windows["respond"], play.name


def test_what_holds() -> None:
    assert all(judge(FOUND).values())


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("two rounds are merged", "merged", {0: 2, 1: 0}),
        ("two rounds are merged", "merged", {0: 2}),
        ("an audit accepts", "votes", FOUND["votes"][1:]),
        ("an audit rejects", "votes", FOUND["votes"][:1]),
        ("the cheat alone is convicted", "convicted", ["cheat", "solver-1"]),
        ("the cheat alone is convicted", "convicted", []),
        ("a solver's memory", "peak_bytes", FOUND["peak_bytes"] | {"cheat": 6 * 10**9 + 1}),
        ("an auditor's memory", "peak_bytes", FOUND["peak_bytes"] | {"verifier-3": 3 * 10**9 + 1}),
        ("an auditor's memory", "peak_bytes", FOUND["peak_bytes"] | {"verifier-3": 0}),
        ("data fetched", "data", FOUND["data"] | {"cheat": FOUND["data"]["cheat"] | {"fetched_bytes": 1201}}),
        ("data fetched", "data", {name: one | {"held_bytes": 0} for name, one in FOUND["data"].items()}),
        ("other kernels", "data", FOUND["data"] | {"cheat": FOUND["data"]["verifier-1"]}),
        ("played to the end", "failure", "verifier-1 has ended before its time"),
        ("trace fetched", "traces", [("verifier-1", 60, 1000), ("verifier-2", 61, 1000)]),
        ("trace fetched", "traces", []),
        ("time", "seconds", {large.WHOLE: 9001.0}),
    ],
)
def test_what_does_not(name: str, key: str, value: object) -> None:
    held = judge(copy.deepcopy(FOUND) | {key: value})
    assert [one for one, holds in held.items() if not holds] == [name]


def test_a_row_counts_once_and_leaves_that_rows_share_too() -> None:
    assert count_rows({(0, 257), (100, 257), (511, 2)}, 2, 1024) == {
        "held_bytes": 2 * (257 + 257 + 2),
        "touched_bytes": 2 * 1024,
    }
    ends_with_a_leaf = count_rows({(0, 512)}, 2, 1024)
    assert ends_with_a_leaf["touched_bytes"] == 1024


def test_who_has_read_nothing_has_no_ratio() -> None:
    found = {"data": {"a": {"held_bytes": 0, "fetched_bytes": 9}, "b": {"held_bytes": 4, "fetched_bytes": 6}}}
    assert list_ratios(found, "held_bytes") == {"b": 1.5}


def test_votes_and_traces_are_heard() -> None:
    heard = Heard()
    heard.hear("verifier-1", "round 1 slot 0 draw 0 segment 1: REJECT_STATE")
    heard.hear("verifier-1", "dispute 0a1b2c3d: fetched 5 of 100 bytes of the trace")
    heard.hear("solver-1", "round 1: trained 2 of 4 steps, loss 6.2")
    assert heard.votes == [("verifier-1", "round 1 slot 0 draw 0 segment 1", "REJECT_STATE")]
    assert heard.traces == [("verifier-1", 5, 100)]


def test_equal_blobs_of_several_homes_become_one_file(tmp_path: Path) -> None:
    large_blob, small = b"w" * parties.SHARED_BYTES, b"w" * 9
    for home, blob in (("a", large_blob), ("b", large_blob), ("c", b"v" * parties.SHARED_BYTES)):
        for kind, name in (("tensor", "same" if home != "c" else "other"), ("incoming", "tmp1")):
            (tmp_path / home / "blobs" / kind).mkdir(parents=True)
            (tmp_path / home / "blobs" / kind / name).write_bytes(blob)
        (tmp_path / home / "blobs" / "tensor" / "small").write_bytes(small)
    assert parties.share_blobs(tmp_path) == parties.SHARED_BYTES
    assert parties.share_blobs(tmp_path) == 0, "shared already"
    first, second = (tmp_path / home / "blobs" for home in "ab")
    assert (first / "tensor" / "same").samefile(second / "tensor" / "same")
    assert (second / "tensor" / "same").read_bytes() == large_blob
    assert not (first / "tensor" / "small").samefile(second / "tensor" / "small")
    assert not (first / "incoming" / "tmp1").samefile(second / "incoming" / "tmp1"), "being written"
    assert [one.name for one in (second / "incoming").iterdir()] == ["tmp1"]


def test_milestones_are_seconds_since_the_one_before() -> None:
    clock = Clock(events=[("TaskPosted", 3, 4.0), ("Deposited", 4, 5.0), ("RoundOpened", 5, 6.5)])
    assert clock.list_milestones() == [("TaskPosted", 4.0), ("RoundOpened", 2.5)]


def test_a_stage_that_fails_is_timed_too() -> None:
    clock = Clock()
    with pytest.raises(KeyError), clock.time("play"):
        raise KeyError
    assert "play" in clock.seconds


# The task
def test_the_product_takes_the_task(tmp_path: Path) -> None:
    """Tokens of two bytes, weights from a folder, and more text than there is: it comes again."""
    pytest.importorskip("tokenizers")
    play = replace(SHORT, text_bytes=100_000, jsonl_bytes=300_000)
    file = make_task(play, tmp_path, Clock())
    assert file.plan.initial_seed == GIVEN_START and file.weights is not None
    weights = split_parameters(file.weights.read(), play.model)
    first = dict(Decoder(play.model, large.WEIGHTS_SEED).named_parameters())
    assert all(torch.equal(weights[name], own) for name, own in first.items()) and len(weights) == len(first)
    note = file.packed.note
    assert note is not None and note.token_bytes == 2 and note.end_of_text == large.END_OF_TEXT
    assert note.vocabulary_size == play.model.vocabulary_size
    assert note.documents > 2 * len(cut_texts("x" * play.text_bytes))


def test_jsonl_is_as_long_as_asked(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "text.jsonl", ["one", 'two "\n'], 100)
    texts = [json.loads(line)["text"] for line in (tmp_path / "text.jsonl").open()]
    assert (tmp_path / "text.jsonl").stat().st_size >= 100
    assert texts[:3] == ["one", 'two "\n', "one"]


def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InvalidInput, match=r"tokenizers, of the extra \[data\].*pip install"):
        make_task(replace(SHORT, text_bytes=1_000), tmp_path, Clock())


# The parties
@pytest.fixture(scope="module")
def spec() -> TrainingSpec:
    data = bytes(range(256)) * 500
    training = build_training(data, build_demo_schedule())
    return respecify(training, model=SHORT.model, sequences_per_step=1, sequence_tokens=16)


@pytest.fixture(scope="module")
def start(spec: TrainingSpec) -> TrainingState:
    return begin_round(draw_first(spec, 1), 0)


def get_batch(step: int) -> Batch:
    tokens = torch.randint(512, (2, 1, 16), generator=torch.Generator().manual_seed(step))
    return Batch(*tokens)


def test_a_false_solver_that_keeps_nothing_computes_what_one_that_keeps_all_does(
    spec: TrainingSpec, start: TrainingState
) -> None:
    lean, whole = make_planted(Operation.SUBTRACT), make_planting_compute(Operation.SUBTRACT)
    shown = list[int]()
    trained, losses = lean.train(start, spec, get_batch, 0, 2)
    expected, expected_losses = whole.train(start, spec, get_batch, 0, 2)
    honest, _ = train_segment(start, spec, get_batch, 0, 2)
    assert all(map(torch.equal, trained.vectors, expected.vectors)) and losses == expected_losses
    assert not torch.equal(trained.weights, honest.weights)
    traced = lean.retrace(start, spec, get_batch, 0, lambda number, *_: shown.append(number))
    other = whole.retrace(start, spec, get_batch, 0, lambda *_: None)
    assert traced.tree.root == other.tree.root != retrace(start, spec, get_batch, 0).tree.root
    assert len(shown) == len(set(shown)) > 300, "each tensor is shown once"


def test_a_tensor_of_its_trace_is_computed_again(spec: TrainingSpec, start: TrainingState) -> None:
    tree = make_planted(Operation.SUBTRACT).retrace(start, spec, get_batch, 0, lambda *_: None).tree
    for buffer in (0, 3, 5, tree.program.outputs.loss, tree.program.outputs.weights):
        tree.open_run(buffer, 0, 1)  # Raises where the bytes are others than those that were hashed.


@pytest.mark.parametrize(("stage", "left"), [(DisputeStage.CLEARED, [0, 1, 2]), (DisputeStage.ROOTS, [1, 2])])
def test_a_second_dispute_waits_for_the_first(stage: DisputeStage, left: list[int]) -> None:
    nothing: Any = None
    duties = [OpenDispute(nothing), ProveStatement(("proof",), 0, nothing), Wait(9)]
    dispute, view = InnerDispute(b"name", 1, StatementRef(0, 0), 0, "opener", 9, stage), make_view()
    view.chain_state.inner[TASK] = InnerBook(10, {dispute.name: dispute})
    room = hold_back_openings(Room(next_actions, nothing))
    assert getattr(room.list_duties, "func", None) is hold_back
    assert list(hold_back(lambda *_: iter(duties), view, 1)) == [duties[one] for one in left]


def test_only_the_room_that_opens_disputes_is_held_back() -> None:
    nothing: Any = None
    room = Room(defence.list_duties, nothing)
    assert hold_back_openings(room) is room
