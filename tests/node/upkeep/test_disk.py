"""How much a node keeps while fifty rounds are played: two rounds whole, one start a round behind them."""

from pathlib import Path

from tests.node.upkeep.stage import SEGMENTS, TENSOR_BYTES, Node
from tests.protocol.spec.game.simulation import Simulation, make_world
from touchstone.node.kit.retention_windows import is_answerable, is_contestable
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES

ROUNDS = 50
WARM_ROUNDS = 20
"""More than fit into the longest window."""


def compute_bound_bytes(world: Simulation) -> int:
    """What the decision says that a solver keeps at most."""
    state, block = world.get_now(), world.block - REORG_BLOCKS
    solvers = len(state.seats)
    answerable = sum(is_answerable(state, one, block) for one in state.rounds.values())
    contestable = sum(is_contestable(state, one, block) for one in state.rounds.values())
    whole = 2 * (SEGMENTS + 1) * 3 * TENSOR_BYTES
    start, outer = 3 * TENSOR_BYTES + DELTA_LEAF_BYTES, 2 * TENSOR_BYTES + solvers * DELTA_LEAF_BYTES
    shown = 2 * 7 * TENSOR_BYTES
    """Ends of audited segments and final weights of two older rounds."""
    return whole + shown + answerable * start + (contestable + 4) * outer


def test_the_disk_of_a_solver_is_flat_over_fifty_rounds(tmp_path: Path) -> None:
    """Each claim has a late audit; moments are carried over."""
    world, node = make_world(rounds=ROUNDS, late_chance=1 << 16), Node("solver0", tmp_path / "blobs")
    most, unpruned = dict[int, int](), ROUNDS * (SEGMENTS + 1) * 3 * TENSOR_BYTES

    def watch(played: Simulation) -> bool:
        node.live(played)
        size, index = node.measure_bytes(), played.state.next_round
        assert size <= compute_bound_bytes(played), played.block
        most[index] = max(most.get(index, 0), size)
        return False

    world.play(until=watch)
    first = max(size for index, size in most.items() if WARM_ROUNDS <= index < ROUNDS // 2 + 10)
    second = max(size for index, size in most.items() if ROUNDS // 2 + 10 <= index <= ROUNDS)
    assert max(most) == ROUNDS and second <= 1.1 * first < unpruned / 3
    print(f"at most {max(most.values())} bytes of {unpruned}; at the end {node.measure_bytes()}")
    # The last model with its momentum; the states that all is over for are gone.
    world.jump(world.block + 10_000)
    node.prune(world.get_now(), world.block)
    assert node.measure_bytes() <= 2 * TENSOR_BYTES
