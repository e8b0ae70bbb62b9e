"""Checks whether this machine computes the same bits as in its last run, and the same bits twice.

No task's data is needed for that.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from touchstone.node.kit.config import describe_machine
from touchstone.node.kit.stored_step import open_step
from touchstone.node.submit import sketch_task
from touchstone.protocol.adapters.machine.determinism_fingerprint import read_bits
from touchstone.protocol.compute.determinism import pin_kernels, require_device
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import advance, begin_round
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.training_codec import decode_training
from touchstone.scripts.doctor import room_checks
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.home.home_config import HomeConfig
from touchstone.scripts.tasks.task_example import CORPUS_BYTES, TASK_FILE
from touchstone.scripts.tasks.task_file import read_task_file


async def check_versions(patient: Patient) -> str:
    """Checks that the machine and its libraries are those of this home's last run."""
    config = patient.get_config()
    known, now = read_bits(patient.home), await asyncio.to_thread(_describe_as_node, config)
    if patient.task is not None:
        known = {name: one for name, one in known.items() if name == patient.task.hex()}
    for name, one in known.items():
        if one.machine != now:
            parts = [set(text.split(", ")) for text in (one.machine, now)]
            raise _changed_versions(name, parts)
    if not known:
        raise NotTested(
            f"no node of this home has worked on {'any' if patient.task is None else 'this'} task yet"
        )
    return "as in the last run"


def _changed_versions(name: str, parts: list[set[str]]) -> EnvironmentFault:
    return EnvironmentFault(
        what="torch, numpy, Python, Touchstone or the machine is another than in the last run",
        expected=", ".join(sorted(parts[0] - parts[1])),
        actual=", ".join(sorted(parts[1] - parts[0])),
        where=f"0x{name[:12]}",
        remedy="Bring the earlier one back until the rounds that this node took part in are settled; "
        "or start the node: it tests whether the bits are the same.",
    )


def _describe_as_node(config: HomeConfig) -> str:
    """Describes the machine as the home's node does after it has pinned its kernels."""
    pin_kernels(config.threads, device=config.device)
    return describe_machine()


async def check_bits(patient: Patient) -> str:
    """Checks that a training step gives the same bits again."""
    config = patient.get_config()
    try:
        training = read_sound_training(patient)
    except NotTested:
        training = sketch_training()
    await asyncio.to_thread(require_repeated_bits, training, config.threads, config.device)
    return f"two runs of a step of {get_step(training).parameters:,} parameters gave the same bits"


def read_sound_training(patient: Patient) -> TrainingSpec:
    """Returns the training of the named task. Raises NotTested if none was named. Raises InvalidInput if no
    node would join it, because a stranger's task could need any amount of memory."""
    task, _ = patient.get_game()
    state = patient.get_state()
    spec = make_spec(state.task_terms[task], decode_training(state.texts[task]))
    refuse_broken(find_training_malformations(spec))
    room_checks.read_own(patient.home, spec, open_step)
    return spec.training


RUNS = 2


def sketch_training() -> TrainingSpec:
    """Returns the training of the example task."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / TASK_FILE.name
        path.write_bytes(TASK_FILE.read_bytes())
        (path.parent / "corpus.bin").write_bytes(bytes(CORPUS_BYTES))
        return sketch_task(read_task_file(path).plan, CORPUS_BYTES).training


def require_repeated_bits(training: TrainingSpec, threads: int, device: str) -> None:
    """Computes one step of a task several times. Raises EnvironmentFault if the results differ, InvalidInput
    if this machine lacks the device."""
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
    """Returns the root of the state after one step from new weights, on tokens that a fixed seed draws."""
    shape = (training.sequences_per_step, training.sequence_tokens + 1)
    drawn = torch.randint(training.vocabulary_size, shape, generator=torch.Generator().manual_seed(1))
    start = begin_round(draw_weights(get_step(training).layout, 1), 0)
    end, _ = advance(start, Batch(drawn[:, :-1], drawn[:, 1:]), training)
    return compute_state_root(state_header(end.bring_home()))
