"""The disputes of a round: who accuses whom, and every move of the game up to the referee's word.

An honest party accuses whoever it knows to be wrong: an auditor the solver whose end is not what it replayed,
a solver the auditor who put its right claim beyond the limits, an auditor those who let a false segment of a
fallen claim through. A plot accuses without a reason, stops half-way, or does not defend itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from benchmarks.economy.ground import (
    FALSE_ELEMENT,
    FALSE_NODE,
    LAST_STEP,
    PRICED_STEPS,
    SEGMENTS,
    MarketClaims,
    Sentence,
    name_audit,
    name_claim,
    read_sentence,
    trace_step,
)
from protocol.spec import dispute_moves as moves
from protocol.spec.clock import NEVER
from protocol.spec.containers import TaskTerms
from protocol.spec.dispute import OPEN_STAGES, DisputeBook, DisputeState, count_queue, process_book_event
from protocol.spec.dispute_moves import Move
from protocol.spec.drawn import get_drawn
from protocol.spec.duties import list_audits_of
from protocol.spec.economics import TRACE_STEPS, is_bond_worth, is_conviction_worth
from protocol.spec.events import Event
from protocol.spec.hashing import sha256_of
from protocol.spec.params import DEFAULT_OWN_REPLAYS
from protocol.spec.pursuit import find_earliest_closing, is_in_time, is_pursued
from protocol.spec.round import (
    DrawKey,
    RoundState,
    get_audit,
    get_claim,
    get_opening,
    get_settle_block,
    get_slot,
    is_accepting,
)
from protocol.spec.settlement import REVEALED_STATUSES
from protocol.spec.statuses import AuditStatus, ClaimRef, ClaimStatus, Role, Stage
from protocol.spec.tolerance import Judgement
from tests.e2e.twin_chain import Sending
from tests.e2e.twin_step import make_facts, prove_node
from tests.e2e.twin_world import State

if TYPE_CHECKING:
    from benchmarks.economy.market import Player

REPLAY = Fraction(1, SEGMENTS)
TRACE = Fraction(TRACE_STEPS, SEGMENTS * PRICED_STEPS)
"""Compute of one replay and of one traced step, in rounds of a solver."""


@dataclass
class Accusation:
    """A dispute that somebody decided on. is_opened: its opening was sent."""

    opener: str
    claim: ClaimRef
    salt: bytes
    is_opened: bool = False

    @property
    def dispute(self) -> bytes:
        """Its id."""
        return moves.compute_opening_seal(self.claim, self.opener, self.salt)


class Court:
    """All disputes of a round. `book` is folded from the chain's logs alone."""

    def __init__(self, state: RoundState, terms: TaskTerms, players: Sequence["Player"]) -> None:
        self.state, self.players = state, players
        self.book = DisputeBook(state.task, terms)
        self.accusations: dict[bytes, Accusation] = {}
        self.claims = MarketClaims(state)
        self.found: Mapping[tuple[int, int, int], State] = {}
        self.work: dict[str, Fraction] = defaultdict(Fraction)
        self.replayed: dict[str, set[DrawKey]] = defaultdict(set)
        """By whistleblower: the draws of fallen claims that it has replayed."""
        self.compared: dict[str, set[bytes]] = defaultdict(set)
        """By player: disputes of others whose step roots it has laid beside its own."""

    def fold(
        self,
        events: Iterable[Event],
        state: RoundState,
        claims: MarketClaims,
        found: Mapping[tuple[int, int, int], State],
    ) -> None:
        """What the chain said, and what everybody handed in."""
        for event in events:
            self.book = process_book_event(self.book, event)
        self.state, self.found = state, found
        self.claims = MarketClaims(state, claims.spoiled)

    # Accusing -----------------------------------------------------------------------------------------------
    def list_accused(self, player: "Player", block: int) -> Iterator[ClaimRef]:
        """Whom a player accuses as things stand."""
        state, slot = self.state, get_slot(self.state, player.account)
        if state.draw_seed is None:
            return
        for target, segment in player.plot.accuses:
            yield name_claim(state, target, segment)
        for ref in list_audits_of(state, player.account):
            end, mine = get_opening(state, ref.slot, ref.draw).end, self.found.get(ref.key)
            is_shown = get_audit(state, ref.key).status in REVEALED_STATUSES and mine is not None
            is_partner = self.name_of(state.solvers[ref.slot]) in player.plot.partners
            if is_shown and end is not None and not player.plot.invents and not is_partner:
                drawn = get_drawn(state, ref.slot, ref.draw)
                if drawn is not None and mine is not None and mine.header != end:
                    yield name_claim(state, ref.slot, drawn.segment)
        for key, audit in state.audits.items():
            is_slander = audit.status == AuditStatus.REJECTS and audit.worst == Judgement.REJECT
            if key[0] == slot and is_slander and not self.read(name_audit(state, key)).is_false:
                continue
            if key[0] == slot and is_slander:
                yield name_audit(state, key)
        yield from self.list_accomplices(player, block)

    def list_accomplices(self, player: "Player", block: int) -> Iterator[ClaimRef]:
        """Auditors of a fallen claim who accept a segment that the player finds false (`fallen.py`)."""
        plot = player.plot
        is_honest = not (plot.invents or plot.copies or plot.accuses)
        if not is_honest or player.role not in (Role.VERIFIER, Role.WHISTLEBLOWER):
            return
        for key, audit in self.state.audits.items():
            claim = name_audit(self.state, key)
            is_other = audit.auditor != player.account and self.name_of(audit.auditor) not in plot.partners
            is_wanted = is_other and is_accepting(self.state, key) and self.is_free(claim, player, block)
            if not is_wanted or not self.is_fallen(player, key[0], block):
                continue
            if self.has_replayed(player, key[:2]) and self.read(claim).is_false:
                yield claim

    def is_free(self, claim: ClaimRef, player: "Player", block: int) -> bool:
        """Whether a dispute on an auditor is worth the bond, and nothing makes it needless."""
        queued = count_queue(self.book, get_audit(self.state, claim.audit.key).auditor)
        is_worth = is_bond_worth(self.state.terms.amounts, queued)
        return is_worth and not self.is_pursued(claim, player, block)

    def is_fallen(self, player: "Player", slot: int, block: int) -> bool:
        """Whether a claim has fallen to a player, and its auditors can be disputed (`fallen.is_fallen`)."""
        end = get_settle_block(self.state, block)
        mine = [one.claim for one in self.accusations.values() if one.opener == player.account]
        is_accused = any(claim.by_solver and claim.audit.slot == slot for claim in mine)
        is_last = is_accused and block >= end - self.state.terms.windows.dispute
        return block < end and (get_claim(self.state, slot).status == ClaimStatus.CONVICTED or is_last)

    def has_replayed(self, player: "Player", draw: DrawKey) -> bool:
        """Whether a player has an own result of a draw's segment: from its audit, or from a replay of its own
        accord, which it makes here if it may."""
        audits = [ref.key for ref in list_audits_of(self.state, player.account)]
        if any(key[:2] == draw and key in self.found for key in audits):
            return True
        made = self.replayed[player.name]
        if draw not in made and player.role == Role.WHISTLEBLOWER and len(made) < DEFAULT_OWN_REPLAYS:
            made.add(draw)
            self.work[player.name] += REPLAY
        return draw in made

    def read(self, claim: ClaimRef) -> Sentence:
        """What a claimant said."""
        found = None if claim.by_solver else self.found[claim.audit.key]
        return read_sentence(self.claims, claim, found)

    def list_openings(self, player: "Player", block: int) -> Iterator[Sending]:
        """Seals of new accusations, openings of sealed ones."""
        for claim in self.list_accused(player, block):
            if self.is_open(claim) and not self.is_pursued(claim, player, block):
                salt = sha256_of(f"{player.account} {claim}".encode())
                made = Accusation(player.account, claim, salt)
                self.accusations[made.dispute] = made
                yield Sending(player.account, "DisputeGame", "sealOpening", (made.dispute,))
        for made in self.accusations.values():
            sealed = self.book.seals.get(made.dispute)
            if made.opener == player.account and sealed is not None and not made.is_opened and block > sealed:
                made.is_opened = True
                yield Sending(player.account, "DisputeGame", "openDispute", (made.claim, made.salt))

    def is_open(self, claim: ClaimRef) -> bool:
        """Whether a dispute on it can still gain anything, and its bond is worth it."""
        slot, amounts = claim.audit.slot, self.state.terms.amounts
        if slot in self.state.settled_slots or self.is_convicted(claim):
            return False
        queued = count_queue(self.book, self.state.solvers[slot]) if claim.by_solver else 0
        return is_conviction_worth(amounts, queued)

    def is_pursued(self, claim: ClaimRef, player: "Player", block: int) -> bool:
        """Whether a player needs no dispute of its own: it has sealed one, or what is opened does."""
        me, closes_block = player.account, find_earliest_closing(self.state, block)
        if any(one.opener == me and one.claim == claim for one in self.accusations.values()):
            return True
        known = [one for one in self.book.disputes.values() if one.claim == claim]
        steps = {one.dispute: self.find_step(one, player) for one in known if is_in_time(one, closes_block)}
        return is_pursued(known, me, steps, closes_block)

    def find_step(self, dispute: DisputeState, player: "Player") -> int | None:
        """The step that a player would name in another's dispute, by a replay that it makes once."""
        if dispute.dispute not in self.compared[player.name]:
            self.compared[player.name].add(dispute.dispute)
            self.work[player.name] += REPLAY
        own = [one.root for one in self.read(dispute.claim).own]
        return moves.find_first_difference(dispute.roots, own)

    def is_convicted(self, claim: ClaimRef) -> bool:
        """Whether the claim has fallen."""
        if claim.by_solver:
            return get_claim(self.state, claim.audit.slot).status == ClaimStatus.CONVICTED
        return get_audit(self.state, claim.audit.key).status == AuditStatus.SLASHED

    # Moving -------------------------------------------------------------------------------------------------
    def list_moves(self, player: "Player", block: int) -> Iterator[Sending]:
        """All that a player sends in disputes."""
        yield from self.list_openings(player, block)
        for dispute in self.book.disputes.values():
            if dispute.stage in OPEN_STAGES:
                for move in self.list_due(dispute, player, block):
                    yield self.make(dispute, move, player)

    def list_due(self, dispute: DisputeState, player: "Player", block: int) -> Iterator[Move]:
        """The moves of a player in one dispute."""
        me, sentence = player.account, self.read(dispute.claim)
        if me == dispute.claimant and player.plot.defends:
            yield from moves.get_claimant_actions(dispute, me, block)
        if me == dispute.opener and player.plot.moves:
            own = [one.root for one in (sentence.own if sentence.is_false else reversed(sentence.own))]
            if dispute.roots:
                yield from moves.get_opener_actions(dispute, me, block, own)
            if dispute.stage == Stage.PROVE and sentence.is_false and dispute.step == LAST_STEP:
                yield moves.ProveOperation(dispute.dispute, FALSE_NODE, FALSE_ELEMENT)
                return
        if me == self.get_keeper(dispute):
            yield from moves.get_timeout_actions(dispute, block, self.is_convicted(dispute.claim))

    def get_keeper(self, dispute: DisputeState) -> str:
        """Who says that a dispute's time is over: its opener, or else its claimant, or else anybody."""
        opener, claimant = (self.player_of(one) for one in (dispute.opener, dispute.claimant))
        found = next((one for one in (opener, claimant) if one.plot.moves and one.plot.defends), None)
        return (found or self.players[-1]).account

    def make(self, dispute: DisputeState, move: Move, player: "Player") -> Sending:
        """The transaction of a move; the work behind it is counted."""
        arguments = self._prove(dispute, move, player)
        name = type(move).__name__
        return Sending(
            player.account, "DisputeGame", name[0].lower() + name[1:], (dispute.dispute, *arguments)
        )

    def _prove(self, dispute: DisputeState, move: Move, player: "Player") -> tuple[Any, ...]:
        claim, sentence = dispute.claim, self.read(dispute.claim)
        match move:
            case moves.PostStepRoots():
                self.work[player.name] += REPLAY
                ends = [self.claims.prove_boundary(claim.audit.slot, claim.segment + i) for i in range(2)]
                return [one.root for one in sentence.states], ends if claim.by_solver else []
            case moves.NameStep():
                self.work[player.name] += REPLAY
                return move.step, list(dispute.roots)
            case moves.PostTrace():
                self.work[player.name] += TRACE
                assert dispute.step is not None
                trace = trace_step(self.state, claim, sentence, dispute.step)
                return make_facts(), trace.root, trace.start, trace.end, trace.prove_outputs()
            case moves.ProveOperation():
                self.work[player.name] += TRACE
                assert dispute.step is not None
                trace = trace_step(self.state, claim, sentence, dispute.step)
                opened = trace.open_element(FALSE_NODE, FALSE_ELEMENT)
                return make_facts(), trace.start, prove_node(FALSE_NODE), FALSE_ELEMENT, opened
        return ()

    # Time ---------------------------------------------------------------------------------------------------
    def is_waiting(self) -> bool:
        """Whether a seal waits for its opening."""
        return any(not made.is_opened for made in self.accusations.values())

    def get_next_deadline(self, block: int) -> int:
        """The first block after `block` in which a clock of a dispute runs out."""
        clocks = (moves.get_next_dispute_deadline(one, block) for one in self.book.disputes.values())
        return min(clocks, default=NEVER)

    def player_of(self, account: str) -> "Player":
        """The player behind an account."""
        return next(player for player in self.players if player.account == account)

    def name_of(self, account: str) -> str:
        """Its name."""
        return self.player_of(account).name
