"""Parts of a world's cast."""

from node import solver
from protocol.actions.runtime.joining import SeatWish
from protocol.spec.game.state import SeatRole
from tests.e2e.world import Part
from verifier import verifier
from whistleblower import watcher

SOLVER = Part(solver.ROOMS, SeatWish(SeatRole.SOLVER))
VERIFIER = Part(verifier.ROOMS, SeatWish(SeatRole.VERIFIER))
WATCHER = Part(watcher.ROOMS, SeatWish(SeatRole.WHISTLEBLOWER))


def make_cast(solvers: int, verifiers: int, watchers: int) -> dict[str, Part]:
    """So many honest parties of each role, by name."""
    cast = {f"solver {i}": SOLVER for i in range(solvers)}
    cast |= {f"verifier {i}": VERIFIER for i in range(verifiers)}
    return cast | {f"watcher {i}": WATCHER for i in range(watchers)}
