"""Parts of a world's cast."""

from collections.abc import Iterable
from typing import Any

from tests.e2e.world import Part
from touchstone.demo.parts import get_lister
from touchstone.node.defending import defence
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.duty import Room
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.roles.role_nodes import Solver, Verifier, Whistleblower
from touchstone.whistleblower import challenging

SOLVER = Part(Solver, SeatRequest(SeatRole.SOLVER))
VERIFIER = Part(Verifier, SeatRequest(SeatRole.VERIFIER))
WATCHER = Part(Whistleblower, SeatRequest(SeatRole.WHISTLEBLOWER))
DISPUTES = (defence.list_duties, challenging.next_actions)
"""What lists all that a node does in disputes and queries."""


def make_cast(solvers: int, verifiers: int, watchers: int) -> dict[str, Part]:
    """So many honest parties of each role, by name."""
    cast = {f"solver {i}": SOLVER for i in range(solvers)}
    cast |= {f"verifier {i}": VERIFIER for i in range(verifiers)}
    return cast | {f"watcher {i}": WATCHER for i in range(watchers)}


def leave_out(rooms: Iterable[Room[Any]], *listers: Any) -> list[Room[Any]]:
    """The rooms but those whose duties one of `listers` lists. Raises LookupError where one of these lists
    none: a cheat would be honest."""
    kept = list(rooms)
    for lister in listers:
        others = [room for room in kept if get_lister(room) is not lister]
        if len(others) == len(kept):
            raise LookupError(f"no room whose duties {lister.__module__}.{lister.__qualname__} lists")
        kept = others
    return kept
