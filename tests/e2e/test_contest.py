"""A majority of solvers signs a wrong root: it is contested, falls, costs their seats, the task goes on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tests.e2e.own_roots import compute_roots
from tests.e2e.roles import SOLVER, make_cast
from tests.e2e.world import TINY_PLAN, open_world, run_world
from touchstone.node.kit.stored_tensors import load_tensor
from touchstone.node.loop.node import Node
from touchstone.node.records.claim_records import MergeMade
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.compute.digest import tensor_bytes, tensor_root
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus

PLAN = replace(TINY_PLAN, least_solvers=1)
SPOILED_ELEMENT = 700


def spoil_first_merge(node: Node) -> None:
    """From now on this party's outer step of round 0 is wrong in one element, and it believes in it."""
    book = node.rooms.tools.claims
    write = book.write

    def spoil(record: Any) -> None:
        if isinstance(record, MergeMade) and record.round == 0:
            ref = refer_tensor(record.weights_root, node.task.spec.terms.parameter_count)
            weights = torch.clone(load_tensor(node.store, ref))
            weights[SPOILED_ELEMENT] += 1.0
            record = replace(record, weights_root=tensor_root(weights))
            node.store.put_tensor(record.weights_root, tensor_bytes(weights))
        write(record)

    book.write = spoil  # type: ignore[method-assign]


async def test_a_wrong_root_falls_and_its_signers_lose_their_seats(tmp_path: Path) -> None:
    cheats = {f"cheat {i}": replace(SOLVER, spoil=spoil_first_merge) for i in range(2)}
    cast = {**make_cast(solvers=1, verifiers=3, watchers=3), **cheats}
    async with open_world(tmp_path, tuple(cast)) as world:
        game, task = await run_world(world, PLAN, cast)
        first, undone, last = game.rounds.values()
        assert game.is_closed
        assert (first.phase, undone.phase, last.phase) == (
            RoundPhase.POSTED,
            RoundPhase.UNDONE,
            RoundPhase.POSTED,
        )
        everybody = {**game.former, **game.seats}.values()
        convicted = [seat for seat in everybody if seat.status == SeatStatus.CONVICTED]
        assert {seat.account for seat in convicted} == {world.keys[name].address.lower() for name in cheats}
        right, *_ = compute_roots(task, [first], left_out=[seat.number for seat in convicted])
        assert first.root == right and last.base_root == right and first.fallen is not None
