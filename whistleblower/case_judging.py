"""Judges a suspected fault by the claimant's own steps, before this node opens a dispute."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.config import Notify
from touchstone.node.kit.known_statements import (
    are_steps_shown,
    find_accused,
    find_vote,
    get_now,
    is_disputable,
    list_provable_rounds,
)
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.dispute_records import (
    NO_STEP,
    DisputeDropped,
    DisputePlanned,
    DisputeRecords,
    StatementKey,
    list_fields,
)
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.compute.tolerance.compare import Verdict
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.whistleblower.claimant_waiting import start_waiting
from touchstone.whistleblower.step_judging import (
    Claimed,
    StepJudging,
    find_false_step,
)
from touchstone.whistleblower.suspicions import SuspectedFault, format_place, list_suspected_faults

ASKED_SHARE = 6
"""A claimant has a sixth of `audit_max` to show its steps, besides the time to compute them."""


OPENING_BLOCKS = 12
"""Blocks reserved to open a dispute after another account's dispute has ended."""


def is_open(view: View, statement_key: StatementKey, block: int) -> bool:
    """Returns whether a statement can be disputed in `block`, so that its claimant must show its steps."""
    known = find_vote(view, statement_key)
    if statement_key.signature and known is None:
        return False
    accused = find_accused(get_now(view), statement_key.ref, known)
    return is_disputable(get_now(view), statement_key.ref, accused, view.account, block)


def list_unjudged(view: View, block: int) -> Iterator[SuspectedFault]:
    """Yields the suspicions that are not decided yet."""
    book = view.cases
    for game_round in list_provable_rounds(get_now(view), block):
        for found in list_suspected_faults(view, game_round.index):
            ref, segment = found.statement_key.ref, found.statement_key.segment
            is_new = found.statement_key not in book.cases and found.statement_key not in book.dropped
            are_shown = are_steps_shown(get_now(view), game_round, ref.slot, segment, block)
            if is_new and are_shown and is_open(view, found.statement_key, block):
                yield found


@dataclass(frozen=True)
class CaseJudging:
    """Judges suspected faults, and plans disputes."""

    get_view: GetView
    cases: DisputeRecords
    notify: Notify
    step_judging: StepJudging

    async def judge_case(self, found: SuspectedFault) -> None:
        """Judges the claimant's steps one by one. Writes down a planned dispute, or that there is no fault.
        Raises ProtocolFault or EnvironmentFault while the claimant shows no steps and still has time."""
        view = self.get_view()
        book, statement_key = self.cases, found.statement_key
        since = book.first_seen.setdefault(statement_key, view.head_block)
        until = since + compute_grace_blocks(view.game.terms) + 1
        try:
            step, around = await self._find_false_step(found, start_waiting(self.get_view(), until))
        except GateShut:
            raise
        except (ProtocolFault, EnvironmentFault):
            if self.get_view().head_block < until:
                raise
            step, around = NO_STEP, (b"", b"")
        name, fields = format_place(statement_key), list_fields(statement_key)
        if step is None:
            self.notify(
                f"{name}: each step is inside the limits, so the difference may be drift: not disputed"
            )
            book.write(DisputeDropped(self.get_view().task, *fields))
            return
        said = "the steps were not shown" if step == NO_STEP else f"step {step} lies beyond the limits"
        self.notify(f"{name}: {said}: to be disputed")
        book.write(DisputePlanned(self.get_view().task, *fields, step, *around, secrets.token_bytes(32)))

    async def _find_false_step(
        self, found: SuspectedFault, until: int
    ) -> tuple[int | None, tuple[bytes, bytes]]:
        """Returns the first false step (None if there is none), and the roots of the states around it.
        `until` is the block at which waiting for the claimant ends (`Claimed`)."""
        view = self.get_view()
        ref = found.statement_key.ref
        vote = find_vote(view, found.statement_key)
        accused = find_accused(get_now(view), ref, vote)
        assert accused is not None
        peer = view.chain_state.network.find(accused.account)
        claimed = Claimed(peer, ref.round, ref.slot, found.statement_key.segment, until)
        steps = view.spec.terms.segment_steps
        known = {step: root for step, root in zip((0, steps), found.ends, strict=True) if root}
        headers = await self.step_judging.ask_headers(claimed, known, None if all(found.ends) else vote)
        _require_other(claimed, found, compute_state_root(headers[-1]))
        verdicts: list[Verdict] = []
        await self.step_judging.judge_steps(claimed, headers, verdicts)
        step = find_false_step(verdicts)
        if step is None:
            return None, (b"", b"")
        return step, (compute_state_root(headers[step]), compute_state_root(headers[step + 1]))


def compute_grace_blocks(terms: GameTerms) -> int:
    """Returns how many blocks a claimant has to show its steps before it is disputed without them. The
    slowest machine that the task admits can train the segment again in that time, even while it trains
    another one."""
    segment_blocks = -(-terms.windows.train_min // terms.segment_count)
    return terms.windows.audit_max // ASKED_SHARE + 2 * segment_blocks


def _require_other(claimed: Claimed, found: SuspectedFault, end: bytes) -> None:
    """Raises ProtocolFault if a vote rejects an end that its own steps come to."""
    if end == found.denied:
        raise ProtocolFault(
            what="a rejecting vote shows steps that end in the claimed state",
            expected="another state",
            actual=end.hex(),
            culprit=claimed.peer.account,
            remedy="Dispute the vote: its signer cannot post such roots on chain.",
        )
