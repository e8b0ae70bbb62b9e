"""Parts of a world's cast."""

from node import round_solver
from protocol.actions.runtime.joining import SeatWish
from protocol.spec.game.enums import SeatRole
from tests.e2e_rounds.world import Part
from verifier import round_verifier
from whistleblower import round_watcher

SOLVER = Part(round_solver.ROOMS, SeatWish(SeatRole.SOLVER))
VERIFIER = Part(round_verifier.ROOMS, SeatWish(SeatRole.VERIFIER))
WATCHER = Part(round_watcher.ROOMS, SeatWish(SeatRole.WHISTLEBLOWER))


def make_cast(solvers: int, verifiers: int, watchers: int) -> dict[str, Part]:
    """So many honest parties of each role, by name."""
    cast = {f"solver {i}": SOLVER for i in range(solvers)}
    cast |= {f"verifier {i}": VERIFIER for i in range(verifiers)}
    return cast | {f"watcher {i}": WATCHER for i in range(watchers)}
