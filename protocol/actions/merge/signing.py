"""Merge signatures: asked of the round's other solvers, and given to them.

A solver signs what it merged itself, once no claim of the round is undecided, and no set that lacks an
accepted claim whose pseudo-gradient it has. Signing several sets is no fault; the first majority on the chain
decides. The merge is in the journal before it is signed.
"""

import asyncio
import logging

from protocol.actions.merge.book import MergeKey
from protocol.actions.merge.judging import find_merge_set
from protocol.actions.merge.messages import MERGE, AskMerge, MergeAnswer, ask_peer, read_message
from protocol.actions.merge.outer_step import get_root, is_on_chain, make_statement
from protocol.actions.merge.places import find_own_slot, list_open_solvers
from protocol.actions.merge.records import MergeMade
from protocol.actions.merge.work import is_fetched
from protocol.actions.runtime.party import Party
from protocol.adapters.signing import recover_signer, sign_statement
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.posting import get_waiting_round
from protocol.spec.game.state import GameRound

ANSWER_S = 5.0
"""A solver has this long to sign; it is asked again."""
NUMBER_MASK = 0xFFFF
"""Of a seat's id: its number within its role."""

log = logging.getLogger(__name__)


# --- Giving -------------------------------------------------------------------------------------------------
async def answer_merge(party: Party, account: str, body: bytes) -> MergeAnswer:
    """This node's signature of a merge. Raises EnvironmentFault while it cannot sign it, ProtocolFault where
    it never will."""
    asked = read_message(AskMerge, body, account)
    game_round = _require_waiting(party, asked)
    key = MergeKey(asked.round, asked.base_root, asked.slots, asked.claim_roots)
    if not is_on_chain(game_round, key):
        raise _refuse("claims of the round in shard order", "others", account)
    if account not in {seat.account for seat in list_open_solvers(party.game, game_round)}:
        raise _refuse("a solver of the round", account, account)
    _require_accepted(party, game_round, key.slots)
    made = party.task.claims.merges.get(key)
    if made is None:
        party.task.claims.wanted.add(key)
        party.wake()
        raise _not_yet("this node's own merge of these claims", "not computed yet")
    if get_root(made) != asked.root:
        raise _refuse(get_root(made).hex(), asked.root.hex(), account)
    return MergeAnswer(sign_merge(party, made))


def sign_merge(party: Party, made: MergeMade) -> bytes:
    """This node's signature of its own merge."""
    return sign_statement(party.config.key, make_statement(party.task.domain, made), party.signing)


def _require_waiting(party: Party, asked: AskMerge) -> GameRound:
    if party.joined is None or asked.task != party.task.task:
        raise _not_yet("a task that this node works on", asked.task.hex())
    state = get_state_at(party.game, party.state.head_block + 1)
    game_round = get_waiting_round(state)
    is_it = game_round is not None and (game_round.index, game_round.base_root) == (
        asked.round,
        asked.base_root,
    )
    if game_round is None or not is_it or game_round.beacon is None:
        raise _not_yet(f"round {asked.round}, closed and without a root", "another")
    if find_own_slot(state, game_round, party.account) is None:
        raise _not_yet("a solver seat of this node in the round", "none")
    return game_round


def _require_accepted(party: Party, game_round: GameRound, slots: tuple[int, ...]) -> None:
    """Raises EnvironmentFault where a claim is not accepted as far as this node knows, one is left out that
    is and that it has, or one is undecided: a signature that is given before could be kept, and used to
    leave out what is accepted later."""
    chosen = find_merge_set(party, game_round, party.state.head_block + 1)
    known = chosen.slots
    if not set(slots) <= set(known):
        raise _not_yet(f"claims that are accepted: slots {known}", f"slots {slots}")
    if not chosen.is_final:
        raise _not_yet("no undecided claim", "one at least")
    left_out = [slot for slot in known if slot not in slots and is_fetched(party, game_round, slot)]
    if left_out:
        raise _not_yet(f"every accepted claim: slots {known}", f"slots {slots}")


def _not_yet(expected: str, actual: object) -> EnvironmentFault:
    return EnvironmentFault(
        what="the merge is not signed now",
        expected=expected,
        actual=actual,
        remedy="Ask again: votes or pseudo-gradients may be on their way.",
    )


def _refuse(expected: object, actual: object, account: str) -> ProtocolFault:
    return ProtocolFault(
        what="the merge is not what this node computed",
        expected=expected,
        actual=actual,
        culprit=account,
        remedy="Merge the claims of the chain anew.",
    )


# --- Asking -------------------------------------------------------------------------------------------------
def is_majority(party: Party, game_round: GameRound, count: int) -> bool:
    """Whether so many signatures are more than half of the round's solver seats that are not convicted."""
    return 2 * count > len(list_open_solvers(party.game, game_round))


async def gather_signatures(party: Party, game_round: GameRound, made: MergeMade) -> dict[int, bytes]:
    """Signatures of a merge by the number of their seat: the own one, and those of other solvers. It ends
    with a majority, or when all were asked: a solver that does not answer holds up none of the others."""
    seats = {seat.number & NUMBER_MASK: seat.account for seat in list_open_solvers(party.game, game_round)}
    kept = party.task.claims.signatures.setdefault(_name(made), {})
    asking = [
        asyncio.create_task(_keep(party, number, account, made, kept))
        for number, account in seats.items()
        if number not in kept
    ]
    try:
        for done in asyncio.as_completed(asking):
            await done
            if is_majority(party, game_round, len(kept.keys() & seats)):
                break
    finally:
        for task in asking:
            task.cancel()
    return {number: signature for number, signature in kept.items() if number in seats}


async def _keep(party: Party, number: int, account: str, made: MergeMade, kept: dict[int, bytes]) -> None:
    signature = await _ask(party, account, made)
    if signature is not None:
        kept[number] = signature


def _name(made: MergeMade) -> MergeKey:
    return MergeKey(made.round, made.base_root, made.slots, made.claim_roots)


async def _ask(party: Party, account: str, made: MergeMade) -> bytes | None:
    """The signature of a solver; None where it gives none now."""
    if account == party.account:
        return sign_merge(party, made)
    try:
        peer = party.state.network.find(account)
        async with asyncio.timeout(ANSWER_S):
            question = AskMerge(party.task.task, *_name(made), get_root(made))
            said = await ask_peer(party, peer, MERGE, question, MergeAnswer)
        statement = make_statement(party.task.domain, made)
        signer = recover_signer(statement, said.signature, party.signing, account)
    except (ProtocolFault, EnvironmentFault, TimeoutError) as fault:
        log.info("%s: %s", account, fault)
        return None
    return said.signature if signer == account else None
