"""What a node says of its work: how good the model is, what it owes first, and how many members there are."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tests.kit.nodes import get_account
from tests.node.merging.stage import Stage, open_stage
from touchstone.node.health.work_words import WorkWords, describe_view
from touchstone.node.records.claim_records import HeldoutReported
from touchstone.protocol.adapters.reports.node_state import End, NodeState, describe_node_state
from touchstone.protocol.spec.signed_reports import HeldoutReport


def measure(stage: Stage, *losses: float) -> None:
    """Node 1 has measured these losses, from the start on; round 0 has the root of the second."""
    node = stage.nodes[1]
    for number, loss in enumerate(losses):
        root = node.game.terms.root if number == 0 else bytes([number]) * 32
        report = HeldoutReport(node.game.terms.domain, number, root, 4, round(loss * 1e6), 20_000)
        node.rooms.tools.claims.write(HeldoutReported(node.task.task, report, bytes(64)))
    rounds = {0: replace(stage.world.state.rounds[0], root=bytes([1]) * 32)}
    stage.world.state = replace(stage.world.state, rounds=rounds)
    stage.sync()


async def test_a_submitter_is_warned_of_a_model_that_gets_worse_and_others_are_not(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        measure(stage, 5.86, 7.05)
        said = describe_view(node.get_view())
        assert said.model == "the model is at 7.05 and rising (5.86 before training)"
        assert not said.model_warning
        terms = replace(stage.world.state.terms, submitter=get_account(1))
        stage.world.state = cast(Any, replace(stage.world.state, terms=terms))
        stage.sync()
        said = describe_view(node.get_view())
        assert "the model gets worse" in said.model_warning
        state = NodeState(node.account, 1, int(time.time()), End.KILLED, 0, 0, None, 1, (), *said)
        lines = list(describe_node_state(state, time.time()))
        assert said.model in lines and f"WARNING: {said.model_warning}" in lines


async def test_the_nearest_duty_and_the_members_are_named(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2) as stage:
        terms = replace(stage.world.state.terms, submitter=get_account(2))
        stage.world.state = cast(Any, replace(stage.world.state, terms=terms))
        stage.sync()
        said = describe_view(stage.nodes[1].get_view())
        assert said.next_duty == "commit to the claim of this round"
        assert said.next_block > stage.world.block and said.peers == 1
        await stage.commit(1)
        assert describe_view(stage.nodes[1].get_view()).next_duty == ""
    assert describe_view(None) == WorkWords()
