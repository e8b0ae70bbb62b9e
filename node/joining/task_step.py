"""The step of a task as its nodes fetch it.

    program, layout --> judged from their integers --> what they cost --> constants --> known to this process

A program is arithmetic over fixed loops: nothing that is fetched here is ever executed as code.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.reader import Reader
from touchstone.node.kit.stored_step import list_constants, open_step, read_program, refer_named
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.costs import ProgramCosts, measure_costs
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import MAX_CONSTANT_BYTES, MAX_CONSTANTS
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.task_spec import TaskSpec

MAX_PROOF_BYTES = 120_000
"""The longest proof of one number, in bytes. A transaction has 131,072 bytes at most."""


@dataclass(frozen=True)
class StepSource:
    """Where the parts of a step are fetched from, and who is notified."""

    store: BlobStore
    client: BlobClient
    list_peers: Callable[[], Sequence[Peer]]
    notify: Callable[[str], None]

    async def have(self, refs: Collection[BlobRef], what: str) -> None:
        """Fetches blobs into the store, each from the first peer that serves it. Prints one line on what is
        missing. Raises EnvironmentFault if no peer serves a blob."""
        missing = [ref for ref in refs if not self.store.has(ref)]
        if missing:
            self.notify(f"fetching {what}, {sum(ref.size_bytes for ref in missing) / 1e6:.1f} MB")
        for ref in missing:
            try:
                await self.client.fetch_from_any(self.list_peers(), ref)
            except (InvalidInput, ProtocolFault, EnvironmentFault) as fault:
                raise _unserved(ref, what, fault) from fault


def as_reader(reader: Reader, task: bytes, spec: TaskSpec, notify: Callable[[str], None]) -> StepSource:
    """Returns the same source for a command that does not join the task."""
    return StepSource(reader.store, reader.client, partial(sort_peers, reader.state, task, spec), notify)


async def fetch_program(source: StepSource, spec: TaskSpec) -> Program:
    """Returns the program and the layout of a task, checked and in the store, and prints what the step costs.
    Raises InvalidInput if a task may not have them, EnvironmentFault if no peer serves them."""
    await source.have([refer_named(spec.training.program)], "the program of the task's step")
    await source.have([refer_named(spec.training.layout)], "the layout of its weights")
    program, _ = await asyncio.to_thread(
        read_program, source.store, spec.training, spec.terms.parameter_count
    )
    costs = await asyncio.to_thread(measure_costs, program)
    refuse_costs(costs)
    source.notify(describe_costs(costs))
    return program


async def fetch_step(source: StepSource, spec: TaskSpec) -> TaskStep:
    """Loads the whole step of a task, so that this process can run it. Raises as `fetch_program` does."""
    program = await fetch_program(source, spec)
    refs = set(list_constants(program).values())
    await source.have(refs, f"constants of its program ({len(refs)} in all)")
    named = (spec.training, spec.terms.parameter_count)
    return await asyncio.to_thread(open_step, source.store, *named)


def sort_peers(state: ChainState, task: bytes, spec: TaskSpec) -> list[Peer]:
    """Returns all known peers, in the order in which to ask: the submitter first, then members of the
    task."""
    submitter = spec.terms.submitter.lower()

    def rank(peer: Peer) -> tuple[bool, bool]:
        """Returns the sort key of a peer."""
        return peer.account != submitter, not state.is_member(peer.account, task)

    return sorted(state.network.peers.values(), key=rank)


def refuse_costs(costs: ProgramCosts) -> None:
    """Raises InvalidInput if a number of the step could not be proven to the contracts in one transaction, or
    the constants are too large to fetch."""
    if costs.constant_bytes > MAX_CONSTANT_BYTES:
        raise InvalidInput(
            what="the constants of the task's program are too large",
            expected=f"at most {MAX_CONSTANT_BYTES} bytes",
            actual=costs.constant_bytes,
            remedy="Do not stake on this task; its submitter has to freeze less.",
        )
    if costs.constants > MAX_CONSTANTS:
        raise InvalidInput(
            what="the task's program has too many constants",
            expected=f"at most {MAX_CONSTANTS}",
            actual=costs.constants,
            remedy="Do not stake on this task; its submitter has to freeze fewer tensors.",
        )
    if costs.proof_bytes > MAX_PROOF_BYTES:
        raise InvalidInput(
            what="a number of the task's step could not be proven in one transaction",
            expected=f"at most {MAX_PROOF_BYTES} bytes",
            actual=costs.proof_bytes,
            remedy="Do not stake on this task; its submitter has to record it with a smaller chunk length.",
        )


def describe_costs(costs: ProgramCosts) -> str:
    """Describes what a step costs."""
    return (
        f"the task's step: {costs.parameters:,} parameters, {costs.nodes:,} nodes, "
        f"{costs.operations / 1e9:,.2f} billion operations, {costs.step_bytes / 1e6:,.0f} MB of memory "
        f"beside states, {costs.constant_bytes / 1e6:,.1f} MB of constants; in a dispute "
        f"{costs.trace_bytes / 1e6:,.0f} MB are hashed, and the dearest proof takes up to "
        f"{costs.proof_gas:,} gas"
    )


def _unserved(ref: BlobRef, what: str, fault: Exception) -> EnvironmentFault:
    return EnvironmentFault(
        what=f"no peer serves {what}",
        expected=f"{ref.size_bytes} bytes from the submitter or another node of the task",
        actual=str(fault),
        where=str(ref.key),
        remedy="The node asks again at its next start. Ask the submitter: its node has to serve the data.",
    )
