"""Trains a solver's segments with several processes of this machine, and limits what their failure costs.

    node:    W, m, v, tokens, labels --> a file --> waits: a loss for each step, then "done" of each worker
    worker:  its rows of each batch, its leaves of m and v (`cut_step.py`); W and partial sums go over Gloo

Auditors compute a claim again with one worker, and so does this node in a dispute. So teams train exact tasks
only, because there the number of rows of a product cannot change a bit. Their first step is also computed by
one worker, and compared. If a worker does not start, dies, errs, hangs or is slow, only time is lost: this
process trains the segment, and all later ones until the node restarts. The lost time is limited by what one
worker needs for a segment, because a late claim is not paid.
"""

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from touchstone.node.kit.config import STORE_FOLDER, NodeConfig, make_scratch, share_memory_mb
from touchstone.node.training.replay_worker import ReplayJob, measure_job, view_job
from touchstone.node.training.team_worker import DONE, STEPS, Message, Place, run_worker
from touchstone.protocol.adapters.files.mapped_files import make_shared
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.training_codec import encode_training

log = logging.getLogger(__name__)


PREFIX = "team-"
"""The prefix of files in the scratch folder. A killed node leaves some, and its next start removes them."""


START_S = 300.0
"""Seconds that workers may take to start (imports, meeting, compiled kernels). One trains meanwhile."""


LEAST_S = 20.0


SLOWER = 2
"""The workers are too slow if a segment takes LEAST_S longer than this multiple of one worker's time."""


class TeamFailed(Exception):
    """The result of the workers together cannot be used."""


@dataclass
class Member:
    """A worker, as the node sees it."""

    process: BaseProcess
    connection: Connection

    def hear(self, grace_s: float) -> Message:
        """Returns the worker's next message. Raises TeamFailed if it ends, is silent, or reports an error."""
        try:
            if not self.connection.poll(grace_s):
                raise TeamFailed(f"a worker said nothing for {grace_s:.0f} s")
            message: Message = self.connection.recv()
        except (EOFError, OSError) as error:
            raise TeamFailed("a worker has ended: it was killed, or ran out of memory") from error
        if isinstance(message, str) and message != DONE:
            raise TeamFailed(message)
        return message


def start_member(place: Place) -> Member:
    """Starts a process with this code alone: it gets no key, and no open file of this process."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=run_worker, args=(place, there), daemon=True)
    with there:
        process.start()
    return Member(process, here)


@dataclass
class Team:
    """A team of workers. `places` are their settings. One thread at a time may use it; any thread may call
    `close`. `start_s` and `least_s` stand for START_S and LEAST_S."""

    places: Sequence[Place]
    notify: Callable[[str], None]
    start: Callable[[Place], Member] = start_member
    start_s: float = START_S
    least_s: float = LEAST_S
    _members: list[Member] = field(default_factory=list)
    _step_s: float | None = None
    """Seconds of a step of one worker; None until the bits were compared."""
    _begun: float = field(default_factory=time.monotonic)
    _starting: list[Member] = field(default_factory=list)
    """The workers that have not reported yet."""
    _is_closed: bool = False

    def __post_init__(self) -> None:
        for left in Path(self.places[0].scratch).glob(f"{PREFIX}*"):
            left.unlink(missing_ok=True)
        try:
            for place in self.places:
                self._members.append(self.start(place))
            self._starting = list(self._members)
        except Exception as error:
            # If the team cannot start, the node must go on, because it may have a seat to lose.
            self._give_up(f"{type(error).__name__}: {error}")

    @property
    def is_working(self) -> bool:
        """Whether the workers train the next segment."""
        return bool(self._members)

    def train(
        self, state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        """Trains as `compute.program.step.train_segment`, with the workers while they all run, with the same
        bits. Raises what `get_batch` raises, and EnvironmentFault if the team was closed meanwhile."""
        batches, losses = {n: get_batch(n) for n in range(inner_step, inner_step + steps)}, list[float]()
        if self._members and self._step_s is None:
            state, losses = self._compare(state, spec, batches, inner_step)
        first, left = inner_step + len(losses), steps - len(losses)
        if not left:
            return state, losses
        if self._members and self._step_s is not None:
            try:
                end, found = self._train_together(state, batches, first, left, self._step_s)
                return end, losses + found
            except Exception as error:
                # No failure of workers may cost the claim.
                self._give_up(str(error) or type(error).__name__)
        end, found = train_segment(state, spec, batches.__getitem__, first, left)
        return end, losses + found

    def close(self) -> None:
        """Ends the workers, and the segment that they train."""
        self._is_closed = True
        self._end()

    def _compare(
        self, state: TrainingState, spec: TrainingSpec, batches: Mapping[int, Batch], step: int
    ) -> tuple[TrainingState, list[float]]:
        """Computes one step with one worker, and with all. They go on only if the bits are equal. While the
        workers start, this process trains."""
        begun = time.monotonic()
        alone = train_segment(state, spec, batches.__getitem__, step, 1)
        step_s = time.monotonic() - begun
        try:
            if self._have_started(max(self.least_s, step_s * len(batches))):
                together = self._train_together(state, batches, step, 1, step_s)
                if not _has_same_bits(alone, together):
                    raise TeamFailed("a step by several workers gave other bits than by one")
                self._step_s = step_s
                self.notify(
                    f"{len(self._members)} workers train together: their first step gave the same bits as one"
                )
        except Exception as error:
            self._give_up(str(error) or type(error).__name__)
        return alone

    def _have_started(self, grace_s: float) -> bool:
        """Returns whether all workers have started, after waiting so long. Raises TeamFailed if one has
        failed, or has not started within START_S."""
        until = time.monotonic() + grace_s
        while self._starting:
            if not self._starting[0].connection.poll(max(0.0, until - time.monotonic())):
                if time.monotonic() > self._begun + self.start_s:
                    raise TeamFailed(f"a worker has not started within {self.start_s:.0f} s")
                return False
            self._starting.pop(0).hear(0)
        return True

    def _train_together(
        self, state: TrainingState, batches: Mapping[int, Batch], first: int, steps: int, step_s: float
    ) -> tuple[TrainingState, list[float]]:
        """Returns the end of a segment and its losses. `step_s` is the time of one worker's step. Raises
        TeamFailed."""
        place = self.places[0]
        job = ReplayJob(
            place.training, place.store, state.elements, state.local_step, state.global_step, first, steps
        )
        path, memory = make_shared(Path(place.scratch), measure_job(job), PREFIX)
        try:
            tensors = view_job(job, memory)
            for target, source in zip(tensors.vectors, state.vectors, strict=True):
                target.copy_(source)
            for number in range(steps):
                tensors.tokens[number].copy_(batches[first + number].tokens_BT)
                tensors.labels[number].copy_(batches[first + number].labels_BT)
            losses = self._follow(job, str(path), step_s)
        finally:
            path.unlink(missing_ok=True)
        end = TrainingState(*tensors.vectors, state.local_step + steps, state.global_step + steps)
        return end, losses

    def _follow(self, job: ReplayJob, path: str, step_s: float) -> list[float]:
        """Returns the losses, once all workers are done."""
        members, grace_s = list(self._members), max(self.least_s, STEPS * step_s)
        until = time.monotonic() + self.least_s + SLOWER * job.steps * step_s

        def hear(member: Member) -> Message:
            """Returns the member's next message, while there is time for the segment."""
            left_s = max(0.0, until - time.monotonic())
            if left_s < grace_s and not member.connection.poll(left_s):
                late = f"they are slower than one worker, which takes {step_s:.1f} s for a step"
                raise TeamFailed(f"a worker said nothing for {left_s:.0f} s, and {late}")
            return member.hear(grace_s)

        for member in members:
            try:
                member.connection.send((job, path))
            except OSError as error:
                raise TeamFailed("a worker has ended: it was killed, or ran out of memory") from error
        losses = [float(hear(members[0])) for _ in range(job.steps)]
        for member in members:
            hear(member)
        return losses

    def _give_up(self, reason: str) -> None:
        self._end()
        if self._is_closed:
            raise EnvironmentFault(
                what="the node ends while its workers train",
                expected="a segment",
                actual=reason,
                remedy="Nothing is lost but time: it goes on at the last boundary at its next start.",
            )
        line = (
            f"the workers no longer train together: {reason}. One trains until the next start of this node."
        )
        log.warning("%s", line)
        self.notify(f"WARNING: {line}")

    def _end(self) -> None:
        members, self._members, self._starting = self._members, [], []
        for member in members:
            member.process.kill()
            member.connection.close()
        for member in members:
            member.process.join()
        Path(self.places[0].meeting).unlink(missing_ok=True)


def _has_same_bits(one: tuple[TrainingState, list[float]], other: tuple[TrainingState, list[float]]) -> bool:
    pairs = zip(one[0].vectors, other[0].vectors, strict=True)
    return all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in pairs)


def open_team(config: NodeConfig, spec: TrainingSpec, notify: Callable[[str], None]) -> Team | None:
    """Returns the workers that a solver's configuration asks for. Returns None if it asks for one worker, or
    if several may give other bits than one in the task's format."""
    if config.workers == 1:
        return None
    if spec.numeric_format not in PRODUCT_BITS:
        notify(
            f"workers = {config.workers} works only for exact tasks. This task is in {spec.numeric_format}, "
            "where several workers may add numbers in another order, so one worker trains it."
        )
        return None
    scratch, training = make_scratch(config), encode_training(spec)
    store, elements = str(config.home / STORE_FOLDER), get_step(spec).parameters
    meeting = str(scratch / f"{PREFIX}{secrets.token_hex(8)}")
    told = (config.threads, str(scratch), share_memory_mb(config), meeting)
    return Team(
        [Place(training, store, elements, config.workers, own, *told) for own in range(config.workers)],
        notify,
    )
