"""A node names the step that it judged to be false, also where the claimant shows nothing any more."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK, get_told
from tests.node.merging.stage import open_stage
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.dispute_records import CLAIM, DisputePlanned
from touchstone.node.records.heard_statements import ClaimOpenings
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.whistleblower.step_judging import StepJudging


@pytest.mark.parametrize("is_posted", [True, False])
async def test_the_step_that_was_judged_false_is_named_if_its_states_are_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_posted: bool
) -> None:
    """Going by roots alone would name step 0: on other hardware all of them differ from the own ones."""
    async with open_stage(tmp_path, 1) as stage:
        await stage.commit(1)
        node, slot = stage.nodes[1], stage.get_slot(1)
        header, steps = get_finished(node.get_view(), 0).boundaries[0], node.task.spec.terms.segment_steps
        get_told(node).openings[slot] = ClaimOpenings({0: BoundaryProof(header, bytes(32), ())})
        false_step = steps - 1

        async def silent(*_: Any) -> Any:
            raise EnvironmentFault(what="not shown", expected="", actual="", remedy="")

        monkeypatch.setattr(StepJudging, "ask_headers", silent)
        # Another machine's roots: right up to the false step, and none of them this machine's.
        roots = (compute_state_root(header), *(make_word("other hardware", at) for at in range(steps)))
        before, after = roots[false_step : false_step + 2] if is_posted else (b"a" * 32, b"b" * 32)
        place = (TASK, 0, slot, CLAIM, 0, 0)
        node.rooms.tools.cases._index(DisputePlanned(*place, b"", false_step, before, after, bytes(32)))
        seat = node.game.rounds[0].claims[slot].seat
        dispute = InnerDispute(
            b"d" * 32, seat, StatementRef(0, slot), 0, node.account, node.state.head_block + 1, roots=roots
        )
        assert await node.list_challenges().step_judging.find_step(dispute) == (
            false_step if is_posted else 0
        )
