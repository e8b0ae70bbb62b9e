"""Hands in votes, and posts the outer root with them.

Every solver can do it, so they take turns: if one does not send, the next in line does. Votes go in together
with the root if a root can be posted. They go in alone if nothing can be merged, if they decide only about
pay, if they are too many for one transaction, or if their time is nearly over.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.loop_signals import NotifyLoop
from touchstone.node.kit.view import GetView, View
from touchstone.node.merging.merge_signing import MergeSigning
from touchstone.node.merging.turns import FAR, get_margin, rotate, take_turn
from touchstone.node.models.claim_openings import is_fetched
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.models.outer_step import OuterSteps
from touchstone.node.models.round_judging import MergeSet, find_merge_set, is_majority, judge_round
from touchstone.node.records.claim_records import ClaimBook, MergeKey
from touchstone.node.records.round_seats import find_own_slot
from touchstone.protocol.adapters.chain.call_parts import count_fitting, fits
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.claim_status import is_draw_over
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.root_posting import get_post_window, get_waiting_round
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import get_votes_from

WITHHELD_DIVISOR = 2
"""While more than `post` divided by this is left, the node waits for missing pseudo-gradients. Then it merges
without their claims."""


POLL_S = 0.2
"""Seconds between two rounds of requests for signatures."""


@dataclass(frozen=True)
class PostMerge:
    """Post the outer root that merges these claims, with the votes that accept them."""

    key: MergeKey

    async def perform(self, room: "Posting") -> None:
        """Merges, asks for signatures until there is a majority or a new block, and sends root and votes."""
        game_round = room.get_view().game.rounds[self.key.round]
        made, head = await room.outer_steps.merge_claims(self.key), room.get_view().head_block
        signatures = await room.merge_signing.gather_signatures(game_round, made)
        while (
            not is_majority(room.get_view(), game_round, len(signatures))
            and room.get_view().head_block == head
        ):
            await asyncio.sleep(POLL_S)
            signatures = await room.merge_signing.gather_signatures(game_round, made)
        if not is_majority(room.get_view(), game_round, len(signatures)):
            raise _make_lonely(len(signatures))
        chosen = find_merge_set(room.get_view(), game_round, room.get_view().head_block + 1)
        await room.send_post(replace(chosen, slots=self.key.slots), get_root(made), signatures)


@dataclass(frozen=True)
class Posting:
    """Hands in votes, and posts the root of a merge."""

    get_view: GetView
    chain: GameChain
    claims: ClaimBook
    notify_loop: NotifyLoop
    merge_signing: MergeSigning
    outer_steps: OuterSteps

    async def send_post(self, chosen: MergeSet, root: bytes, signatures: dict[int, bytes]) -> None:
        """Posts a root with its votes. Votes that do not fit into the same transaction are handed in before
        it, by turns."""
        merged = sum(1 << slot for slot in chosen.slots)
        signers = sum(1 << number for number in signatures)
        signed = b"".join(signatures[number] for number in sorted(signatures))
        where, words = (self.get_view().task, chosen.game_round.index), (merged, root, signers, signed)
        if not chosen.votes and not chosen.late:
            await self.chain.game.post(*where, *words)
            return
        arguments = (*where, list(chosen.votes), list(chosen.late), *words)
        if count_votes(chosen) > 1 and not await fits(self.chain.game, "judge_and_post", arguments):
            self.claims.fitting[chosen.game_round.index] = count_votes(chosen) // 2
            self.notify_loop()
            return
        await self.chain.game.judge_and_post(*arguments)


def count_votes(chosen: MergeSet) -> int:
    """Returns how many votes must be handed in with the root."""
    return len(chosen.votes) + len(chosen.late)


def _do_fit(view: View, chosen: MergeSet) -> bool:
    """Returns whether all votes may fit into the transaction of the root, as far as this node has tried."""
    return count_votes(chosen) <= view.claims.fitting.get(chosen.game_round.index, FAR)


def _make_lonely(count: int) -> EnvironmentFault:
    return EnvironmentFault(
        what="too few solvers have signed the merge",
        expected="more than half of those that are not convicted",
        actual=count,
        remedy="The node asks again. Without a majority the round keeps the base root.",
    )


@dataclass(frozen=True)
class HandVotes:
    """Hand in votes of a round that count now, as many as fit. `count` is how many there are."""

    round: int
    count: int

    async def perform(self, room: "Posting") -> None:
        """Hands in the votes."""
        view = room.get_view()
        block = view.head_block + 1
        votes = judge_round(view, get_state_at(view.game, block), self.round, block).votes
        if not votes:
            return
        chain, where = room.chain.game, (view.task, self.round)
        count = await count_fitting(chain, "judge", votes, lambda some: (*where, list(some)))
        receipt = await chain.judge(*where, list(votes[:count]))
        if not any(event.name in ("VotesCounted", "VotesOpened") for event in receipt.events):
            raise EnvironmentFault(
                what="none of the votes that were handed in counted",
                expected=f"{count} votes of round {self.round}",
                actual="none of them",
                remedy="Another node was faster, or a reorg made them void: it is tried again later.",
            )


def list_duties(view: View, block: int) -> Iterator[Duty[Posting] | Wait]:
    """Yields the duties to post the root that a round waits for, and to hand in votes without a root."""
    state = get_state_at(view.game, block)
    waiting = get_waiting_round(state)
    if waiting is not None and waiting.beacon is not None:
        yield from _list_post(view, state, waiting, block)
    for game_round in state.rounds.values():
        if game_round.seed is not None and game_round.phase != RoundPhase.UNDONE:
            yield from _list_votes(view, state, game_round, block, waiting)


def _list_post(
    view: View, state: GameState, game_round: GameRound, block: int
) -> Iterator[Duty[Posting] | Wait]:
    """Yields the duty to post the root, once it is clear which claims are merged and while a root can be
    posted."""
    chosen, last = find_merge_set(view, game_round, block), get_post_window(state, game_round, block)[1]
    if not chosen.is_final or not chosen.slots or block > last:
        return
    if find_own_slot(state, game_round, view.account) is None or not _do_fit(view, chosen):
        return
    slots, without = choose_slots(view, chosen), last - state.terms.windows.post // WITHHELD_DIVISOR
    if slots != chosen.slots and block < without:
        yield Wait(without)
    elif slots:
        key = make_key(game_round, slots)
        yield from take_turn(view, game_round, key, block, PostMerge(key), last)


def choose_slots(view: View, chosen: MergeSet) -> tuple[int, ...]:
    """Returns the slots of accepted claims whose pseudo-gradients this node has. If a solver shows its own to
    auditors only, the other claims are merged without it."""
    return tuple(slot for slot in chosen.slots if is_fetched(view, chosen.game_round, slot))


def _list_votes(
    view: View, state: GameState, game_round: GameRound, block: int, waiting: GameRound | None
) -> Iterator[Duty[Posting] | Wait]:
    """Yields the duty to hand in votes without a root. It is due if no root will be posted with them and they
    decide all draws, if they are too many for the root's transaction, or if their time is nearly over."""
    judged = judge_round(view, state, game_round.index, block)
    if not judged.votes:
        return
    duty = HandVotes(game_round.index, len(judged.votes))
    is_taken = waiting is not None and waiting.index in (game_round.index, game_round.index + 1)
    are_many = False
    if is_taken and waiting is not None:
        chosen = find_merge_set(view, waiting, block)
        are_many = chosen.is_final and not _do_fit(view, chosen)
        is_taken = not are_many and (bool(chosen.slots) or not chosen.is_final)
    after = judged.state.rounds[game_round.index]
    draws = list_draws(judged.state, after)
    is_done = all(is_draw_over(judged.state, after, slot, draw, block) for slot, draw in draws)
    deadline = _get_deadline(state, game_round, block)
    if block >= deadline:
        yield rotate(view, game_round, deadline, block, duty)
    elif are_many or (is_done and not is_taken):
        since = view.claims.seen.setdefault((game_round.index, HandVotes), block)
        yield rotate(view, game_round, since, block, duty)
    else:
        yield Wait(deadline)


def _get_deadline(state: GameState, game_round: GameRound, block: int) -> int:
    """Returns the block from which this node hands in votes that nobody has handed in. It lies shortly before
    the block after which the votes are worth less."""
    audit_max, margin = state.terms.windows.audit_max, get_margin(state)
    starts = {get_votes_from(state, game_round, draw) for _, draw in list_draws(state, game_round)}
    ends = [start + k * audit_max for start in starts if start is not None for k in (1, 2, 3)]
    return min((end - margin for end in ends if end >= block), default=block)
