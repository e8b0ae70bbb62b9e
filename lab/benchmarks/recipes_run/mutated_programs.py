"""Gives changed programs to a node, which must refuse each with a reason, or train it as announced.

An accepted program is run once in two ways. Harm is: more memory than announced; an exception that is no
refusal; a number that the referee would call a fault, although this machine computed honestly; in exact
formats, bits that differ between two kinds of kernels. A process that dies is harm too, so each batch runs in
its own process.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from lab.benchmarks.recipes_run.plain_decoder import PlainDecoder
from lab.benchmarks.recipes_run.program_mutator import ProgramMutator
from touchstone.protocol.compute.bounds.trace_check import TraceChecker
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import require_fit
from touchstone.protocol.compute.program.program_form import require_constants
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.params import PRODUCT_BITS, PROTOCOL_VERSION
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.program_codec import compute_program_root, decode_program, encode_program
from touchstone.protocol.spec.referee import judge_element
from touchstone.protocol.spec.task_spec import NamedBytes, ScheduleConfig, TrainingSpec
from touchstone.step.record_step import RecordedStep, Shape, record_step

FORMATS = ("float32", "exact15", "exact20")
ROWS, TOKENS, VOCABULARY = 2, 6, 13
MOST_BYTES, MOST_OPERATIONS = 1 << 28, 10**8
"""The most bytes and operations that this benchmark's node accepts; larger programs are refused."""
ELEMENTS = 3
"""Elements of each node that are judged as a referee would."""
SECONDS = 900.0
"""The most seconds of a batch, on however slow a machine; after that it counts as hung."""


class Harm(Exception):
    """The harm that a changed program did."""


@dataclass(frozen=True)
class Setting:
    """A recorded step, and the task that names it."""

    step: RecordedStep
    training: TrainingSpec


def open_setting(numeric_format: str) -> Setting:
    """Records a plain decoder of two heads."""
    torch.manual_seed(5)
    step = record_step(PlainDecoder(VOCABULARY, 8, 1, 2, TOKENS), Shape(ROWS, TOKENS, numeric_format, 128))
    named = NamedBytes(bytes(32), 1)
    training = TrainingSpec(
        PROTOCOL_VERSION, numeric_format, compute_program_root(step.built.program), named, named, VOCABULARY,
        step.shape.beta1, step.shape.beta2, ScheduleConfig(nearest(1e-3), 0, 10), ROWS, TOKENS, 1, bytes(32),
        1000, 100,
    )  # fmt: skip
    return Setting(step, training)


def take(setting: Setting, program: Program, dice: Random) -> None:
    """Does what a node does with a program that a task names. Raises InvalidInput if the node refuses it,
    Harm if it should have."""
    program = decode_program(encode_program(program))
    training = replace(setting.training, program_root=compute_program_root(program))
    require_fit(training, program, setting.step.layout, setting.step.layout.count)
    costs = measure_costs(program)
    if costs.step_bytes > MOST_BYTES or costs.operations > MOST_OPERATIONS:
        raise InvalidInput(
            what="the step takes more than this node has",
            expected=f"{MOST_BYTES} bytes, {MOST_OPERATIONS} operations",
            actual=f"{costs.step_bytes}, {costs.operations}",
            remedy="Choose another task.",
        )
    by_root = {values.numpy().tobytes(): values for values in setting.step.built.constants.values()}
    roots = {
        setting.step.built.program.buffers[number].constant_root: values
        for number, values in setting.step.built.constants.items()
    }
    assert len(by_root) == len(roots)
    constants = {
        number: roots[buffer.constant_root]
        for number, buffer in enumerate(program.buffers)
        if buffer.constant_root
    }
    if any(values.numel() != program.buffers[number].size for number, values in constants.items()):
        raise InvalidInput(what="a constant has the wrong length", expected="", actual="", remedy="")
    built = BuiltProgram(program, constants)
    require_constants(built)
    _train(setting, built, costs.step_bytes, dice)


def _train(setting: Setting, built: BuiltProgram, told_bytes: int, dice: Random) -> None:
    numeric_format = setting.training.numeric_format
    inputs = _draw_inputs(setting)
    quick = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    if quick.arena_bytes > told_bytes:
        raise Harm(f"{quick.arena_bytes} bytes of memory instead of {told_bytes}")
    ends = quick.run(*inputs)
    traced = Interpreter(built.program, built.constants, keeps_all=True, numeric_format=numeric_format)
    traced.run(*inputs)
    if numeric_format in PRODUCT_BITS:
        other = Interpreter(
            built.program, built.constants, keeps_all=True, numeric_format=numeric_format, by_tensors=True
        )
        other.run(*inputs)
        _compare_bits(built.program, traced, other)
        results = (built.program.outputs.weights, built.program.outputs.first_moment)
        for end, number in zip(ends[:2], results, strict=True):
            if not _has_same_bits(end, traced.tensors[number]):
                raise Harm(f"training gives other bits than its trace in buffer {number}")
        _judge(built.program, traced, numeric_format, dice)
    else:
        report = TraceChecker(built.program).check(traced.tensors.__getitem__)
        if report.faults:
            raise Harm(f"an honest step has a fault: {report.faults[0]}")


def _draw_inputs(setting: Setting) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(11)
    weights = setting.step.weights
    first, second = (torch.randn(weights.numel(), generator=generator) * 1e-3 for _ in range(2))
    tokens, labels = (torch.randint(VOCABULARY, (ROWS, TOKENS), generator=generator) for _ in range(2))
    return (weights, first, second.abs()), tokens, labels, torch.tensor([1e-3, 0.1, 0.05])


def _has_same_bits(one: Tensor, other: Tensor) -> bool:
    """Returns whether two tensors have the same bits; all NaN count as equal."""
    if one.dtype is not torch.float32:
        return torch.equal(one, other)
    is_number = ~one.isnan()
    same = torch.equal(one[is_number].view(torch.int32), other[is_number].view(torch.int32))
    return torch.equal(is_number, ~other.isnan()) and same


def _compare_bits(program: Program, one: Interpreter, other: Interpreter) -> None:
    written = {node.output.buffer for node in program.nodes}
    for number in sorted(written):
        if not _has_same_bits(one.tensors[number].flatten(), other.tensors[number].flatten()):
            raise Harm(f"two kinds of kernels give other bits in buffer {number}")


def _judge(program: Program, traced: Interpreter, numeric_format: str, dice: Random) -> None:
    """Judges some elements of each node as the referee computes them."""
    kept: dict[int, list[int]] = {}

    def read(buffer: int, element: int) -> int:
        """Returns bits, or a quantized value."""
        if buffer not in kept:
            values = traced.tensors[buffer].flatten()
            if values.dtype is torch.float32:
                values = torch.where(values.isnan(), torch.nan, values)
                kept[buffer] = [word & 0xFFFFFFFF for word in values.view(torch.int32).tolist()]
                kept[buffer] = [0x7FC00000 if (w & 0x7FFFFFFF) > 0x7F800000 else w for w in kept[buffer]]
            else:
                kept[buffer] = values.tolist()
        return kept[buffer][element]

    for number, node in enumerate(program.nodes):
        for _ in range(ELEMENTS):
            element = dice.randrange(node.elements)
            indices, rest = [], element
            for size in reversed(node.output_sizes):
                rest, index = divmod(rest, size)
                indices.append(index)
            place = node.output.offset + sum(
                index * stride for index, stride in zip(reversed(indices), node.output.strides, strict=True)
            )
            claimed = read(node.output.buffer, place)
            judgement = judge_element(node, element, read, claimed, numeric_format)
            if judgement.is_fault:
                raise Harm(f"an honest element {element} of node {number} ({node.operation.name}) is a fault")


# Batches
def run_batch(numeric_format: str, seed: str, count: int) -> dict[str, object]:
    """Returns the counts over `count` programs, and the first words about each harm."""
    pin_kernels(1)
    setting, found = open_setting(numeric_format), Counter[str]()
    mutator, dice, harms = ProgramMutator(setting.step.built.program, seed), Random(seed), list[str]()
    for number in range(count):
        program = mutator.make()
        try:
            take(setting, program, dice)
            found["trained"] += 1
        except InvalidInput:
            found["refused"] += 1
        except Exception as error:
            found["harmed"] += 1
            harms.append(f"{numeric_format} {seed} {number}: {type(error).__name__}: {error}"[:400])
    return {**found, "harms": harms}


def run_all(programs: int, batch: int, seed: int) -> dict[str, object]:
    """Runs all formats in turn, batch by batch, each in its own process."""
    total, harms, number = Counter[str](), list[str](), 0
    while total["tried"] < programs:
        named = (FORMATS[number % len(FORMATS)], f"{seed}-{number}", str(batch))
        try:
            done = subprocess.run(
                [sys.executable, "-m", __name__, *named], capture_output=True, text=True, timeout=SECONDS
            )
            found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
        except subprocess.TimeoutExpired:
            found = None
        total["tried"] += batch
        if found is None:
            total["harmed"] += 1
            harms.append(f"the process of {named} died or hung")
        else:
            harms += found.pop("harms")
            total.update(found)
        number += 1
        print(dict(total), harms[-1:], flush=True)
    return {**dict.fromkeys(("tried", "refused", "trained", "harmed"), 0), **total, "harms": harms[:20]}


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("numeric_format")
    options.add_argument("seed")
    options.add_argument("count", type=int)
    chosen = options.parse_args()
    print(json.dumps(run_batch(chosen.numeric_format, chosen.seed, chosen.count)))
