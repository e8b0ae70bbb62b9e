"""Builds programs of plain decoders and of recipes, and runs them on a card and on the processor.

Programs are written straight from a recording: no task, no data set and no file is needed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn

from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.devices import CudaDevice, DeviceSteps
from touchstone.protocol.compute.program.interpreter import Interpreter, Vectors
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.step.optimizers import AdamW, Optimizer
from touchstone.step.plain_decoder import Decoder, DecoderConfig
from touchstone.step.plain_step import PlainStep, lay_out
from touchstone.step.programs import write_program
from touchstone.step.recorder import record
from touchstone.step.recordings import Recording

CHUNK_TERMS = 4096
CPU = "cpu"
MODELS = {
    "0.2M": DecoderConfig(256, 64, 192, 3, 4, 4, 1024),
    "1M": DecoderConfig(256, 128, 416, 4, 4, 4, 1024),
    "6M": DecoderConfig(256, 256, 768, 7, 4, 4, 1024),
    "30M": DecoderConfig(256, 512, 1536, 9, 8, 8, 1024),
    "124M": DecoderConfig(50_257, 768, 2048, 12, 12, 12, 1024, tied=True),
}
"""Models by their number of parameters."""


def compute_loss(module: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean cross entropy of the labels, in nats. The module returns logits, or a result that has
    them."""
    has_cache = hasattr(getattr(module, "config", None), "use_cache")
    result = module(tokens, use_cache=False) if has_cache else module(tokens)
    logits = getattr(result, "logits", result)
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


@dataclass(frozen=True)
class Subject:
    """A module's step, recorded once for all formats, with its inputs."""

    module: nn.Module
    recording: Recording
    vectors: Vectors
    batches: list[tuple[Tensor, Tensor]]

    def build(self, numeric_format: str, chunk_terms: int = CHUNK_TERMS) -> BuiltProgram:
        """Writes the program in a numeric format."""
        return write_program(self.recording, chunk_terms, PRODUCT_BITS.get(numeric_format, 0))


def make_subject(
    module: nn.Module, shape: tuple[int, int], vocabulary: int, optimizer: Optimizer | None = None,
    batches: int = 1, is_started: bool = True,
) -> Subject:  # fmt: skip
    """Records a module. `shape` is rows and tokens of a batch. With `is_started` the moments are as in the
    middle of training."""
    parameters = lay_out(module)
    plain = PlainStep(module, parameters, compute_loss, optimizer or AdamW())
    named = dict(module.named_parameters())
    weights = torch.cat([named[one.name].detach().reshape(-1) for one in parameters])
    kinds: list[tuple[tuple[int, ...], torch.dtype]] = [((weights.numel(),), torch.float32)] * 3
    kinds += [(shape, torch.int64)] * 2 + [((3,), torch.float32)]
    recording = record(lambda w, m, v, *rest: plain.take((w, m, v), *rest), kinds)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randint(vocabulary, (2, *shape), generator=generator) for _ in range(batches)]
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    if is_started:
        first.normal_(std=1e-3, generator=generator)
        second.uniform_(to=1e-6, generator=generator)
    return Subject(module, recording, (weights, first, second), [(one[0], one[1]) for one in drawn])


def make_decoder(size: str, rows: int, tokens: int, batches: int = 1) -> Subject:
    """Records the step of a plain decoder."""
    torch.manual_seed(1)
    config = MODELS[size]
    return make_subject(Decoder(config), (rows, tokens), config.vocabulary_size, batches=batches)


def make_scalars(step: int) -> Tensor:
    """Returns learning rate and bias corrections of a step."""
    return torch.tensor([1e-3, 1 - 0.9 ** (step + 40), 1 - 0.95 ** (step + 40)])


# Running
Ends = list[tuple[Tensor, ...]]
"""W, m, v and the loss after each step, on the host."""


def digest(vectors: tuple[Tensor, ...]) -> str:
    """Returns sixteen hexadecimal digits of a hash of the bits."""
    hashed = sha256()
    for vector in vectors:
        hashed.update(vector.numpy().tobytes())
    return hashed.hexdigest()[:16]


def run_on_cpu(subject: Subject, built: BuiltProgram, numeric_format: str) -> Ends:
    """Runs each batch with the processor's own kernels."""
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format, device=CPU)
    vectors, ends = subject.vectors, Ends()
    for number, (tokens, labels) in enumerate(subject.batches):
        result = interpreter.run(vectors, tokens, labels, make_scalars(number))
        vectors = (result.weights, result.first_moment, result.second_moment)
        ends.append(tuple(one.clone() for one in (*vectors, result.loss.reshape(1))))
    return ends


def open_steps(built: BuiltProgram, numeric_format: str, device: str, is_captured: bool) -> DeviceSteps:
    """Loads a program onto the card."""
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format, device=device)
    return DeviceSteps(interpreter, CudaDevice(torch.device(device)), is_captured)


def run_on_card(subject: Subject, steps: DeviceSteps) -> Ends:
    """Runs each batch on the card."""
    vectors, ends = subject.vectors, Ends()
    for number, (tokens, labels) in enumerate(subject.batches):
        steps.begin(vectors)
        steps.step(tokens, labels, make_scalars(number))
        vectors, losses = steps.end()
        ends.append((*(one.cpu() for one in vectors), torch.tensor(losses)))
    return ends


def list_node_kernels(interpreter: Interpreter) -> Iterator[tuple[Any, Callable[[], object]]]:
    """Yields each executed node with its kernel, of a static interpreter."""
    nodes = interpreter._folded.nodes
    return ((nodes[number], kernel) for number, kernel in interpreter._kernels)
