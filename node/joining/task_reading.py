"""Reads a task from the chain, and refuses a harmful one."""

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.models.start_weights import compute_start_bytes
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.compute.program.costs import ProgramCosts
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.money_rules import check_money
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.game.terms import DeploymentBounds, GameTerms
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.params import FORMAT_NUMBERS
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.protocol.spec.training_codec import decode_training


def read_spec(state: ChainState, task: bytes) -> TaskSpec:
    """Returns the spec of a task as its submitter posted it."""
    if task not in state.games:
        known = ", ".join(f"0x{name.hex()}" for name in state.games) or "none"
        raise InvalidInput(
            what="unknown task" if task not in state.refused else "the task cannot be understood",
            expected=f"a task of this deployment: {known}",
            actual=state.refused.get(task, f"0x{task.hex()}"),
            remedy="Copy the id from `touchstone status`, or ask the task's submitter for it.",
        )
    return make_spec(state.task_terms[task], decode_training(state.texts[task]))


def refuse_harmful(
    terms: GameTerms, spec: TaskSpec, figures: Figures | None, bounds: DeploymentBounds
) -> None:
    """Raises InvalidInput if the task could hurt an honest node: with windows that no node can meet, roots
    that do not fit its text, or amounts that do not pay."""
    refusal = check_terms(terms, bounds)
    if refusal is not None:
        raise refusal
    refuse_broken(find_training_malformations(spec))
    broken = [r for r in check_money(terms, figures) if not (r.holds or r.is_advice)] if figures else []
    if broken:
        raise InvalidInput(
            what="the amounts of the task break rules that protect its members",
            expected="; ".join(f"{rule.name} >= {rule.least}: {rule.inequality}" for rule in broken),
            actual="; ".join(f"{rule.name} {rule.amount}" for rule in broken),
            remedy="Do not stake on it, or change your figures ([economics] in config.toml).",
        )


def require_format(posted: int, spec: TaskSpec) -> None:
    """Raises InvalidInput if the contracts expect another numeric format than the program computes in. If
    they expect equal bits of an inexact program, honest ends differ, and an honest opener of a dispute loses
    its bond."""
    expected = FORMAT_NUMBERS[spec.training.numeric_format]
    if posted != expected:
        raise InvalidInput(
            what="the task's terms name another numeric format than its text",
            expected=f"{expected} ({spec.training.numeric_format})",
            actual=posted,
            remedy="Do not stake on it; its submitter has to post a corrected task.",
        )


def compute_dataset_bytes(training: TrainingSpec) -> int:
    """Returns the length of the dataset in bytes."""
    return (training.token_count + training.heldout_tokens) * training.token_bytes


def compute_task_bytes(training: TrainingSpec, costs: ProgramCosts) -> int:
    """Returns how many bytes a task takes on each node's disk: the dataset, starting weights, and the
    step."""
    step_bytes = training.program.size_bytes + training.layout.size_bytes + costs.constant_bytes
    return compute_dataset_bytes(training) + compute_start_bytes(training, costs.parameters) + step_bytes


def refer_dataset(training: TrainingSpec) -> BlobRef:
    """Returns the blob of a task's dataset."""
    return BlobRef(BlobKey(BlobKind.DATASET, training.dataset_root), compute_dataset_bytes(training))
