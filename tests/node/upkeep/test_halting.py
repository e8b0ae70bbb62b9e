"""When a submitter's node halts its task: only if asked to, and only once no model gets better."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tests.kit.nodes import get_lines, get_sent
from tests.node.merging.stage import open_stage
from touchstone.node.records.claim_records import HeldoutReported
from touchstone.node.upkeep.halting import HaltTask, list_duties
from touchstone.protocol.spec.signed_reports import HeldoutReport


def measure(node: Any, *losses: float) -> None:
    """The node has measured these losses, from the start on."""
    game = node.game
    for number, loss in enumerate(losses):
        root = game.terms.root if number == 0 else bytes([number]) * 32
        report = HeldoutReport(game.terms.domain, number, root, 4, round(loss * 1e6), 10_000)
        node.rooms.tools.claims.write(HeldoutReported(node.task.task, report, bytes(64)))
        if number and number - 1 in game.rounds:
            rounds = game.rounds | {number - 1: replace(game.rounds[number - 1], root=root)}
            node.state.games[node.task.task] = game = cast(Any, replace(game, rounds=rounds))


async def test_a_task_is_halted_once_as_many_rounds_brought_no_better_model(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        measure(node, 5.0, 4.0, 4.1)
        view, block = node.get_view(), node.state.head_block + 1
        assert list(list_duties(0, view, block)) == [] and list(list_duties(2, view, block)) == []
        assert list(list_duties(1, view, block)) == [HaltTask(1)]
        await HaltTask(1).perform(node.rooms.halting)
        assert [name for name, _ in get_sent(node)] == ["game.halt"]
        assert "no better model for 1 rounds" in get_lines(node)[-1]
        node.state.games[node.task.task] = cast(Any, replace(node.game, is_halted=True))
        assert list(list_duties(1, node.get_view(), block)) == []


async def test_a_task_whose_last_round_is_open_needs_no_halt(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, rounds=1) as stage:
        node = stage.nodes[1]
        measure(node, 5.0, 5.1)
        assert list(list_duties(1, node.get_view(), node.state.head_block + 1)) == []
