"""Views and rooms of nodes, and of what stands for a node in a test."""

from dataclasses import fields
from functools import partial
from types import SimpleNamespace
from typing import Any, get_type_hints

from touchstone.node.kit.peers import Peers
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.view import View
from touchstone.node.loop.rooms import Rooms
from touchstone.node.models.start_weights import StartWeights
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.known_audits import KnownAudits
from touchstone.protocol.adapters.journal import Journal
from touchstone.whistleblower.challenge_rooms import ChallengeRooms
from touchstone.whistleblower.challenging import Challenging

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
TOOLS = {
    "claims": "task.claims",
    "cases": "task.cases",
    "pruning_memory": "task.pruning",
    "recompute_queue": "task.recompute_queue",
    "locks": "task.locks",
    "corpus": "task.corpus",
    "team": "task.team",
    "room": "task.audits.room",
    "use": "config.use",
    "home": "config.home",
    "is_wanted": "config.check_reach",
}
"""Field of a room -> where a node has it; others have the same name."""


class Standin(SimpleNamespace):
    """What stands for a node in a test: it has what the test gives it, and a view of that."""

    @property
    def view(self) -> View:
        return view_of(self)


class RoomsOf:
    """The rooms of a node, or of what stands for one: each gets what the node has."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        if name in ("states", "peers"):
            return self.get_tool(name)
        if name == "start":
            return getattr(self._node, "start", None) or StartWeights(
                self.get_tool("store"), self.get_tool("peers"), getattr(self._node, "notify", print)
            )
        if name == "defence":
            return SimpleNamespace(
                answers=self.dispute_answers, queries=self.query_answers, steps=self.step_serving
            )
        if name == "challenging":
            return Challenging(
                self.votes_on_chain, self.case_judging, self.dispute_opening, self.queries, self.step_judging,
                self.prosecuting, self.proof_calls, self.work_proofs,
            )  # fmt: skip
        made = getattr(Rooms, name, None) or getattr(ChallengeRooms, name)
        kind = get_type_hints(made.func)["return"]
        return kind(**{one.name: self.get_tool(one.name) for one in fields(kind)})

    def get_tool(self, name: str) -> Any:
        """What a field of a room is."""
        node = self._node
        if name == "get_view":
            return partial(view_of, node)
        if name == "states":
            return _make_states(node)
        if name == "peers":
            has = [getattr(node, one, None) for one in ("client", "state", "account")]
            return Peers(*has, _find(node, "task.task"))  # type: ignore[arg-type, call-arg]
        if name == "signer" and not hasattr(node, "signer"):
            return SimpleNamespace(sign=getattr(node, "sign", None), domain=getattr(node, "signing", None))
        if hasattr(Rooms, name) or hasattr(ChallengeRooms, name):
            return getattr(self, name)
        return _find(node, TOOLS.get(name, name))


def rooms_of(node: Any) -> Any:
    """Returns the rooms of a node, by their names."""
    real = getattr(node, "rooms", None)
    return RoomsOf(node) if not isinstance(real, Rooms) else _RealRooms(node)


class _RealRooms:
    """Rooms of an open node, those that challenge among them."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        if name in ("states", "peers"):
            return getattr(self._node.rooms.tools, name)
        if hasattr(Rooms, name):
            return getattr(self._node.rooms, name)
        return getattr(ChallengeRooms(self._node.rooms, self._node.task.audits.room), name)


def view_of(node: Any) -> View:
    """Returns what a decision may look at now; nothing in the place of what a stand-in does not have."""
    if isinstance(getattr(node, "rooms", None), Rooms):
        return node.get_view()  # type: ignore[no-any-return]
    found = {name: _find(node, path) for name, path in WHERE.items()}
    return View(**found, stored=_make_states(node))


def _make_states(node: Any) -> Any:
    store: Any = getattr(node, "store", None)
    return StateStore(store, _find(node, "task.spec.terms.parameter_count"))


def _find(node: Any, path: str) -> Any:
    for name in path.split("."):
        try:
            node = getattr(node, name, None)
        except KeyError:
            return None
    return node


def make_audits(journal: Journal, task: bytes) -> Any:
    """Returns what stands for the audits of a node that serves none: what its journal has."""
    book = AuditBook(journal, task)
    return SimpleNamespace(room=SimpleNamespace(book=book), known=KnownAudits(book, None))
