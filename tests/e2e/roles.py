"""Parts of a world's cast."""

from tests.e2e.world import Part
from touchstone.node import solver
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.verifier import verifier
from touchstone.whistleblower import watcher

SOLVER = Part(solver.ROOMS, SeatRequest(SeatRole.SOLVER))
VERIFIER = Part(verifier.ROOMS, SeatRequest(SeatRole.VERIFIER))
WATCHER = Part(watcher.ROOMS, SeatRequest(SeatRole.WHISTLEBLOWER))


def make_cast(solvers: int, verifiers: int, watchers: int) -> dict[str, Part]:
    """So many honest parties of each role, by name."""
    cast = {f"solver {i}": SOLVER for i in range(solvers)}
    cast |= {f"verifier {i}": VERIFIER for i in range(verifiers)}
    return cast | {f"watcher {i}": WATCHER for i in range(watchers)}
