"""Computes the outer step over a set of claims, and finds the model that a base root stands for.

A node fetches the pseudo-gradients of a round as soon as the round is closed. It computes the outer step from
their bytes, keeps it in the store, and writes it down. It merges all claims before the votes are in: if all
claims are accepted, that merge is the one that is posted.

The node checks the model behind a base root by its own merge, if it can make one. An honest node whose own
merge differs from the posted root contests that root and does not train on it.

The merge of all claims is a prediction: if it is wrong, only time is lost.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.duty import Duty
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.claim_openings import ClaimData, is_fetched
from touchstone.node.models.expected_merge import get_root, is_on_chain, list_open, make_key
from touchstone.node.models.global_model import (
    GlobalModel,
)
from touchstone.node.records.claim_records import ClaimBook, MergeKey, MergeMade
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.compute.digest import outer_header
from touchstone.protocol.compute.outer.nesterov_step import OuterState, merge
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.state_headers import OuterHeader

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FetchDelta:
    """Bring the pseudo-gradient of a claim into the store."""

    round: int
    slot: int
    claim_root: bytes

    async def perform(self, room: "OuterSteps") -> None:
        """Fetches a pseudo-gradient from its solver, or from another peer that has it."""
        await room.claim_data.fetch_delta(room.get_view().game.rounds[self.round], self.slot)


@dataclass(frozen=True)
class MergeClaims:
    """Compute the outer step over these claims of a round."""

    key: MergeKey

    async def perform(self, room: "OuterSteps") -> None:
        """Computes it, once."""
        await room.merge_claims(self.key)


@dataclass(frozen=True)
class OuterSteps:
    """Computes the outer step over claims, and finds the model behind a base root."""

    get_view: GetView
    claims: ClaimBook
    pruning_memory: PruningMemory
    locks: Locks
    claim_data: ClaimData
    model: GlobalModel

    async def merge_claims(self, key: MergeKey) -> MergeMade:
        """Returns the outer step over these claims: it is computed, kept in the store, and written down the
        first time. If the store lacks it later, it is computed again, since a contest of its root needs it.
        Raises EnvironmentFault or ProtocolFault if the bytes are not available."""
        async with self.locks["merge", key]:
            book = self.claims
            if key not in book.merges or not _is_kept(self.get_view(), book.merges[key]):
                header = await asyncio.to_thread(self.model.keep_outer, await self.compute_merge(key))
                self.pruning_memory.merged = key
                self._note(key, header)
            return book.merges[key]

    async def name_merge(self, key: MergeKey) -> MergeMade:
        """Returns the result of the outer step over these claims, and writes it down. The store does not keep
        the tensors: if the merge is posted, it is computed again. Raises as `merge_claims` does."""
        async with self.locks["merge", key]:
            if key not in self.claims.merges:
                after = await self.compute_merge(key)
                self._note(key, await asyncio.to_thread(outer_header, after.weights, after.momentum))
            return self.claims.merges[key]

    async def compute_merge(self, key: MergeKey) -> OuterState:
        """Returns the outer state after a merge. Raises as `merge_claims` does."""
        view = self.get_view()
        game_round, terms = require_round(view, key), view.spec.terms
        deltas = [await self.claim_data.fetch_delta(game_round, slot) for slot in key.slots]
        before = await self.model.load_outer_state(await self.model.load_outer(key.base_root))
        return await asyncio.to_thread(merge, before, deltas, terms.outer_learning_rate, terms.outer_momentum)

    def _note(self, key: MergeKey, header: OuterHeader) -> None:
        if key not in self.claims.merges:
            record = MergeMade(self.get_view().task, *key, header.weights_root, header.momentum_root)
            self.claims.write(record)

    async def load_base(self, root: bytes) -> OuterHeader:
        """Returns the outer header behind the base root of a round, its weights in the store. Raises
        ProtocolFault if this node's own merge comes to another root, EnvironmentFault if nothing is
        available."""
        await self.check_base(root)
        header = await self.model.load_outer(root)
        await self.model.load_weights(header)
        return header

    async def check_base(self, root: bytes) -> None:
        """Merges what was posted as `root`, if its claims are available. Raises ProtocolFault if that comes
        to another root."""
        posted = find_posted(self.get_view().game, root)
        if posted is None:
            return
        try:
            made = await self.merge_claims(make_key(posted, posted.merged))
        except EnvironmentFault as fault:
            log.info("round %s cannot be merged here: %s", posted.index, fault)
            return
        if get_root(made) != root:
            raise ProtocolFault(
                what="a posted root is not the merge of its claims",
                expected=get_root(made).hex(),
                actual=root.hex(),
                where=f"round {posted.index}",
                remedy="It is contested; nothing is trained on it.",
            )


def list_duties(view: View, block: int) -> Iterator[Duty[OuterSteps]]:
    """Yields the missing pseudo-gradients of the closed round, and its merge as if all claims were
    accepted."""
    state = get_state_at(view.game, block)
    game_round = get_waiting_round(state)
    if game_round is None or game_round.beacon is None:
        return
    hopeful = list_open(state, game_round, block)
    missing = [slot for slot in hopeful if not is_fetched(view, game_round, slot)]
    yield from (FetchDelta(game_round.index, s, game_round.claims[s].claim_root) for s in missing)
    key = make_key(game_round, hopeful)
    if hopeful and not missing and key not in view.claims.merges:
        yield MergeClaims(key)


def _is_kept(view: View, made: MergeMade) -> bool:
    count = view.spec.terms.parameter_count
    return all(
        view.stored.has_blob(refer_tensor(root, count)) for root in (made.weights_root, made.momentum_root)
    )


def require_round(view: View, key: MergeKey) -> GameRound:
    """Returns the round of a merge. Raises EnvironmentFault if the chain has another one now."""
    game_round = view.game.rounds.get(key.round)
    is_there = game_round is not None and game_round.base_root == key.base_root
    if game_round is None or not is_there or not is_on_chain(game_round, key):
        raise EnvironmentFault(
            what="the claims of a merge are not on the chain any more",
            expected=f"{len(key.slots)} claims of round {key.round}",
            actual="others",
            remedy="Nothing is lost: what is on the chain is merged.",
        )
    return game_round


def find_posted(state: GameState, root: bytes) -> GameRound | None:
    """Returns the newest round whose posted root this is; None for the root that the task begins with."""
    posted = [r for r in state.rounds.values() if r.phase == RoundPhase.POSTED and r.root == root]
    return max(posted, key=lambda game_round: game_round.index, default=None)


def find_oldest(state: GameState) -> tuple[int, bytes]:
    """Returns the oldest round that the chain has not forgotten, and the root that it starts from. If all are
    forgotten, returns the next round. The chain forgets an epoch once nothing in it can change any more, so
    this root is final."""
    index = min(state.rounds, default=state.next_round)
    return index, state.rounds[index].base_root if index in state.rounds else state.root
