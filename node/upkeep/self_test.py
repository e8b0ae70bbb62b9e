"""Tests after an update of code, libraries, processor or device whether this machine computes the same bits.

A node defends a pruned round by training it again. With other bits that fails, and silence in a dispute costs
the seat. So the first start after an update computes known results again: one step of the task from its first
weights, a segment of the newest claim, and one of the newest replay, if both ends are on disk. If one
differs, the operator is told, and older statements are kept whole until nobody can question them. A claim
that was not sent yet is trained anew, because no machine could defend one with two kinds of bits. If the
operator brings the earlier versions back, it is told again only if the node stated something meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from touchstone.node.kit.config import Notify, describe_machine
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.global_model import GlobalModel, get_initial_header
from touchstone.node.models.start_weights import require_start_here
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.round_seats import find_own_slot
from touchstone.node.training.claims import Training
from touchstone.node.training.segments import Segments
from touchstone.protocol.adapters.machine.determinism_fingerprint import (
    DeterminismFingerprint,
    read_bits,
    write_bits,
)
from touchstone.protocol.compute.batches import Corpus, get_batch, prepare_steps
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.pools import find_seat

WARNING = (
    "this machine computes other bits than before the last update. Claims and votes made before it cannot be "
    "computed again here: what this node still has of them is kept as long as somebody may ask about it. It "
    "cannot answer for what was pruned. Bring back the earlier versions of Touchstone, torch, numpy and "
    "Python, or the earlier machine or device."
)
UNTESTED = (
    "this machine is not the one of the last run; whether it computes the same bits cannot be tested now. "
    "The node goes on, because it has a seat already. The next start tests again."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SelfTest:
    """Tests whether this machine computes the bits of the last run. `catch_up` folds the chain's events until
    the newest folded block is recent."""

    get_view: GetView
    catch_up: Callable[[], Awaitable[None]]
    states: StateStore
    claims: ClaimBook
    cases: DisputeRecords
    pruning_memory: PruningMemory
    corpus: Corpus
    notify: Notify
    home: Path
    model: GlobalModel
    segments: Segments
    training: Training

    async def check_bits(self) -> None:
        """Tests this machine if it differs from that of this home's last run on the joined task, and
        remembers it. Raises EnvironmentFault if nobody serves the test's data. A node with a seat only warns
        then, and goes on as if its bits were different, because silence in a dispute would cost its stake.
        Its next start tests again."""
        name, home = self.get_view().task.hex(), self.home
        machine = describe_machine()
        before = read_bits(home).get(name)
        if before is None or before.machine != machine:
            # Until then the round of a claim that is on the chain may seem not to be open yet.
            await self.catch_up()
            try:
                found = await self._test(machine, before)
            except EnvironmentFault as fault:
                if find_seat(self.get_view().game, self.get_view().account) is None:
                    raise
                self.notify(f"WARNING: {UNTESTED} {fault}")
                self._drop_untold()
                self.pruning_memory.unlike_until = find_last_stated(self.get_view())
                return
            await asyncio.to_thread(write_bits, home, read_bits(home) | {name: found})
            before = found
        self.pruning_memory.unlike_until = before.unlike_until

    async def _test(self, machine: str, before: DeterminismFingerprint | None) -> DeterminismFingerprint:
        require_start_here(self.get_view())
        step_root = await self._compute_step_root()
        found = [
            await asyncio.to_thread(test) for test in (self.compute_known_segment, self.compute_known_replay)
        ]
        unlike_until = -1 if before is None else before.unlike_until
        is_step_same = before is None or step_root == before.step_root
        if not is_step_same or False in found:
            self._drop_untold()
        last = find_last_stated(self.get_view())
        # If the earlier bits are back, statements between the two updates have other bits.
        is_back = before is not None and step_root == before.former_root and last <= unlike_until
        if not (is_step_same or is_back) or False in found:
            unlike_until = max(unlike_until, last)
            self.notify(WARNING)
            log.error("%s", WARNING)
        elif before is not None:
            changed = "Touchstone, torch, numpy, Python, processor or device"
            self.notify(f"{changed} has changed: the self-test computed the same bits")
        former_root = before.step_root if before is not None and before.step_root != step_root else ""
        return DeterminismFingerprint(machine, step_root, unlike_until, former_root)

    async def _compute_step_root(self) -> str:
        """Returns the root of the state after one step from the task's first weights, on data drawn by a
        fixed hash."""
        training = self.get_view().spec.training
        weights = await self.model.load_weights(get_initial_header(self.get_view()))
        batches = partial(get_batch, self.corpus, training, bytes(32), 0)
        train = self.cases.compute.train
        await prepare_steps(self.corpus, training, bytes(32), 0, (0,))
        state, _ = await asyncio.to_thread(train, begin_round(weights, 0), training, batches, 0, 1)
        return compute_state_root(await asyncio.to_thread(state_header, state)).hex()

    def compute_known_segment(self) -> bool | None:
        """Returns whether a segment of the newest claim with its start on disk still gives the end in the
        journal. None if there is none."""
        view = self.get_view()
        for index, game_round in sorted(view.game.rounds.items(), reverse=True):
            slot = find_own_slot(view.game, game_round, view.account)
            if slot is None or game_round.beacon is None:
                continue
            boundaries = self.claims.find(game_round).boundaries
            for segment, start in sorted(boundaries.items()):
                if segment + 1 in boundaries and self.states.has(start):
                    *_, end = self.segments.iterate_states((index, slot), segment, start)
                    return state_header(end) == boundaries[segment + 1]
        return None

    def compute_known_replay(self) -> bool | None:
        """Returns whether the newest audited segment with both ends on disk still gives the end that this
        node sealed. None if there is none."""
        view = self.get_view()
        for place, made in sorted(view.audits.book.seals.items(), key=lambda item: -item[0].round):
            start = made.start.header
            if place.round in view.game.rounds and self.states.has(start) and self.states.has(made.own_end):
                *_, end = self.segments.iterate_states((place.round, place.slot), made.sealed.segment, start)
                return state_header(end) == made.own_end
        return None

    def _drop_untold(self) -> None:
        """Begins claims anew that were trained with other bits and not committed to: unfinished ones, and
        those of rounds that are not open yet. A finished one may be on its way to the chain."""
        for (index, basis), work in list(self.claims.works.items()):
            if work.boundaries and (work.finished is None or index >= self.get_view().game.next_round):
                self.training.begin_anew(index, basis)


def find_last_stated(view: View) -> int:
    """Returns the last round of which this node has a claim or an audit; -1 if there is none."""
    claimed = [index for (index, _), work in view.claims.works.items() if work.boundaries]
    audited = [place.round for place in view.audits.book.seals]
    return max([*claimed, *audited], default=-1)
