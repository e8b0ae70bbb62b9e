"""Finds and deletes what no record needs any more on a node's disk."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from touchstone.node.kit.known_statements import get_inner, get_now
from touchstone.node.kit.retention_windows import PruningMemory, list_foreign, list_named, name_outer
from touchstone.node.kit.view import GetView
from touchstone.node.models.claim_openings import ClaimData
from touchstone.node.models.global_model import get_initial_header
from touchstone.node.training.speculation import find_possible
from touchstone.node.upkeep.retention import Books, list_unknown_works
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import TRACE_KINDS, BlobKey, BlobKind
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.timing import REORG_BLOCKS

STRAY_AUDITS = 2
"""A blob that no record names stays for this many `audit_max`, the longest that an audit lasts."""


PRUNED_KINDS = (BlobKind.TENSOR, BlobKind.DELTA, BlobKind.ROOTS, *sorted(TRACE_KINDS, key=str))
"""The kinds of blobs that may be deleted. A dataset stays."""


TRACED_KINDS = frozenset({BlobKind.ROOTS, *TRACE_KINDS})


@dataclass(frozen=True)
class Deletion:
    """Knows which blobs on the disk are needed: from the records, and by asking peers for the work leaves of
    their claims."""

    get_view: GetView
    journal: Journal
    pruning_memory: PruningMemory
    claim_data: ClaimData

    def open_books(self) -> Books:
        """Returns this node's own records, as retention needs them."""
        view, memory = self.get_view(), self.pruning_memory
        return Books(
            account=view.account,
            initial=get_initial_header(view),
            claims=view.claims,
            audits=view.audits.book,
            cases=view.cases,
            inner=get_inner(view),
            unlike_until=memory.unlike_until,
            begun=memory.begun,
            possible=find_possible(view, view.head_block + 1),
            merged=memory.merged,
            is_start_given=view.spec.training.is_start_given,
        )

    async def learn_foreign(self) -> None:
        """Finds the blobs that other tasks of this home name, once. While this node runs, no other one writes
        to its journal."""
        memory, task = self.pruning_memory, self.get_view().task
        if memory.foreign is None:
            memory.foreign = await asyncio.to_thread(list_foreign, self.journal, task)

    async def learn_works(self, here: Collection[BlobKey]) -> None:
        """Asks peers for the work leaves of their claims. After a restart only they tell which
        pseudo-gradient belongs to which claim."""
        unknown = list_unknown_works(get_now(self.get_view()), self.open_books(), self.get_view().head_block)
        if any(key.kind is BlobKind.DELTA for key in here):
            for game_round, slot in unknown:
                with suppress(EnvironmentFault, ProtocolFault, InvalidInput):
                    await self.claim_data.find_work(game_round, game_round.claims[slot])


def list_removable(
    state: GameState,
    books: Books,
    memory: PruningMemory,
    here: Collection[BlobKey],
    kept: Collection[BlobKey],
    block: int,
) -> list[BlobKey]:
    """Returns the blobs on this disk that are to be deleted. Notes strays in `memory`."""
    foreign = memory.foreign or frozenset()
    named = list_named(books.claims, books.audits) | set(name_outer(books.initial))
    free = [key for key in here if key not in kept and key not in foreign]
    strays = [key for key in free if key not in named]
    memory.strays = {key: memory.strays.get(key, block) for key in strays}
    since = block - STRAY_AUDITS * state.terms.windows.audit_max
    is_safe = _find_safe_kinds(state, books, block)
    old = {key for key in strays if memory.strays[key] < since and is_safe[key.kind] and not foreign}
    return [key for key in free if key in named or key in old]


def _find_safe_kinds(state: GameState, books: Books, block: int) -> dict[BlobKind, bool]:
    """Returns the kinds of which a stray may be deleted. No state or trace may while this node is in a
    dispute, and no pseudo-gradient while this node cannot identify those of a contestable root."""
    seat = find_seat(state, books.account)
    mine = {None if seat is None else seat.number, books.account}
    is_disputed = any(one.is_open and {one.seat, one.opener} & mine for one in books.inner.disputes.values())
    are_known = not list_unknown_works(state, books, block - REORG_BLOCKS)
    safe = dict.fromkeys(TRACED_KINDS, not is_disputed)
    return safe | {BlobKind.DELTA: are_known, BlobKind.TENSOR: not is_disputed}


def list_here(store: BlobStore) -> list[BlobKey]:
    """Lists the blobs on disk of the kinds that are pruned."""
    return [key for kind in PRUNED_KINDS for key in store.list_keys(kind)]


def delete_blobs(
    store: BlobStore, keys: Collection[BlobKey], list_used: Callable[[], Collection[BlobKey]]
) -> int:
    """Deletes these blobs, except those that came into use meanwhile. Returns the number of deleted bytes."""
    freed = 0
    for key in keys:
        if key in list_used():
            continue
        freed += store.get_size_bytes(key) or 0
        store.delete(key)
    return freed
