"""Records a training step of any PyTorch module as a program."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path

import torch
from torch import Tensor, nn

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.params import FORMAT_ALIASES, NUMERIC_FORMATS, OFFERED_FORMATS, PRODUCT_BITS
from touchstone.protocol.spec.program import DEFAULT_CHUNK_TERMS
from touchstone.protocol.spec.program_rules import find_vocabulary
from touchstone.step.first_weights import describe_weights, flatten, is_even
from touchstone.step.idle_parts import find_idle
from touchstone.step.optimizers import AdamW, Optimizer, Parameter
from touchstone.step.plain_step import Loss, PlainStep, lay_out
from touchstone.step.programs import keep_constants, write_program
from touchstone.step.recorder import record, require_equal
from touchstone.step.step_folder import StepFiles, StepShape, save_step


def next_token_loss(module: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean cross entropy of the labels, in nats. The module returns logits, or a result that has
    them."""
    has_cache = hasattr(getattr(module, "config", None), "use_cache")
    result = module(tokens, use_cache=False) if has_cache else module(tokens)
    logits = getattr(result, "logits", result)
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


@dataclass(frozen=True)
class Shape:
    """The shape of a batch: the number of sequences, and of tokens in each. `numeric_format` is `float32`, or
    an exact one (`exact` means exact15). No sum of the program has more than `chunk_terms` terms. Raises
    InvalidInput for an unknown format, and for sizes below 1."""

    sequences: int
    tokens: int
    numeric_format: str = "float32"
    chunk_terms: int = DEFAULT_CHUNK_TERMS

    def __post_init__(self) -> None:
        if min(self.sequences, self.tokens, self.chunk_terms) < 1:
            raise InvalidInput(
                what="a batch needs a size of 1 or more",
                expected="sequences, tokens and chunk_terms of 1 or more",
                actual=f"{self.sequences}, {self.tokens}, {self.chunk_terms}",
                remedy="Correct them.",
            )
        named = FORMAT_ALIASES.get(self.numeric_format, self.numeric_format)
        if named not in NUMERIC_FORMATS:
            raise InvalidInput(
                what="unknown numeric format",
                expected=" or ".join((*OFFERED_FORMATS, *FORMAT_ALIASES)),
                actual=self.numeric_format,
                remedy="Correct numeric_format.",
            )
        object.__setattr__(self, "numeric_format", named)


@dataclass(frozen=True)
class RecordedStep(StepFiles):
    """A step as a program, with what a task needs beside it. `parameters` are those of W, in order."""

    parameters: tuple[Parameter, ...]

    def save(self, folder: str | Path) -> None:
        """Writes the step into a folder (`step_folder.py`)."""
        save_step(self, Path(folder))


def record_step(
    module: nn.Module,
    shape: Shape,
    loss: Loss = next_token_loss,
    optimizer: Optimizer | None = None,
    is_frozen: Callable[[str], bool] = lambda name: False,
    config: str = "",
) -> RecordedStep:
    """Records one training step of `module`. `is_frozen` says by a parameter's name whether it stays
    unchanged, as a constant of the program. `config` is the text of the `config.json` that an export gets.
    Raises InvalidInput, with the line of the module, if programs do not have an operation."""
    optimizer = optimizer or AdamW()
    _require_kinds(module, loss, optimizer)
    parameters = lay_out(module, is_frozen)
    count = sum(parameter.size for parameter in parameters)
    batch = (shape.sequences, shape.tokens)
    kinds = [torch.float32] * 3 + [torch.int64] * 2 + [torch.float32]
    shapes: list[tuple[int, ...]] = [(count,), (count,), (count,), batch, batch, (3,)]
    inputs = list(zip(shapes, kinds, strict=True))
    plain = PlainStep(module, parameters, loss, optimizer)
    with _holding_buffers(module):
        recording = record(_flatten_inputs(plain), inputs)
        require_equal(recording, record(_flatten_inputs(plain), inputs))
    if shape.numeric_format not in PRODUCT_BITS:
        idle = _find_idle(module, parameters, loss, batch)
        recording = record(_flatten_inputs(replace(plain, idle=idle)), inputs) if idle else recording
    bits = PRODUCT_BITS.get(shape.numeric_format, 0)
    built = write_program(recording, shape.chunk_terms, bits)
    trained = {parameter.name for parameter in parameters}
    frozen = (values for name, values in module.named_parameters() if name not in trained)
    built = keep_constants(built, (values for values in frozen if not is_even(values)))
    layout = describe_weights(module, parameters, config)
    beta1, beta2 = map(nearest, optimizer.betas)
    vocabulary = find_vocabulary(built.program)
    known = StepShape(*batch, shape.numeric_format, vocabulary, beta1, beta2)
    return RecordedStep(built, layout, flatten(module, parameters), known, parameters)


@contextmanager
def _holding_buffers(module: nn.Module) -> Iterator[None]:
    """Restores all buffers after the `with` block. Raises InvalidInput if one was written to."""
    before = [(name, one, one._version, one.clone()) for name, one in module.named_buffers()]
    try:
        yield
    finally:
        changed = [name for name, one, version, _ in before if one._version != version]
        for name, one, _, held in before:
            if name in changed:
                one.data.copy_(held)
    if changed:
        raise InvalidInput(
            what="the step writes into a buffer of the module",
            expected="buffers that stay as they are",
            actual=", ".join(changed),
            remedy="A program has no memory but W and two vectors: keep no counter and no running mean.",
        )


def _require_kinds(module: nn.Module, loss: Loss, optimizer: Optimizer) -> None:
    if not isinstance(module, nn.Module):
        raise InvalidInput(
            what="not a module that can be recorded",
            expected="an instance of torch.nn.Module",
            actual=getattr(module, "__name__", type(module).__name__),
            remedy="Make one of the class first: Model().",
        )
    try:
        signature(loss.forward if isinstance(loss, nn.Module) else loss).bind(module, None, None)
    except TypeError as error:
        raise InvalidInput(
            what="not a loss that can be recorded",
            expected="a function of (module, tokens, labels)",
            actual=str(error),
            remedy="Write a function that runs the module, as next_token_loss does.",
        ) from error
    if any(hasattr(one, "_orig_mod") for one in module.modules()):
        raise InvalidInput(
            what="a compiled module cannot be recorded",
            expected="the module as it is written",
            actual="the result of torch.compile",
            remedy="Record the module that was compiled.",
        )
    if not (callable(getattr(optimizer, "update", None)) and hasattr(optimizer, "betas")):
        raise InvalidInput(
            what="not an optimizer that can be recorded",
            expected="one of touchstone.step.optimizers, or an object with their `update` and `betas`",
            actual=f"{type(optimizer).__module__}.{type(optimizer).__name__}",
            remedy="Take AdamW, SGD, Lion or Muon of that module, or write an optimizer in the same way.",
        )


def _flatten_inputs(step: PlainStep) -> Callable[..., Sequence[Tensor]]:
    return lambda w, m, v, tokens, labels, scalars: step.take((w, m, v), tokens, labels, scalars)


def _find_idle(
    module: nn.Module, parameters: Sequence[Parameter], loss: Loss, batch: tuple[int, int]
) -> dict[str, Tensor]:
    """Finds idle parts as `idle_parts.find_idle`. The vocabulary is not known before recording, so it takes
    the rows of the smallest embedding. A module that float64 cannot compute is left as it is; nodes refuse it
    if noise would move it."""
    rows = [one.num_embeddings for one in module.modules() if isinstance(one, nn.Embedding)]
    try:
        return find_idle(module, parameters, loss, batch, min([*rows, 2**16]))
    except RuntimeError:
        return {}
