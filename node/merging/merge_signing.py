"""Asks the round's solvers to sign this node's merge, and computes merges that peers ask for."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.locks import Locks
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.signer import Signer
from touchstone.node.kit.view import GetView, View
from touchstone.node.merging.merge_requests import MergeRequests, find_missing
from touchstone.node.models.claim_openings import ClaimData
from touchstone.node.models.expected_merge import get_root, is_on_chain, make_statement
from touchstone.node.models.global_model import MERGE, AskMerge, MergeAnswer, make_form
from touchstone.node.models.outer_step import OuterSteps, require_round
from touchstone.node.models.round_judging import find_merge_set, is_majority
from touchstone.node.records.claim_records import ClaimBook, MergeKey, MergeMade
from touchstone.node.records.round_seats import list_open_solvers
from touchstone.protocol.adapters.keys.signatures import recover_signer
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound

log = logging.getLogger(__name__)


ANSWER_S = 5.0
"""Seconds that a solver has to sign. After that it is asked again."""


NUMBER_MASK = 0xFFFF
"""Masks the seat number out of a seat's id."""


@dataclass(frozen=True)
class MergeSigning:
    """Gathers the other solvers' signatures of a merge."""

    get_view: GetView
    peers: Peers
    claims: ClaimBook
    locks: Locks
    signer: Signer
    claim_data: ClaimData
    merge_requests: MergeRequests
    outer_steps: OuterSteps

    async def gather_signatures(self, game_round: GameRound, made: MergeMade) -> dict[int, bytes]:
        """Returns the signatures of a merge by seat number: this node's own, and those of other solvers. It
        ends with a majority, or when all were asked. Solvers are asked at once, so a silent one delays no
        other."""
        seats = {
            seat.number & NUMBER_MASK: seat.account
            for seat in list_open_solvers(self.get_view().game, game_round)
        }
        kept = self.claims.signatures.setdefault(_name(made), {})
        asking = [
            asyncio.create_task(self._keep(number, account, made, kept))
            for number, account in seats.items()
            if number not in kept
        ]
        try:
            for done in asyncio.as_completed(asking):
                await done
                if is_majority(self.get_view(), game_round, len(kept.keys() & seats)):
                    break
        finally:
            for task in asking:
                task.cancel()
        return {number: signature for number, signature in kept.items() if number in seats}

    async def _keep(self, number: int, account: str, made: MergeMade, kept: dict[int, bytes]) -> None:
        signature = await self._ask(account, made)
        if signature is not None:
            kept[number] = signature

    async def _ask(self, account: str, made: MergeMade) -> bytes | None:
        """Returns the signature of a solver; None if it does not sign now."""
        try:
            if account == self.get_view().account:
                return await self.merge_requests.sign_merge(made)
            peer = self.get_view().chain_state.network.find(account)
            async with asyncio.timeout(ANSWER_S):
                question = AskMerge(self.get_view().task, *_name(made), get_root(made))
                said = await self.peers.ask(peer, MERGE, question, make_form(MergeAnswer))
            statement = make_statement(self.get_view().domain, made)
            signer = recover_signer(statement, said.signature, self.signer.domain, account)
        except (ProtocolFault, EnvironmentFault, TimeoutError) as fault:
            log.info("%s: %s", account, fault)
            return None
        return said.signature if signer == account else None


def _name(made: MergeMade) -> MergeKey:
    return MergeKey(made.round, made.base_root, made.slots, made.claim_roots)


@dataclass(frozen=True)
class NameMerge:
    """Compute a merge that another solver asked this node to sign."""

    key: MergeKey

    async def perform(self, room: "MergeSigning") -> None:
        """Fetches the data first, so that a slow peer delays no other merge. Then computes the merge, if it
        would still be signed. Raises EnvironmentFault or ProtocolFault if the data is not available."""
        game_round = require_round(room.get_view(), self.key)
        for slot in self.key.slots:
            await room.claim_data.have_delta(game_round, slot)
        async with room.locks["asked merge", None]:
            if self.key in _list_signable(room.get_view(), room.get_view().head_block + 1):
                await room.outer_steps.name_merge(self.key)


def list_duties(view: View, block: int) -> Iterator[NameMerge]:
    """Yields the merges that others asked for and this node would sign."""
    yield from (NameMerge(key) for key in _list_signable(view, block))


def _list_signable(view: View, block: int) -> list[MergeKey]:
    book, game_round = view.claims, _find_round(view, block)
    asked = dict.fromkeys(key for key in book.wanted.by_account.values() if key not in book.merges)
    if not asked or game_round is None:
        return []
    chosen = find_merge_set(view, game_round, block)
    found = [key for key in asked if is_on_chain(game_round, key)]
    return [key for key in found if find_missing(view, chosen, key.slots) is None]


def _find_round(view: View, block: int) -> GameRound | None:
    """Returns the waiting round; None if none waits, or its shards are not assigned."""
    game_round = get_waiting_round(get_state_at(view.game, block))
    return None if game_round is None or game_round.beacon is None else game_round
