"""The subcommand that records a step of a published model: `task record`.

Modules of one's own are recorded in Python (docs/step.md).
"""

import argparse
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import structs

from touchstone.node.exports.model_note import TOKENIZER_NAME, hash_file
from touchstone.node.exports.published_model import read_published
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import FORMAT_ALIASES
from touchstone.scripts.command_line.command_results import Document
from touchstone.scripts.command_line.console import Console
from touchstone.step.lora import Lora, add_lora
from touchstone.step.optimizers import SGD, AdamW, Lion, Muon, Optimizer
from touchstone.step.record_step import Shape, record_step

OPTIMIZERS: dict[str, Optimizer] = {"adamw": AdamW(), "sgd": SGD(), "lion": Lion(), "muon": Muon()}


def run_task_record(options: argparse.Namespace) -> Document:
    """Read the model, record one step of it, and write the folder that a task file names."""
    console, out = Console(), Path(options.out)
    if out.exists():
        raise InvalidInput(
            what="the recorded step would replace a folder",
            expected="a new path",
            actual=str(out),
            remedy="Choose another --out.",
        )
    if options.lora is not None and not options.weights:
        raise InvalidInput(
            what="adapters on a model that nobody trained",
            expected="--lora with --weights",
            actual="--lora alone",
            remedy="Name a folder with weights and add --weights, or leave --lora out.",
        )
    model = read_published(options.model, options.weights, options.seed)
    if options.tokens > model.context_tokens:
        raise InvalidInput(
            what="rows are longer than the model's context",
            expected=f"--tokens of at most {model.context_tokens}",
            actual=options.tokens,
            remedy="Take shorter rows.",
        )
    numeric_format = FORMAT_ALIASES.get(options.format, options.format)
    shape = Shape(options.sequences, options.tokens, numeric_format, int(options.chunk_terms))
    patterns = options.freeze or []
    if options.lora is not None:
        targets = tuple(one for one in options.lora_targets.split(",") if one)
        add_lora(model.module, Lora(options.lora, options.lora_alpha or 2 * options.lora, targets))
    step = record_step(
        model.module,
        shape,
        optimizer=OPTIMIZERS[options.optimizer],
        is_frozen=lambda name: any(fnmatchcase(name, one) for one in patterns),
        config=model.config,
    )
    tokenizer = Path(options.model) / TOKENIZER_NAME
    if tokenizer.is_file():
        named = structs.replace(step.shape, tokenizer_sha256=hash_file(tokenizer))
        step = replace(step, shape=named)
    step.save(out)
    costs = measure_costs(step.built.program)
    console.say(
        f"wrote {out}: {costs.parameters:,} parameters, {costs.nodes:,} nodes, "
        f"{costs.step_bytes / 1e6:,.0f} MB of memory beside states, dearest proof {costs.proof_gas:,} gas"
    )
    console.say(f"Next: touchstone task init --step {out} --dataset FOLDER")
    return {"folder": str(out), "parameters": costs.parameters, "nodes": costs.nodes}
