"""Does a training step give the same bits again on this machine? No task's data are needed for it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from node.submit import sketch_task
from protocol.compute.determinism import pin_kernels, require_device
from protocol.compute.digest import state_header
from protocol.compute.model.reference_model import init_parameters
from protocol.compute.program.step import Batch, advance, begin_round
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import EnvironmentFault
from scripts.example import CORPUS_BYTES, TASK_FILE
from scripts.task_file import read_task_file

RUNS = 2


def sketch_training() -> TrainingSpec:
    """The training of the example task."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / TASK_FILE.name
        path.write_bytes(TASK_FILE.read_bytes())
        (path.parent / "corpus.bin").write_bytes(bytes(CORPUS_BYTES))
        return sketch_task(read_task_file(path).plan, CORPUS_BYTES).training


def require_repeated_bits(training: TrainingSpec, threads: int, device: str) -> None:
    """Compute one step of a task again and again. Raises EnvironmentFault where the states after it differ,
    InvalidInput where this machine has no such device."""
    require_device(device)
    pin_kernels(threads, device=device)
    roots = [compute_step_root(training) for _ in range(RUNS)]
    if len(set(roots)) > 1:
        raise EnvironmentFault(
            what="this machine computes a training step with other bits each time",
            expected=f"root {roots[0].hex()} again",
            actual=next(root.hex() for root in roots if root != roots[0]),
            remedy="Do not stake from it: it could not repeat its own claim in a dispute. Test its memory, "
            "undo overclocking, or choose another device.",
            retryable=False,
        )


def compute_step_root(training: TrainingSpec) -> bytes:
    """The root of the state after one step from fresh weights, on tokens that a fixed seed draws."""
    shape = (training.sequences_per_step, training.sequence_tokens + 1)
    drawn = torch.randint(training.model.vocabulary_size, shape, generator=torch.Generator().manual_seed(1))
    start = begin_round(init_parameters(training.model, 1), 0)
    end, _ = advance(start, Batch(drawn[:, :-1], drawn[:, 1:]), training)
    return compute_state_root(state_header(end.bring_home()))
