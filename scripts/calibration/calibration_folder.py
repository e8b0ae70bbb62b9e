"""The folder that the processes of a calibration share.

It holds the training spec, the dataset, the segments and their states, and is removed after the run.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from safetensors.torch import load_file

from touchstone.node.exports.tensor_file import save_tensors
from touchstone.node.kit.stored_step import keep_step, open_step
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.protocol.spec.training_codec import decode_training, encode_training


@dataclass(frozen=True)
class Segment:
    """A segment of training: the round, the solver's slot, inner steps done, steps to go, and steps of the
    task before."""

    round: int
    slot: int
    inner_step: int
    steps: int
    global_step: int

    @property
    def name(self) -> str:
        """The file name of its states."""
        return f"{self.round}-{self.slot}-{self.inner_step}"


def list_segments(spec: TaskSpec, least: int, rounds: int = 0) -> list[Segment]:
    """Returns all segments of the task's first `rounds` rounds (0: all rounds), for as many slots as give at
    least `least`."""
    terms = spec.terms
    length = min(rounds or terms.rounds, terms.rounds)
    slots = -(-least // (length * terms.segment_count))
    places = itertools.product(range(length), range(slots), range(0, terms.inner_steps, terms.segment_steps))
    return [Segment(r, s, i, terms.segment_steps, r * terms.inner_steps + i) for r, s, i in places]


@dataclass(frozen=True)
class Workplace:
    """The folder and its contents."""

    folder: Path
    training: TrainingSpec
    segments: tuple[Segment, ...]
    get_batches: Callable[[Segment], GetBatch]

    def save(self, name: str, segment: Segment, state: TrainingState) -> None:
        """Writes a state's vectors."""
        vectors = {"w": state.weights, "m": state.first_moment, "v": state.second_moment}
        save_tensors(self.folder / f"{name}-{segment.name}", vectors)

    def load(self, name: str, segment: Segment, done: int) -> TrainingState:
        """Reads the state after `done` steps of the segment. Moments are reset at each round's start."""
        tensors = load_file(self.folder / f"{name}-{segment.name}")
        places = (segment.inner_step + done, segment.global_step + done)
        return TrainingState(tensors["w"], tensors["m"], tensors["v"], *places)

    def replay(self, segment: Segment) -> TrainingState:
        """Returns the segment's end from its stored start."""
        return self.train(segment, self.load("start", segment, 0))

    def train(self, segment: Segment, start: TrainingState) -> TrainingState:
        """Trains the segment from any start with this process's kernels, and returns the end."""
        batches, place = self.get_batches(segment), (segment.inner_step, segment.steps)
        return replay_segment(start, self.training, batches, *place)[0]

    def sum_rates(self, segment: Segment) -> int:
        """Returns L of a segment, the sum of learning rates, in units of 2^-64, as the schedule tree has
        it."""
        inner_steps = max(one.inner_step + one.steps for one in self.segments)
        index = segment.global_step // segment.steps
        return compute_learning_rate_sum(self.training.schedule, index, segment.steps, inner_steps)


def write_workplace(
    folder: Path, training: TrainingSpec, data: bytes, segments: Sequence[Segment]
) -> Workplace:
    """Fills the folder."""
    (folder / "training").write_bytes(encode_training(training))
    (folder / "dataset").write_bytes(data)
    step = get_step(training)
    (folder / "parameters").write_text(str(step.parameters))
    keep_step(BlobStore(folder / "store", is_durable=False), training, step)
    (folder / "segments.json").write_text(json.dumps([asdict(segment) for segment in segments]))
    return open_workplace(folder)


def open_workplace(folder: Path) -> Workplace:
    """Reads what `write_workplace` wrote. Batches are drawn as solvers draw them, from a made-up beacon."""
    training = decode_training((folder / "training").read_bytes())
    count = int((folder / "parameters").read_text())
    open_step(BlobStore(folder / "store", is_durable=False), training, count)
    corpus = open_corpus((folder / "dataset").read_bytes(), training)
    segments = tuple(Segment(**item) for item in json.loads((folder / "segments.json").read_text()))

    def get_batches(segment: Segment) -> GetBatch:
        """Returns the batches of one segment, by inner step."""
        beacon = sha256(b"calibration" + segment.round.to_bytes(4, "big")).digest()
        return lambda step: get_batch(corpus, training, beacon, segment.slot, step)

    return Workplace(folder, training, segments, get_batches)
