"""A node names the step that it judged to be false, also where the claimant shows nothing any more."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.views import rooms_of, view_of
from tests.node.merging.stage import TASK, open_stage
from tests.protocol.spec.game.world import make_word
from touchstone.node.models.own_openings import get_finished
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.dispute_records import CLAIM, DisputePlanned, DisputeRecords
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
        party, slot = stage.parties[1], stage.get_slot(1)
        header, steps = get_finished(view_of(party), 0).boundaries[0], party.task.spec.terms.segment_steps
        shown = ClaimOpenings({0: BoundaryProof(header, bytes(32), ())})
        room = SimpleNamespace(book=AuditBook(party.journal, TASK))
        known = SimpleNamespace(book=room.book, get_openings=lambda index, at: shown)
        audits: Any = SimpleNamespace(room=room, known=known)
        party.joined = replace(party.task, cases=DisputeRecords(party.journal, TASK), audits=audits)
        false_step = steps - 1

        async def silent(*_: Any) -> Any:
            raise EnvironmentFault(what="not shown", expected="", actual="", remedy="")

        monkeypatch.setattr(StepJudging, "ask_headers", silent)
        # Another machine's roots: right up to the false step, and none of them this machine's.
        roots = (compute_state_root(header), *(make_word("other hardware", at) for at in range(steps)))
        before, after = roots[false_step : false_step + 2] if is_posted else (b"a" * 32, b"b" * 32)
        place = (TASK, 0, slot, CLAIM, 0, 0)
        party.task.cases._index(DisputePlanned(*place, b"", false_step, before, after, bytes(32)))
        seat = party.game.rounds[0].claims[slot].seat
        dispute = InnerDispute(
            b"d" * 32, seat, StatementRef(0, slot), 0, party.account, party.state.head_block + 1, roots=roots
        )
        assert await rooms_of(party).step_judging.find_step(dispute) == (false_step if is_posted else 0)
