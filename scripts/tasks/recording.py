"""`touchstone task record`: records a step of a published model.

Own modules are recorded in Python (docs/step.md).
"""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import structs

from touchstone.node.exports.model_note import TOKENIZER_NAME, hash_file
from touchstone.node.exports.published_model import PublishedModel, read_published
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import FORMAT_ALIASES
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.posting_documents import TaskRecordDocument
from touchstone.step.lora import Lora, add_lora
from touchstone.step.optimizers import SGD, AdamW, Lion, Muon, Optimizer
from touchstone.step.record_step import Shape, record_step

OPTIMIZERS: dict[str, Optimizer] = {"adamw": AdamW(), "sgd": SGD(), "lion": Lion(), "muon": Muon()}


@dataclass(frozen=True)
class RecordedChoice:
    """What an operator records: the options of `touchstone task record`, which its help explains."""

    model: Path
    out: Path
    weights: bool
    seed: int
    sequences: int
    tokens: int
    numeric_format: str
    chunk_terms: str
    optimizer: str
    freeze: tuple[str, ...]
    lora: int | None
    lora_alpha: int | None
    lora_targets: str


def record_model(wanted: RecordedChoice) -> TaskRecordDocument:
    """Reads the model, records one step of it, and writes the folder that a task file names."""
    console, out = Console(), wanted.out
    if out.exists():
        raise _replaced_folder(out)
    if wanted.lora is not None and not wanted.weights:
        raise _untrained_base()
    model = read_published(wanted.model, wanted.weights, wanted.seed)
    if wanted.tokens > model.context_tokens:
        raise _rows_too_long(wanted, model)
    numeric_format = FORMAT_ALIASES.get(wanted.numeric_format, wanted.numeric_format)
    shape = Shape(wanted.sequences, wanted.tokens, numeric_format, int(wanted.chunk_terms))
    if wanted.lora is not None:
        targets = tuple(one for one in wanted.lora_targets.split(",") if one)
        add_lora(model.module, Lora(wanted.lora, wanted.lora_alpha or 2 * wanted.lora, targets))
    step = record_step(
        model.module,
        shape,
        optimizer=OPTIMIZERS[wanted.optimizer],
        is_frozen=lambda name: any(fnmatchcase(name, one) for one in wanted.freeze),
        config=model.config,
    )
    tokenizer = wanted.model / TOKENIZER_NAME
    if tokenizer.is_file():
        named = structs.replace(step.shape, tokenizer_sha256=hash_file(tokenizer))
        step = replace(step, shape=named)
    step.save(out)
    costs = measure_costs(step.built.program)
    console.notify(
        f"wrote {out}: {costs.parameters:,} parameters, {costs.nodes:,} nodes, "
        f"{costs.step_bytes / 1e6:,.0f} MB of memory besides states, largest proof {costs.proof_gas:,} gas"
    )
    console.notify(f"Next: touchstone task init --step {out} --dataset FOLDER")
    return TaskRecordDocument(str(out), costs.nodes, costs.parameters)


def _replaced_folder(out: Path) -> InvalidInput:
    return InvalidInput(
        what="the recorded step would replace a folder",
        expected="a new path",
        actual=str(out),
        remedy="Choose another --out.",
    )


def _untrained_base() -> InvalidInput:
    return InvalidInput(
        what="adapters on a model that nobody trained",
        expected="--lora with --weights",
        actual="--lora alone",
        remedy="Name a folder with weights and add --weights, or leave --lora out.",
    )


def _rows_too_long(wanted: RecordedChoice, model: PublishedModel) -> InvalidInput:
    return InvalidInput(
        what="rows are longer than the model's context",
        expected=f"--tokens of at most {model.context_tokens}",
        actual=wanted.tokens,
        remedy="Take shorter rows.",
    )
