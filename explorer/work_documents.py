"""Makes rows of who trained what in a round, one for each claim."""

from collections.abc import Iterator
from typing import Any

from touchstone.explorer.task_documents import FLOPS_PER_WEIGHT_AND_TOKEN, to_hex

WORK_COLUMNS = (
    "task", "round", "account", "slot", "shard", "segments", "steps", "tokens", "flops", "status",
    "is_merged", "claim",
)  # fmt: skip


def list_work(
    task: bytes, number: int, document: dict[str, Any], training: dict[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """Yields who trained what in a round: a row for each claim, by WORK_COLUMNS. `document` is from
    `make_round`, `training` from `make_training`. FLOPs are an estimate, 6 for each weight and token."""
    for one in document["slots"]:
        if one["claim"] is None:
            continue
        figures = count_work(one["segments"], training)
        yield (
            to_hex(task), number, one["account"], one["slot"], one["shard"], one["segments"], *figures,
            one["status"], int(one["is_merged"]), one["claim"],
        )  # fmt: skip


def count_work(segments: int, training: dict[str, Any]) -> tuple[int, int, int]:
    """Returns the steps, tokens and FLOPs of some segments; none if the task has no description."""
    steps = segments * training.get("segment_steps", 0)
    tokens = steps * training.get("tokens_per_step", 0)
    return steps, tokens, FLOPS_PER_WEIGHT_AND_TOKEN * training.get("parameters", 0) * tokens
