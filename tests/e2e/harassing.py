"""A party that opens whatever it can against honest statements and proves nothing."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.e2e.roles import SOLVER
from tests.e2e.world import Part
from tests.kit.views import view_of
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.party import Party
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.adapters.store.blobs import refer_state
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.open_questions import count_open_disputes
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower import dispute_duties as disputes
from touchstone.whistleblower.known_statements import (
    find_accused,
    get_inner,
    is_disputable,
    list_provable_rounds,
    sign_form,
)
from touchstone.whistleblower.prosecuting import demand
from touchstone.whistleblower.queries import OpenQuery, ask


@dataclass(frozen=True)
class Harass:
    """Dispute a claim on a segment, or a vote."""

    ref: StatementRef
    segment: int
    signature: bytes = b""

    async def perform(self, party: Party) -> None:
        known = find_signed(party, self)
        accused = find_accused(party.game, self.ref, known)
        assert accused is not None
        bond = party.game.terms.amounts.dispute_bond * (1 + count_open_disputes(party.game, accused.number))
        async with party.task.locks["credit", None]:
            await party.chain.deposit_missing(bond)
            disputes, task, salt = party.chain.disputes, party.task.task, secrets.token_bytes(32)
            if known is None:
                await disputes.dispute_claim(task, self.ref.round, self.ref.slot, self.segment, bond, salt)
            else:
                await disputes.dispute_vote(task, sign_form(known.vote, known.signature), bond, salt)


@dataclass(frozen=True)
class Ask:
    """Ask for the first leaf of a vote's ends."""

    doubt: OpenQuery

    async def perform(self, party: Party) -> None:
        await ask(party, self.doubt)


@dataclass(frozen=True)
class Press:
    """Name the first step; then demand leaves of what everybody could have."""

    name: bytes
    stage: DisputeStage

    async def perform(self, party: Party) -> None:
        dispute = get_inner(view_of(party)).disputes[self.name]
        if dispute.stage == DisputeStage.NAME:
            await party.chain.disputes.name_step(party.task.task, dispute.name, 0, dispute.roots)
        elif dispute.stage == DisputeStage.PROVE:
            await demand(party, dispute, None)


def find_signed(party: Party, harass: Harass) -> KnownVote | None:
    votes = party.task.audits.known.list_votes(harass.ref.round) if harass.signature else ()
    return next((one for one in votes if one.signature == harass.signature), None)


def list_harassment(party: Party, block: int) -> Iterator[Duty]:
    """In round 0 one dispute of each claim and of each primary's vote, and one ask of each of these."""
    mine = [one for one in get_inner(view_of(party)).disputes.values() if one.opener == party.account]
    asked = [one.statement for one in get_inner(view_of(party)).asks.values() if one.asker == party.account]
    for game_round in list_provable_rounds(party.game, block):
        if game_round.index > 0:
            continue
        for slot in game_round.claims:
            harass = Harass(StatementRef(0, slot), 1)
            accused = find_accused(party.game, harass.ref, None)
            is_new = all(one.statement != harass.ref for one in mine)
            if is_new and is_disputable(party.game, harass.ref, accused, party.account, block):
                yield harass
        for known in party.task.audits.known.list_votes(0):
            if known.ref.rank > 0 or known.ref.draw == party.game.terms.draws:
                continue
            accused = find_accused(party.game, known.ref, known)
            is_open = is_disputable(party.game, known.ref, accused, party.account, block)
            if is_open and all(one.statement != known.ref for one in mine):
                yield Harass(known.ref, known.vote.segment, known.signature)
            is_askable = known.vote.word == VoteWord.ACCEPT and not party.game.terms.is_exact
            if is_open and is_askable and known.ref not in asked:
                yield Ask(OpenQuery(known.ref, known.signature, 0))
    for dispute in mine:
        if dispute.stage in (DisputeStage.NAME, DisputeStage.PROVE):
            yield Press(dispute.name, dispute.stage)


def make_forgetful() -> Part:
    """An honest solver that has to train a disputed segment again: once the claims of a round are decided it
    keeps boundary 0 alone, as a node short of disk does."""
    forgotten: set[int] = set()

    def forget_states(party: Party, block: int) -> Iterator[Duty]:
        for index, game_round in party.game.rounds.items():
            if game_round.phase == RoundPhase.RUNNING or index in forgotten or game_round.beacon is None:
                continue
            boundaries = party.task.claims.find(game_round).boundaries
            if boundaries:
                forgotten.add(index)
                _forget(party, boundaries)
        yield from ()

    return Part((forget_states, *SOLVER.rooms), SeatRequest(SeatRole.SOLVER))


def _forget(party: Party, boundaries: Mapping[int, StateHeader]) -> None:
    kept = {ref.key for ref in refer_state(boundaries[0], 1)}
    for header in boundaries.values():
        for ref in refer_state(header, 1):
            if ref.key not in kept:
                party.store.delete(ref.key)


ROOMS = [room for room in SOLVER.rooms if room is not disputes.list_duties]
HARASSER = Part((*ROOMS, list_harassment), SeatRequest(SeatRole.SOLVER))
