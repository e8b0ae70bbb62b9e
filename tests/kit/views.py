"""Views of nodes, and of what stands for a node in a test."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from touchstone.node.kit.view import View
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.known_audits import KnownAudits
from touchstone.protocol.adapters.journal import Journal

WHERE = {
    "account": "account",
    "task": "task.task",
    "domain": "task.domain",
    "spec": "task.spec",
    "found_game": "game",
    "head_block": "state.head_block",
    "chain_state": "state",
    "claims": "task.claims",
    "audits": "task.audits.known",
    "cases": "task.cases",
    "pruning": "task.pruning",
}
"""Field of a view -> where a node has it."""


class Standin(SimpleNamespace):
    """What stands for a node in a test: it has what the test gives it, and a view of that."""

    @property
    def view(self) -> View:
        return view_of(self)


def view_of(node: Any) -> View:
    """Returns what a decision may look at now; nothing in the place of what a stand-in does not have."""
    return View(**{one.name: _find(node, WHERE[one.name]) for one in fields(View)})


def _find(node: Any, path: str) -> Any:
    for name in path.split("."):
        node = getattr(node, name, None)
    return node


def make_audits(journal: Journal, task: bytes) -> Any:
    """Returns what stands for the audits of a node that serves none: what its journal has."""
    book = AuditBook(journal, task)
    return SimpleNamespace(room=SimpleNamespace(book=book), known=KnownAudits(book, None))
