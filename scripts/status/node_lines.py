"""Shows what a home's node wrote of its own health, even while the chain is silent."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from touchstone.protocol.adapters.reports.node_state import FULL_DISK_BYTES, NodeState, describe_node_state
from touchstone.scripts.documents.overview_documents import IssueFacts, NodeFacts


def list_node_lines(node: NodeState | None, home: Path, now_s: float) -> Iterator[str]:
    """Yields lines on the node's report about itself, and on what it could not write because its disk is
    full; none if no node has run."""
    if node is not None:
        yield from describe_node_state(node, now_s)
    free_bytes = shutil.disk_usage(home).free
    if free_bytes < FULL_DISK_BYTES:
        yield f"WARNING: the disk of this home is full: {free_bytes / 1e6:,.0f} MB free"


def describe_node(node: NodeState | None, now_s: float) -> NodeFacts | None:
    """Returns the node's report as `--json` writes it."""
    if node is None:
        return None
    return NodeFacts(
        running=node.is_running(now_s),
        end=node.end,
        started_s=node.started_s,
        seen_s=node.seen_s,
        block=node.head_block,
        restarts=node.restarts,
        kills=node.kills,
        health_issues=[IssueFacts(one.kind, one.since_s, one.said) for one in node.health_issues],
        model=node.model,
        model_warning=node.model_warning,
    )
