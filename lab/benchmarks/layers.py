"""Measures how much of a trace a challenger fetches if its kernels differ from the claimant's.

A claimant, a process with other kernels, computes a step with at most one false node, and goes on from its
result. Its trace lies in a folder. This process searches it as the opener of a dispute does, and counts the
bytes of the tensors that it reads there. False nodes are drawn: one of each kind of operation in the forward
pass, the backward pass and the optimizer (clip included). Their errors:

    scaled      all elements 5 % too large
    element     the largest element half too large

Writes build/layers/report.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lab.benchmarks.honest import Configuration
from lab.benchmarks.honesty.planted import MODELS, Step, load_step, open_training
from lab.benchmarks.replays.machines import SUMS, Machine
from lab.benchmarks.reports import write_report
from tests.task_models import DecoderStep, build_program, init_parameters
from tests.training_setting import SEQUENCES_PER_STEP, read_standard_library
from touchstone.protocol.adapters.store.blobs import refer_trace_tensor
from touchstone.protocol.compute.bounds.fault_finder import FaultFinder
from touchstone.protocol.compute.bounds.fault_proof import ClaimedLeaf, ClaimedTrace, OperationFault
from touchstone.protocol.compute.bounds.trace_tree import build_buffer_tree
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.planning.lifetimes import list_written
from touchstone.protocol.compute.program.planning.node_views import look
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.program import INPUTS, Program, Role, leaf_bytes
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig

HONEST = -1
LIES = ("scaled", "element")
MOST_NODES = 99
"""The most false nodes of a model by default: all that are drawn."""
LARGE = DecoderConfig(50_257, 768, 2048, 12, 12, 12, 1024, tied=True)
"""A model of 124 million parameters."""
SIX = DecoderConfig(256, 256, 768, 8, 8, 8, 128)
"""A model of 6.4 million parameters."""
SHAPES = {name: (config, SEQUENCES_PER_STEP, terms) for name, (config, terms) in MODELS.items()}
SHAPES |= {"six": (SIX, SEQUENCES_PER_STEP, 512), "124m": (LARGE, 1, 512)}
LARGE_TOKENS = 512
ROOT = Path(__file__).resolve().parents[2]


def build(model: str) -> BuiltProgram:
    """Builds the program of a step of a model."""
    config, sequences, chunk_terms = SHAPES[model]
    tokens = LARGE_TOKENS if model == "124m" else config.context_tokens
    return build_program(DecoderStep(config, AdamW(), sequences, tokens, chunk_terms))


def make_step(model: str, data: bytes) -> Step:
    """Returns a late step of a training run; for large models, one from random weights and moments."""
    if model in MODELS:
        return open_training(model, data).choose("late", 1)[0]
    config, sequences, _ = SHAPES[model]
    tokens = LARGE_TOKENS if model == "124m" else config.context_tokens
    size, generator = build(model).program.buffers[0].size, torch.Generator().manual_seed(7)
    weights, first = init_parameters(config, 7), torch.randn(size, generator=generator).mul_(1e-4)
    second = torch.rand(size, generator=generator).mul_(1e-7)
    batch = torch.randint(config.vocabulary_size, (2, sequences, tokens), generator=generator)
    scalars = torch.tensor([nearest(1e-3), nearest(0.5), nearest(0.1)])
    return Step((weights, first, second), Batch(*batch), scalars)


# Which nodes lie
def list_parts(program: Program) -> dict[str, range]:
    """Returns the numbers of the nodes in each part of a step. The optimizer begins where the gradient is
    complete: the first tensor as long as W that a sum of squares reads."""
    loss = max(n for n, node in enumerate(program.nodes) if node.output.buffer == program.outputs.loss)
    sums = (Operation.PRODUCT_SUM, Operation.SUM)
    norm = min(
        number
        for number, node in enumerate(program.nodes)
        if node.operation in sums
        and all(program.buffers[one.buffer].size == program.buffers[0].size for one in node.operands)
        and all(program.buffers[one.buffer].role is Role.TENSOR for one in node.operands)
        and number > loss
    )
    count = len(program.nodes)
    return {"forward": range(loss + 1), "backward": range(loss + 1, norm), "optimizer": range(norm, count)}


def draw_nodes(program: Program, random: Random) -> Iterator[tuple[str, int]]:
    """Yields one node of each kind of operation in each part."""
    for part, numbers in list_parts(program).items():
        for kind in Operation:
            nodes = [number for number in numbers if program.nodes[number].operation is kind]
            if nodes:
                yield part, random.choice(nodes)


def lie(values: Tensor, how: str) -> None:
    """Makes the result of a node false, in place."""
    if how == "scaled":
        values.mul_(1.05)
    else:
        flat = values.reshape(-1)
        place = int(flat.abs().argmax())
        index = np.unravel_index(place, tuple(values.shape))
        values[tuple(int(i) for i in index)] *= 1.5


# The claimant
@dataclass(frozen=True)
class Claim:
    """A request to a claimant. `node` is the false one, or HONEST."""

    model: str
    node: int
    how: str


def compute_trace(folder: Path, claim: Claim, built: BuiltProgram, step: Step) -> None:
    """Writes each tensor of the step, and all roots."""
    program = built.program
    interpreter = Interpreter(program, built.constants, is_traced=True)
    written, roots = list_written(program), [buffer.constant_root.hex() for buffer in program.buffers]
    for number in interpreter.iterate(step.vectors, *step.batch, step.scalars):
        if number == claim.node:
            node = program.nodes[number]
            values = interpreter.tensors[node.output.buffer]
            lie(look(values, node.output.offset, node.output_sizes, node.output.strides), claim.how)
        for buffer in [*(range(len(INPUTS)) if number == 0 else ()), *written.get(number, ())]:
            roots[buffer] = build_buffer_tree(program, interpreter.tensors.__getitem__, buffer).root.hex()
            interpreter.tensors[buffer].numpy().tofile(folder / str(buffer))
    (folder / "roots").write_text(json.dumps(roots))


class Claimant:
    """The process of another machine. `python` is its interpreter, perhaps with another PyTorch."""

    def __init__(self, machine: Machine, folder: Path, python: str) -> None:
        worker = ["--worker", str(folder), json.dumps(asdict(machine))]
        command = [python, "-m", "lab.benchmarks.layers", *worker]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=machine.configuration.environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def compute(self, claim: Claim) -> None:
        """Waits until the trace is in the folder."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(asdict(claim)) + "\n")
        if not self._process.stdout.readline():
            raise RuntimeError(f"the claimant ended before {claim} was there")

    def stop(self) -> None:
        """Closes its input and waits for its end."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def work(folder: Path, machine: Machine) -> None:
    """Computes the trace that each line of standard input asks for."""
    machine.set_up()
    for line in sys.stdin:
        claim = Claim(**json.loads(line))
        compute_trace(folder, claim, build(claim.model), load_step(folder / f"{claim.model}.step"))
        print("done", flush=True)


# The challenger
@dataclass
class Shown:
    """A trace in a folder, with the bytes that were read of each buffer."""

    folder: Path
    program: Program
    fetched: dict[int, int] = field(default_factory=dict)

    def fetch(self, buffer: int) -> Tensor:
        """Returns a tensor, mapped from its file."""
        self.fetched[buffer] = 4 * self.program.buffers[buffer].size
        return self._map(buffer)

    def find_leaf(self, buffer: int, own: ByteTree) -> ClaimedLeaf:
        """Returns the first leaf that differs. A node fetches the roots of a tensor's chunks, and one
        chunk."""
        claimed, size = build_buffer_tree(self.program, self._map, buffer), leaf_bytes(self.program, buffer)
        ref = refer_trace_tensor(claimed.root, 4 * self.program.buffers[buffer].size, size)
        chunk = min(ref.key.kind.chunk_leaves * size, ref.size_bytes)
        self.fetched.setdefault(buffer, chunk + len(claimed.root) * ref.chunk_count)
        index = next(n for n, leaf in enumerate(claimed.levels[0]) if leaf != own.levels[0][n])
        return ClaimedLeaf(index, *claimed.open_leaf(index))

    def _map(self, buffer: int) -> Tensor:
        is_index = self.program.buffers[buffer].role in (Role.TOKENS, Role.LABELS)
        values = np.memmap(self.folder / str(buffer), dtype=np.int64 if is_index else np.float32, mode="c")
        return torch.from_numpy(values)

    @property
    def share(self) -> float:
        """The share of the trace's bytes that was read so far."""
        return sum(self.fetched.values()) / sum(4 * buffer.size for buffer in self.program.buffers)


def search(folder: Path, built: BuiltProgram, step: Step, claim: Claim) -> dict[str, Any]:
    """Returns the fault that was found, and how much was fetched for it."""
    shown, started = Shown(folder, built.program), time.monotonic()
    roots = [bytes.fromhex(root) for root in json.loads((folder / "roots").read_text())]
    finder = FaultFinder(built)
    claimed = ClaimedTrace(roots, shown.fetch, try_leaf=shown.find_leaf)
    fault = finder.find(step.vectors, step.batch, step.scalars, claimed)
    node = fault.node.number if isinstance(fault, OperationFault) else None
    return {"share": shown.share, "found": node, "seconds": time.monotonic() - started}


def measure_model(model: str, machine: Machine, plan: "Plan") -> list[dict[str, Any]]:
    """Runs all cases of a model against one claimant, an honest one first."""
    built, cases, random = build(model), list[dict[str, Any]](), Random(model)
    drawn = list(draw_nodes(built.program, random))
    chosen = random.sample(drawn, min(plan.nodes, len(drawn)))
    lies = [(part, node, how) for part, node in chosen for how in LIES]
    with tempfile.TemporaryDirectory() as name:
        folder, step = Path(name), make_step(model, read_standard_library())
        step.save(folder / f"{model}.step")
        claimant = Claimant(machine, folder, plan.python)
        for part, node, how in [("honest", HONEST, ""), *lies]:
            claim = Claim(model, node, how)
            claimant.compute(claim)
            kind = built.program.nodes[node].operation.name if how else ""
            case = {"part": part, "node": node, "kind": kind, "how": how}
            cases.append(case | search(folder, built, step, claim))
            print(model, machine.name, json.dumps(cases[-1]), flush=True)
        claimant.stop()
    return cases


# The campaign
@dataclass(frozen=True)
class Plan:
    """The models to search, how claimants add (`machines.SUMS`), the most false nodes of a model, and the
    claimants' interpreter."""

    name: str
    models: Sequence[str]
    sums: Sequence[str]
    nodes: int
    python: str


def make_plan(is_short: bool, models: Sequence[str], sums: Sequence[str], nodes: int, python: str) -> Plan:
    """Returns the campaign, or a small sample of it."""
    if is_short:
        return Plan("layers-short", ["tiny"], ["wide"], 3, sys.executable)
    return Plan("layers", models, sums, nodes, python)


def run_campaign(plan: Plan) -> dict[str, Any]:
    """Returns the report: all cases by model and claimant, and what was fetched for each part of a step."""
    last, report = list_cpu_capabilities()[-1], dict[str, Any]()
    for model in plan.models:
        for sums in plan.sums:
            machine = Machine(Configuration(last, 1, False, ""), sums)
            cases = measure_model(model, machine, plan)
            report[f"{model}, {machine.name}"] = {"summary": summarize(cases), "cases": cases}
    return report


def summarize(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summarizes cases. `honest` has the share that was fetched, and whether the claimant was accused. Each
    part has the number of lies, how many were found, and the mean, median and largest share that was fetched
    for one."""
    honest, *lies = cases
    found: dict[str, Any] = {"honest": {"share": honest["share"], "accused": honest["found"] is not None}}
    for part in ("forward", "backward", "optimizer", ""):
        some = [case for case in lies if part in ("", case["part"])]
        if some:
            shares = [case["share"] for case in some]
            found[part or "all"] = {
                "lies": len(some),
                "found": sum(case["found"] is not None for case in some),
                "mean": mean(shares),
                "median": median(shares),
                "most": max(shares),
            }
    return found


def main() -> None:
    """Measures, prints each case and writes the report; with --worker, computes traces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a tiny model, three false nodes")
    parser.add_argument("--models", nargs="+", choices=sorted(SHAPES), default=["small", "demo"])
    parser.add_argument("--sums", nargs="+", choices=sorted(SUMS), default=["library", "wide"])
    parser.add_argument("--nodes", type=int, default=MOST_NODES, help="false nodes of a model, at most")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of claimants, with another PyTorch"
    )
    parser.add_argument("--worker", nargs=2, metavar=("FOLDER", "MACHINE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        folder, text = arguments.worker
        content = json.loads(text)
        return work(Path(folder), Machine(Configuration(**content["configuration"]), content["sums"]))
    pin_kernels(1)
    choices = (arguments.models, arguments.sums, arguments.nodes, arguments.python)
    plan = make_plan(arguments.short, *choices)
    report = run_campaign(plan)
    for name, one in report.items():
        print(name, json.dumps(one["summary"], indent=1))
    print(write_report(plan.name, report))


if __name__ == "__main__":
    main()
