"""`touchstone task check`: says whether a task file can be posted, and why its amounts are what they are."""

from math import isfinite
from pathlib import Path

from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.posting_documents import TaskCheckDocument, TrialDocument
from touchstone.scripts.tasks.task_creation import justify, notify_cost
from touchstone.scripts.tasks.task_file import read_task_file, sketch_terms
from touchstone.scripts.tasks.task_init import notify_tokenizer
from touchstone.scripts.tasks.terms_checks import describe_amounts
from touchstone.scripts.tasks.trial_training import describe_trial, try_training


def check_task(path: Path, preset: str | None = None, *, is_tried: bool = True) -> TaskCheckDocument:
    """Reads a task file as posting does, with all its starting weights, and shows why its amounts are what
    they are. `preset` is the chain's; if it is missing, the file's counts. With `is_tried` it trains a few
    steps, and warns of a rate that diverges. Raises InvalidInput if nodes would not stake on it."""
    file, console, root = read_task_file(path), Console(), ""
    rules = justify(file, BOUNDS[preset or file.preset], console)
    if file.weights is not None:
        root, folder = tensor_root(file.weights.read()).hex(), file.weights.folder
        console.notify(f"it begins with the weights in {folder}, whose root is {root}")
        notify_tokenizer(file, console)
    else:
        seed = file.plan.initial_seed
        console.notify(f"it begins with new weights, drawn from initial_seed {seed}, not with recorded ones")
    count, escrow_wei = file.plan.count_parameters(), compute_escrow(sketch_terms(file.plan))
    console.notify(f"{path} can be posted: {count:,} parameters")
    notify_cost(escrow_wei, console)
    trial = try_training(file) if is_tried else None
    if is_tried:
        console.notify(describe_trial(trial))
    console.notify(f"Next: touchstone task create --config {path}; it asks before it posts")
    amounts = describe_amounts(rules)
    tried = (
        None
        if trial is None
        else TrialDocument(len(trial.losses), trial.losses[0], _to_finite(trial.end), trial.is_diverging)
    )
    return TaskCheckDocument(str(path), count, file.plan.rounds, str(escrow_wei), root, amounts, tried)


def _to_finite(loss: float) -> float | None:
    return loss if isfinite(loss) else None
