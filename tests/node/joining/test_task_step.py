"""The step of a task comes from a node that has it, and is judged before a constant is fetched."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kit.nodes import get_account
from tests.node.merging.stage import make_served, open_stage
from tests.node.specs import get_spec
from tests.protocol.compute.program.hand_written import HandWritten, M, V, W, judge
from touchstone.node.joining.task_step import StepSource, fetch_step, refuse_costs
from touchstone.node.kit.stored_step import (
    MAPPED_BYTES,
    keep_step,
    list_constants,
    list_step_keys,
    open_step,
    refer_named,
)
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.compute.program import known_steps
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.compute.program.known_steps import TaskStep, get_step, knows_step
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.params import MAX_CONSTANT_BYTES, MAX_CONSTANTS
from touchstone.protocol.spec.program_codec import compute_program_root, encode_program
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import NamedBytes, TaskSpec
from touchstone.scripts.roles.role_nodes import Member

SERVER, ASKER = 1, 2
SPEC = replace(get_spec(), terms=replace(get_spec().terms, submitter=get_account(SERVER)))
STEP = get_step(SPEC.training)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has read no step yet."""
    monkeypatch.setattr(known_steps, "_known", {})
    yield


@asynccontextmanager
async def open_pair(folder: Path) -> AsyncIterator[tuple[Member, Member]]:
    async with open_stage(folder, SERVER, ASKER) as stage:
        yield stage.nodes[SERVER], stage.nodes[ASKER]


async def fetch(
    node: Member, spec: TaskSpec = SPEC, notify: Callable[[str], None] = lambda line: None
) -> TaskStep:
    peers = partial(node.rooms.tools.peers.list, first=spec.terms.submitter)
    return await fetch_step(StepSource(node.store, node.client, peers, notify), spec)


async def test_all_of_a_step_comes_from_a_peer_and_is_the_submitters(tmp_path: Path) -> None:
    async with open_pair(tmp_path) as (server, asker):
        keep_step(server.store, SPEC.training, STEP)
        said = list[str]()
        found = await fetch(asker, notify=said.append)
        assert len(STEP.built.constants) > 1 and len(said) == 4, "constants are told in one line"
        assert found.layout == STEP.layout and found.built.program == STEP.built.program
        assert found.built.constants.keys() == STEP.built.constants.keys()
        for number, values in STEP.built.constants.items():
            assert torch.equal(found.built.constants[number], values)
        assert list_step_keys(SPEC.training) == set(asker.store.list_keys(BlobKind.STEP))
        asker.state.network.peers.clear()
        known_steps._known.clear()
        again = await fetch(asker)
        assert again.built.program == found.built.program, "fetched once"


async def test_any_account_may_have_it(tmp_path: Path) -> None:
    """It has no seat yet."""
    async with open_pair(tmp_path) as (server, _):
        offers = make_served(server)
        assert offers.may_read(get_account(9), BlobKind.STEP, SPEC.training.program.root)


async def test_a_step_that_nobody_serves_is_named(tmp_path: Path) -> None:
    async with open_pair(tmp_path) as (server, asker):
        with pytest.raises(EnvironmentFault, match="no peer serves the program of the task's step"):
            await fetch(asker)
        keep_step(server.store, SPEC.training, STEP)
        for ref in list_constants(STEP.built.program).values():
            server.store.delete(ref.key)
        with pytest.raises(EnvironmentFault, match="no peer serves constants"):
            await fetch(asker)
        assert not knows_step(SPEC.training)


def name_bytes(store: BlobStore, data: bytes) -> NamedBytes:
    named = NamedBytes(compute_data_root(data), len(data))
    store.put(refer_named(named), data)
    return named


async def test_a_program_that_breaks_a_rule_costs_no_constant(tmp_path: Path) -> None:
    """Here one whose result is read before it is written."""
    program = STEP.built.program
    spoiled = encode_program(replace(program, nodes=program.nodes[::-1]))
    async with open_pair(tmp_path) as (server, asker):
        keep_step(server.store, SPEC.training, STEP)
        for data in (spoiled, b"\0" * 300, encode_program(program)[:-1]):
            training = replace(SPEC.training, program=name_bytes(server.store, data))
            with pytest.raises(InvalidInput) as refusal:
                await fetch(asker, replace(SPEC, training=training))
            assert "stake" in refusal.value.remedy
        kept = {ref.key for ref in list_constants(program).values()} & set(
            asker.store.list_keys(BlobKind.STEP)
        )
        assert not kept and not knows_step(SPEC.training)


@pytest.mark.parametrize("changes", [{"vocabulary_size": 5_000}, {"sequences_per_step": 77}])
async def test_a_step_that_is_known_is_judged_again_for_another_task(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    async with open_pair(tmp_path) as (server, asker):
        keep_step(server.store, SPEC.training, STEP)
        await fetch(asker)
        other = replace(SPEC, training=replace(SPEC.training, **changes))
        with pytest.raises(InvalidInput, match="fit the task|not a valid program"):
            await fetch(asker, other)
        with pytest.raises(InvalidInput):
            open_step(asker.store, other.training, other.terms.parameter_count)


async def test_a_constant_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    program = STEP.built.program
    number = next(iter(STEP.built.constants))
    values = STEP.built.constants[number].clone()
    values[0] = torch.nan
    root = compute_data_root(values.numpy().tobytes())
    buffers = list(program.buffers)
    buffers[number] = replace(buffers[number], constant_root=root)
    spoiled = replace(program, buffers=tuple(buffers))
    constants = {**STEP.built.constants, number: values}
    step = TaskStep(replace(STEP.built, program=spoiled, constants=constants), STEP.layout)
    async with open_pair(tmp_path) as (server, asker):
        data = encode_program(spoiled)
        training = replace(
            SPEC.training, program=name_bytes(server.store, data),
            program_root=compute_program_root(spoiled),
        )  # fmt: skip
        keep_step(server.store, training, step)
        with pytest.raises(InvalidInput, match="finite numbers in a constant"):
            await fetch(asker, replace(SPEC, training=training))


def test_a_number_that_fits_no_transaction_is_refused() -> None:
    costs = measure_costs(STEP.built.program)
    refuse_costs(costs)
    with pytest.raises(InvalidInput, match="proven in one transaction"):
        refuse_costs(replace(costs, proof_bytes=120_001))


def test_constants_that_nobody_should_fetch_are_refused() -> None:
    costs = measure_costs(STEP.built.program)
    with pytest.raises(InvalidInput, match="constants of the task's program are too large"):
        refuse_costs(replace(costs, constant_bytes=MAX_CONSTANT_BYTES + 4))


def test_constants_that_nobody_could_map_are_refused() -> None:
    costs = measure_costs(STEP.built.program)
    refuse_costs(replace(costs, constants=MAX_CONSTANTS))
    with pytest.raises(InvalidInput, match="too many constants"):
        refuse_costs(replace(costs, constants=MAX_CONSTANTS + 1))


def test_large_constants_are_no_open_files(tmp_path: Path) -> None:
    """They stay mapped as long as the step is known."""
    written, new_w = HandWritten(8), W
    for number in range(20):
        constant = written.constant(torch.full((MAPPED_BYTES // 4,), float(number)))
        new_w = written.flat(Operation.ADD, new_w, (constant, number))
    judged = judge(written, written.finish(new_w, *written.copies(M, V)), "float32")
    store = BlobStore(tmp_path, is_durable=False)
    keep_step(store, judged.training, judged.step)
    known_steps._known.clear()
    before = len(os.listdir("/proc/self/fd"))
    found = open_step(store, judged.training, 8)
    assert len(os.listdir("/proc/self/fd")) == before
    for number, values in judged.step.built.constants.items():
        assert torch.equal(found.built.constants[number], values)
