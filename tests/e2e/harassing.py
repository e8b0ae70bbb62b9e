"""A party that opens whatever it can against honest statements and proves nothing."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.e2e.roles import DISPUTES, SOLVER, leave_out
from tests.e2e.world import Part
from touchstone.node.kit.duty import Duty, Room
from touchstone.node.kit.known_statements import (
    find_accused,
    get_inner,
    is_disputable,
    list_provable_rounds,
    sign_form,
)
from touchstone.node.kit.view import View
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.adapters.store.blobs import refer_state
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.open_questions import count_open_disputes
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower.query_opening import PlannedQuery


@dataclass(frozen=True)
class Harass:
    """Dispute a claim on a segment, or a vote."""

    ref: StatementRef
    segment: int
    signature: bytes = b""

    async def perform(self, node: Member) -> None:
        game, known = node.game, find_signed(node.get_view(), self)
        accused = find_accused(game, self.ref, known)
        assert accused is not None
        bond = game.terms.amounts.dispute_bond * (1 + count_open_disputes(game, accused.number))
        async with node.rooms.tools.locks["credit", None]:
            await node.chain.deposit_missing(bond)
            disputes, task, salt = node.chain.game, node.task.task, secrets.token_bytes(32)
            if known is None:
                await disputes.dispute_claim(task, self.ref.round, self.ref.slot, self.segment, bond, salt)
            else:
                await disputes.dispute_vote(task, sign_form(known.vote, known.signature), bond, salt)


@dataclass(frozen=True)
class Ask:
    """Ask for the first leaf of a vote's ends."""

    query: PlannedQuery

    async def perform(self, node: Member) -> None:
        await node.list_challenges().queries.ask(self.query)


@dataclass(frozen=True)
class Press:
    """Name the first step; then demand leaves of what everybody could have."""

    name: bytes
    stage: DisputeStage

    async def perform(self, node: Member) -> None:
        dispute = get_inner(node.get_view()).disputes[self.name]
        if dispute.stage == DisputeStage.NAME:
            await node.chain.game.name_step(node.task.task, dispute.name, 0, dispute.roots)
        elif dispute.stage == DisputeStage.PROVE:
            await node.list_challenges().prosecuting.demand(dispute, None)


def find_signed(view: View, harass: Harass) -> KnownVote | None:
    votes = view.audits.list_votes(harass.ref.round) if harass.signature else ()
    return next((one for one in votes if one.signature == harass.signature), None)


def list_harassment(view: View, block: int) -> Iterator[Duty[Member]]:
    """In round 0 one dispute of each claim and of each primary's vote, and one ask of each of these."""
    mine = [one for one in get_inner(view).disputes.values() if one.opener == view.account]
    asked = [one.statement for one in get_inner(view).queries.values() if one.asker == view.account]
    for game_round in list_provable_rounds(view.game, block):
        if game_round.index > 0:
            continue
        for slot in game_round.claims:
            harass = Harass(StatementRef(0, slot), 1)
            accused = find_accused(view.game, harass.ref, None)
            is_new = all(one.statement != harass.ref for one in mine)
            if is_new and is_disputable(view.game, harass.ref, accused, view.account, block):
                yield harass
        for known in view.audits.list_votes(0):
            if known.ref.rank > 0 or known.ref.draw == view.game.terms.draws:
                continue
            accused = find_accused(view.game, known.ref, known)
            is_open = is_disputable(view.game, known.ref, accused, view.account, block)
            if is_open and all(one.statement != known.ref for one in mine):
                yield Harass(known.ref, known.vote.segment, known.signature)
            is_askable = known.vote.word == VoteWord.ACCEPT and not view.game.terms.is_exact
            if is_open and is_askable and known.ref not in asked:
                yield Ask(PlannedQuery(known.ref, known.signature, 0))
    for dispute in mine:
        if dispute.stage in (DisputeStage.NAME, DisputeStage.PROVE):
            yield Press(dispute.name, dispute.stage)


def make_forgetful() -> Part:
    """An honest solver that has to train a disputed segment again: once the claims of a round are decided it
    keeps boundary 0 alone, as a node short of disk does."""
    forgotten: set[int] = set()

    def forget_states(node: Member, view: View, block: int) -> Iterator[Duty[Member]]:
        for index, game_round in view.game.rounds.items():
            if game_round.phase == RoundPhase.RUNNING or index in forgotten or game_round.beacon is None:
                continue
            boundaries = view.claims.find(game_round).boundaries
            if boundaries:
                forgotten.add(index)
                _forget(node, boundaries)
        yield from ()

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        return (Room(partial(forget_states, node), node), *node.list_rooms())

    return replace(SOLVER, list_rooms=list_rooms)


def _forget(node: Member, boundaries: Mapping[int, StateHeader]) -> None:
    kept = {ref.key for ref in refer_state(boundaries[0], 1)}
    for header in boundaries.values():
        for ref in refer_state(header, 1):
            if ref.key not in kept:
                node.store.delete(ref.key)


def _list_rooms(node: Member) -> Sequence[Room[Any]]:
    return (*leave_out(node.list_rooms(), *DISPUTES), Room(list_harassment, node))


HARASSER = replace(SOLVER, list_rooms=_list_rooms)
