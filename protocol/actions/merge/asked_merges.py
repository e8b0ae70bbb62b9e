"""Merges that other solvers ask this node to sign, and that it has not computed for itself.

A solver may withhold its pseudo-gradient from some, so the set that it is asked about may be another than the
node's own. Each set that a node would sign now is computed once, one at a time. What it is merged from the
node has from then on, so it signs no smaller set any more: there are no more such merges in a round than the
round has claims. The journal keeps what each comes to, and the store keeps nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from protocol.actions.merge.merge_records import MergeKey
from protocol.actions.merge.merge_signing import find_merge_set, find_missing
from protocol.actions.merge.outer_step import is_on_chain, name_merge, require_round
from protocol.actions.merge.work import have_delta
from protocol.actions.runtime.party import Party
from protocol.spec.game.deciding import get_waiting_round
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.state import GameRound


@dataclass(frozen=True)
class NameMerge:
    """Find out what a merge comes to that another solver asked to sign."""

    key: MergeKey

    async def perform(self, party: Party) -> None:
        """Fetch first: a peer that shows its bytes slowly holds up no other merge. Compute it unless it would
        not be signed any more. Raises EnvironmentFault or ProtocolFault where the bytes cannot be had."""
        game_round = require_round(party, self.key)
        for slot in self.key.slots:
            await have_delta(party, game_round, slot)
        async with party.task.locks["asked merge", None]:
            if self.key in _list_signable(party, party.state.head_block + 1):
                await name_merge(party, self.key)


def list_duties(party: Party, block: int) -> Iterator[NameMerge]:
    """What others asked for, and this node would sign."""
    yield from (NameMerge(key) for key in _list_signable(party, block))


def _list_signable(party: Party, block: int) -> list[MergeKey]:
    book, game_round = party.task.claims, _find_round(party, block)
    asked = dict.fromkeys(key for key in book.wanted.by_account.values() if key not in book.merges)
    if not asked or game_round is None:
        return []
    chosen = find_merge_set(party, game_round, block)
    found = [key for key in asked if is_on_chain(game_round, key)]
    return [key for key in found if find_missing(party, chosen, key.slots) is None]


def _find_round(party: Party, block: int) -> GameRound | None:
    """The waiting round; None where none waits, or its shards are not dealt."""
    game_round = get_waiting_round(get_state_at(party.game, block))
    return None if game_round is None or game_round.beacon is None else game_round
