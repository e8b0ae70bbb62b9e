"""Runs one party of the large task in its own process, with limited memory and counted bytes.

The false solver is honest until a global step; from then on one operation of each of its steps errs, and it
defends that. It computes as `demo/planted.py` does, but holds no trace: a tensor is hashed and shown while
it is in memory, as the product does it.
"""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from lab.benchmarks.utilisation_run.network import switch
from tests.e2e.cheating import allow_cheating, make_cheating_solver
from touchstone.demo import player
from touchstone.demo.parts import HONEST, Part, get_lister
from touchstone.demo.planted import find_node, plant
from touchstone.demo.player import Line, Order, only_defend
from touchstone.demo.watch import Watch
from touchstone.node.joining.task_inputs import PartedCorpus
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.duty import Duty, ListDuties, Room, Wait
from touchstone.node.kit.known_statements import get_inner
from touchstone.node.kit.view import View
from touchstone.node.loop import node as node_module
from touchstone.node.records.compute import Compute
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.store.blobs import ROOT_BYTES
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.compute.bounds.retrace import Retraced, Show, ignore, retrace
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.determinism import describe_kernels, pin_kernels
from touchstone.protocol.compute.program.interpreter import Interpreter, Keep
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.planning.lifetimes import list_written
from touchstone.protocol.compute.program.step import compute_scalars, replay_segment
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.merkle import compute_levels
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower.challenging import OpenDispute, next_actions

NOTE_NAME = "measured.json"


@dataclass(frozen=True)
class LargeOrder(Order):
    """The order for a party. `memory_mb` and `device` are the node's settings, `onednn` says whether its
    kernels may be oneDNN's, and `first_false_step` is the global step from which a cheat errs."""

    memory_mb: int = 0
    device: str = "cpu"
    onednn: bool = True
    first_false_step: int = 0


# The false solver
def run_planted(
    operation: Operation, state: TrainingState, spec: TrainingSpec, batch: Batch, keep: Keep | None = None
) -> tuple[TrainingState, float]:
    """Runs one step in which the last node of a kind errs in its last element; returns the next state, and
    the loss in nats. `keep` gets each tensor once, while it is in memory."""
    built = get_program(spec)
    program, target = built.program, find_node(built, operation)
    interpreter = Interpreter(program, built.constants, is_traced=True, numeric_format=spec.numeric_format)
    scalars, loss = compute_scalars(spec, state.local_step, state.global_step), 0.0
    written = list_written(program)
    for number in interpreter.iterate(state.vectors, *batch, scalars):
        if number == target:
            plant(program.nodes[number], interpreter.memory)
        for buffer in written.get(number, ()):
            if buffer == program.outputs.loss:
                loss = float(interpreter.tensors[buffer])
            if keep is not None:
                keep(buffer, interpreter.tensors[buffer])
    outputs = program.outputs
    vectors = (outputs.weights, outputs.first_moment, outputs.second_moment)
    weights, first, second = (interpreter.tensors[buffer] for buffer in vectors)
    return TrainingState(weights, first, second, state.local_step + 1, state.global_step + 1), loss


def make_planted(operation: Operation) -> Compute:
    """Trains and traces with the error. Only one step's tensors are in memory at a time."""

    def train(
        state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        losses = []
        for step in range(inner_step, inner_step + steps):
            state, loss = run_planted(operation, state, spec, get_batch(step))
            losses.append(loss)
        return state, losses

    def trace(
        start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
    ) -> Retraced:
        built, batch = get_program(spec), get_batch(inner_step)
        program, roots = built.program, get_constant_roots(built.program)
        scalars = compute_scalars(spec, start.local_step, start.global_step)
        inputs = (*start.vectors, *(one.reshape(-1) for one in batch), scalars)

        def keep(number: int, tensor: Tensor) -> None:
            tree = build_buffer_tree(program, lambda _: tensor, number)
            roots[number] = tree.root
            show(number, tree.data, tree.levels)

        def get(buffer: int) -> Tensor:
            if buffer < len(inputs):
                return inputs[buffer]
            if buffer in built.constants:
                return built.constants[buffer]
            found: list[Tensor] = []

            def take(number: int, tensor: Tensor) -> None:
                if number == buffer:
                    found.append(tensor.clone())

            run_planted(operation, start, spec, batch, take)
            return found[0]

        for number, tensor in enumerate(inputs):
            keep(number, tensor)
        end, _ = run_planted(operation, start, spec, batch, keep)
        levels = compute_levels([roots[number] for number in range(len(program.buffers))])
        return Retraced(TraceTree(program, levels, get), end)

    return Compute(train, trace)


# What is noted
@dataclass
class Notes:
    """Notes which rows of the dataset a party has used: (first token, tokens) of each row that a step was
    computed on. A row that is used again counts once, because it is not fetched twice."""

    path: Path
    rows: set[tuple[int, int]] = field(default_factory=set)

    def watch(self, read: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Returns `PartedCorpus.read_rows` so that its rows are noted."""

        def noted(corpus: PartedCorpus, starts: Any, length: int) -> Tensor:
            self.rows |= {(int(start), length) for start in starts}
            return read(corpus, starts, length)

        return noted

    def list_duties(self, corpus: Corpus, view: View, block: int) -> Iterator[Duty[Any]]:
        """Writes down the counts at each block; lists no duty."""
        assert isinstance(corpus, PartedCorpus)
        ref, size = corpus.parts.outline.ref, corpus.spec.token_bytes
        counted = count_rows(self.rows, size, ref.key.kind.leaf_bytes)
        index = ROOT_BYTES * ref.chunk_count if ref.chunk_count > 1 else 0
        found = counted | {"fetched_bytes": corpus.parts.fetched_bytes, "index_bytes": index}
        self.path.write_text(json.dumps(found | {"kernels": vars(describe_kernels())}))
        yield from ()


def count_rows(rows: set[tuple[int, int]], token_bytes: int, leaf_bytes: int) -> dict[str, int]:
    """Returns `held_bytes`, the bytes in the rows, and `touched_bytes`, the bytes in the leaves in which the
    rows lie."""
    leaves = set[int]()
    for start, length in rows:
        last = ((start + length) * token_bytes - 1) // leaf_bytes
        leaves |= set(range(start * token_bytes // leaf_bytes, last + 1))
    held = token_bytes * sum(length for _, length in rows)
    return {"held_bytes": held, "touched_bytes": leaf_bytes * len(leaves)}


# The party
def hold_back(list_duties: ListDuties[Any], view: View, block: int) -> Iterator[Duty[Any] | Wait]:
    """Yields a verifier's duties in disputes, but opens no dispute while another one is open. One dispute is
    measured, and three traces at once would be too much for one machine."""
    is_open = any(one.is_open for one in get_inner(view).disputes.values())
    for one in list_duties(view, block):
        if not (is_open and isinstance(one, OpenDispute)):
            yield one


def hold_back_openings(room: Room[Any]) -> Room[Any]:
    """Returns the room; if it opens disputes, it opens one at a time."""
    is_it = get_lister(room) is next_actions
    return replace(room, list_duties=partial(hold_back, room.list_duties)) if is_it else room


def make_large_part(order: Order, line: Line) -> Part:
    """Returns the rooms of the member's role, with the notes. It sets for this process what the demo does not
    choose: memory, device, and whether kernels are oneDNN's."""
    assert isinstance(order, LargeOrder)
    patch, notes = pytest.MonkeyPatch(), Notes(order.home / NOTE_NAME)
    configure = partial(NodeConfig, memory_mb=order.memory_mb, device=order.device)
    patch.setattr(player, "NodeConfig", configure)
    patch.setattr(node_module, "pin_kernels", partial(pin_kernels, onednn=order.onednn))
    patch.setattr(PartedCorpus, "read_rows", notes.watch(PartedCorpus.read_rows))
    part = HONEST[order.member.role]
    change: Callable[[Room[Any]], Room[Any]] = hold_back_openings
    if not order.member.is_honest:
        assert order.member.role == SeatRole.SOLVER
        allow_cheating(patch)
        planted, first = make_planted(Operation[order.fault]), order.first_false_step
        compute = Compute(
            switch(replay_segment, planted.train, first), switch(retrace, planted.retrace, first)
        )
        part, change = only_defend(make_cheating_solver(compute)), lambda room: room

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        noting = Room(partial(notes.list_duties, node.rooms.tools.corpus), None)
        return (*map(change, part.list_rooms(node)), noting)

    return replace(part, list_rooms=list_rooms)


# Seen from outside
VOTE = re.compile(r"(round \d+ .*): (ACCEPT|REJECT_\w+|UNSERVED|ABSTAIN)")
FETCHED = re.compile(r"fetched (\d+) of (\d+) bytes of the trace")
LOOK_S = 2.0
INCOMING, SHARED_BYTES = "incoming", 1 << 16
"""The folder of a store in which blobs are written, and the least size of a blob that homes share."""
MILESTONES = frozenset(
    {
        "TaskPosted", "RoundOpened", "ClaimTaken", "RoundClosed", "AuditsDrawn", "VotesCounted", "RootPosted",
        "DisputeOpened", "StepRootsPosted", "StepNamed", "TracePosted", "SeatConvicted", "TaskClosed",
    }
)  # fmt: skip


@dataclass
class Clock:
    """Measured times. `seconds` are by stage, in order; `events` are (name, block, seconds since the chain's
    start)."""

    seconds: dict[str, float] = field(default_factory=dict)
    events: list[tuple[str, int, float]] = field(default_factory=list)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Measures the `with` block."""
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = round(time.monotonic() - begun_s, 1)
            print(f"{stage}: {self.seconds[stage]} s", flush=True)

    def list_milestones(self) -> list[tuple[str, float]]:
        """Returns the milestones of the play, each with the seconds since the one before."""
        found, before_s = list[tuple[str, float]](), 0.0
        for name, _, seen_s in self.events:
            if name in MILESTONES:
                found.append((name, round(seen_s - before_s, 1)))
                before_s = seen_s
        return found


@dataclass
class TimedWatch(Watch):
    """Notes when each event was seen, and which seats were convicted for any reason."""

    clock: Clock = field(default_factory=Clock)
    convicted: list[str] = field(default_factory=list)

    async def take(self, batch: LogBatch) -> None:
        """Takes a batch, and notes its events."""
        seen_s = round(self.seconds(), 1)
        self.clock.events += [(one.name, one.block_number, seen_s) for one in batch.events]
        await super().take(batch)
        seats = [one.arguments["seat"] for one in batch.events if one.name == "SeatConvicted"]
        self.convicted += [self.names.of_seat(self.game, int(seat)) for seat in seats]


@dataclass
class Heard:
    """What parties reported. `votes` are (party, claim, verdict), `traces` (party, fetched bytes, all
    bytes)."""

    votes: list[tuple[str, str, str]] = field(default_factory=list)
    traces: list[tuple[str, int, int]] = field(default_factory=list)

    def hear(self, name: str, line: str) -> None:
        """Takes a line of a party."""
        if vote := VOTE.search(line):
            self.votes.append((name, vote[1], vote[2]))
        if fetched := FETCHED.search(line):
            self.traces.append((name, int(fetched[1]), int(fetched[2])))


def read_peak_bytes(pid: int | str) -> int:
    """Returns the most memory that a process held (VmHWM); 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def share_blobs(homes: Path) -> int:
    """Replaces equal large blobs of different homes by hard links; returns the saved bytes. A blob's name is
    its root and a store never changes a blob, so a link is as good as a copy. On separate machines nodes hold
    their own copies."""
    known: dict[tuple[str, str], Path] = {}
    saved = 0
    for path in sorted(homes.glob("*/blobs/*/*")):
        try:
            size = path.stat().st_size if path.parent.name != INCOMING else 0
            if size < SHARED_BYTES:
                continue
            first = known.setdefault((path.parent.name, path.name), path)
            if not first.samefile(path):
                link = path.parent.parent / INCOMING / f".{path.name}"
                link.hardlink_to(first)
                link.replace(path)
                saved += size
        except FileNotFoundError:
            continue  # Pruned meanwhile: the next look finds what is left.
    return saved


@dataclass
class Disk:
    """Disk use. `used_bytes` is the largest growth of the file system below a folder, including what others
    write there. `shared_bytes` are in blobs that several homes hold, which lie only once on this disk;
    otherwise the play would need twice the disk."""

    folder: Path
    homes: Path
    used_bytes: int = 0
    shared_bytes: int = 0

    async def watch(self) -> None:
        """Measures without end."""
        first = shutil.disk_usage(self.folder).free
        while True:
            self.shared_bytes += await asyncio.to_thread(share_blobs, self.homes)
            self.used_bytes = max(self.used_bytes, first - shutil.disk_usage(self.folder).free)
            await asyncio.sleep(LOOK_S)
