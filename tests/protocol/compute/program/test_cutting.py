"""Several workers come to the bits of one: rows and leaves cut, partial sums in the program's order."""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.node.specs import get_spec
from tests.task_models import draw_first, get_model, respecify
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.cut_step import CutStep, Workers
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.planning.copy_folding import fold
from touchstone.protocol.compute.program.planning.worker_program import assign_leaves, cut_program
from touchstone.protocol.compute.program.step import advance, begin_round
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.training_codec import encode_training

STEPS = 3
FORMATS = ("exact8", "exact15", "exact20", "float32")


def make_spec(numeric_format: str, rows: int = 4, tokens: int = 128) -> TrainingSpec:
    """The tiny task, with a chunk of 128 positions for each of `rows` rows where these have 128 tokens."""
    spec = get_spec().training
    return respecify(
        spec, numeric_format=numeric_format, chunk_terms=128, sequences_per_step=rows, sequence_tokens=tokens
    )


def make_batch(spec: TrainingSpec, step: int) -> Batch:
    generator = torch.Generator().manual_seed(step)
    shape = (spec.sequences_per_step, spec.sequence_tokens + 1)
    rows = torch.randint(get_model(spec).vocabulary_size, shape, generator=generator)
    return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())


def begin(spec: TrainingSpec) -> TrainingState:
    return begin_round(draw_first(spec, 3), 0)


@cache
def train_alone(spec: TrainingSpec) -> tuple[bytes, list[float]]:
    """The root after each step by one worker, and the losses."""
    return run_steps(spec, begin(spec), lambda state, batch: advance(state, batch, spec), lambda state: state)


def run_steps(spec: TrainingSpec, state: TrainingState, step: Any, join: Any) -> tuple[bytes, list[float]]:
    roots, losses = b"", []
    for number in range(STEPS):
        state, loss = step(state, make_batch(spec, number))
        roots += compute_state_root(state_header(join(state)))
        losses.append(loss)
    return roots, losses


def join(step: CutStep, state: TrainingState) -> TrainingState:
    """The whole state of which a worker has its leaves of m and v."""
    first, second = map(step._join, state.vectors[1:])
    return replace(state, first_moment=first, second_moment=second)


class Meeting:
    """Workers in threads of this process, who show each other their tensors."""

    def __init__(self, count: int) -> None:
        self.count, self.barrier = count, Barrier(count, timeout=120)
        self.shown: list[Tensor] = [torch.empty(0)] * count

    def join(self, own: int) -> Workers:
        def gather(tensor: Tensor) -> Sequence[Tensor]:
            self.shown[own] = tensor
            self.barrier.wait()
            found = [one.clone() for one in self.shown]
            self.barrier.wait()
            return found

        return Workers(self.count, own, gather)


def train_together(spec: TrainingSpec, count: int) -> list[tuple[bytes, list[float]]]:
    """The same by workers, as each of them sees it."""
    meeting = Meeting(count)
    train_alone(spec)  # Builds what the threads share.

    def train(own: int) -> tuple[bytes, list[float]]:
        step = CutStep(spec, meeting.join(own))
        return run_steps(spec, step.own(begin(spec)), step.advance, lambda state: join(step, state))

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(train, range(count)))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("numeric_format", FORMATS)
def test_workers_come_to_the_bits_of_one(numeric_format: str, count: int) -> None:
    spec = make_spec(numeric_format)
    assert train_together(spec, count) == [train_alone(spec)] * count


@pytest.mark.parametrize(("rows", "tokens"), [(2, 32), (6, 64), (3, 128)])
def test_where_chunks_go_over_rows_of_two_workers_the_bits_are_the_same(rows: int, tokens: int) -> None:
    """One chunk for all rows; chunks that are not as many as workers, or for each; rows that cannot be dealt
    out evenly. What cannot be cut every worker computes."""
    spec = make_spec("exact15", rows, tokens)
    assert train_together(spec, 2) == [train_alone(spec)] * 2


def test_nearly_all_work_is_cut_and_moments_lie_with_one_worker() -> None:
    spec = make_spec("exact15")
    program = fold(get_program(spec).program, keeps_copies=False)
    cut = cut_program(program, 4, 1)
    whole, own = (sum(node.elements * node.terms for node in one.nodes) for one in (program, cut.program))
    assert own < 0.27 * whole
    count = program.buffers[0].size
    assert [cut.program.buffers[n].size for n in (0, 1, 2)] == [count, len(cut.leaves), len(cut.leaves)]


def test_leaves_are_dealt_out_whole_and_evenly() -> None:
    assert assign_leaves(1000, 3) == [range(256), range(256, 512), range(512, 1000)]
    assert assign_leaves(256, 2) == [range(0), range(256)]


def test_more_workers_than_leaves_are_refused() -> None:
    program = fold(get_program(make_spec("exact15")).program, keeps_copies=False)
    with pytest.raises(InvalidInput, match="cannot be cut"):
        cut_program(program, 64, 0)


MEMBER = """
import sys
from pathlib import Path
from touchstone.protocol.compute.determinism import pin_kernels
pin_kernels(1)
import torch
from touchstone.protocol.compute.program.cut_step import CutStep, Workers
from touchstone.protocol.spec.training_codec import decode_training
from tests.protocol.compute.program.test_cutting import begin, join, make_spec, run_steps
from torch import distributed

def gather(own):
    found = [torch.empty_like(own) for _ in range(workers.count)]
    distributed.all_gather(found, own)
    return found

distributed.init_process_group("gloo")
workers = Workers(distributed.get_world_size(), distributed.get_rank(), gather)
spec = decode_training(bytes.fromhex(sys.argv[1]))
assert make_spec(spec.numeric_format) == spec
step = CutStep(spec, workers)
roots, _ = run_steps(spec, step.own(begin(spec)), step.advance, lambda state: join(step, state))
Path(sys.argv[2], f"roots-{workers.own}").write_text(roots.hex())
distributed.destroy_process_group()
"""


@pytest.mark.parametrize(("numeric_format", "count"), [("float32", 4)])
def test_processes_of_torchrun_come_to_the_bits_of_one(
    tmp_path: Path, numeric_format: str, count: int
) -> None:
    spec, member = make_spec(numeric_format), tmp_path / "member.py"
    member.write_text(MEMBER)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [*command, member, encode_training(spec).hex(), tmp_path],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    roots = [(tmp_path / f"roots-{number}").read_text() for number in range(count)]
    assert roots == [train_alone(spec)[0].hex()] * count
