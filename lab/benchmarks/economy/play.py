"""One task played to its end: who sits where, what is true, who saw what, and everybody's money.

upkeep and votes are sent by the keeper, whoever else is silent
an agent's accounts are called `own ...`, those it is played against `foe ...`, all others are honest
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lab.benchmarks.economy.parameters import (
    GAS,
    GAS_PRICE,
    MODEL_WORTH,
    OTHER_GAS,
    REPLAY,
    SOLVERS,
    VERIFIERS,
    WHISTLEBLOWERS,
    price_call,
)
from lab.benchmarks.economy.strategy import (
    HONEST,
    SUBMITTER,
    Agent,
    AnyTable,
    Audit,
    Claim,
    Fault,
    Shown,
    Strategy,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.purse import credit_of
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat, StatementRef
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.game.unserved_votes import VotePlace, may_vote_unserved
from touchstone.protocol.spec.statements import VoteWord

EARLY = "early"
"""Of a call that the contracts cannot take yet, while the machine leaves its time open."""
KEEPER, STRANGER = "keeper", "own stranger"
"""Sends what anybody may send. An agent's account without a seat."""


EXTRAS = tuple(f"own extra {i}" for i in range(5))
"""More of them."""


def name_parties(agent: Agent) -> list[tuple[SeatRole, str]]:
    """Seats in the order in which they join: solvers, verifiers, whistleblowers."""
    counts = (SOLVERS, VERIFIERS, WHISTLEBLOWERS)
    parties = []
    for role, own, foe, count in zip(SeatRole, agent.seats, agent.foe_seats, counts, strict=True):
        sides = ["own"] * own + ["foe"] * foe + ["honest"] * (count - own - foe)
        parties += [(role, f"{side} {role.name.lower()} {i}") for i, side in enumerate(sides)]
    return parties


@dataclass
class SpotChecks:
    """Who is asked at random. seed: of the dice; only: of the agent's own votes that one, counted from 1, and
    none at 0 (None: as the dice fall); passed: votes that the dice were thrown for; own: how many of them are
    the agent's."""

    seed: int = 0
    only: int | None = None
    passed: set[StatementRef] = field(default_factory=set)
    own: int = 0


@dataclass
class Play:
    """claims: by round and slot; wrong: roots that no merge gives; seen: claims that honest parties saw to be
    false, and who did; given_up: those of them that they disputed in vain; words: what was said, by place and
    rank; log: all that the agent's accounts did; brought, spent: wei by party."""

    agent: Agent
    table: AnyTable
    claims: dict[tuple[int, int], Claim] = field(default_factory=dict)
    wrong: set[bytes] = field(default_factory=set)
    seen: dict[StatementRef, str] = field(default_factory=dict)
    words: dict[StatementRef, VoteWord | None] = field(default_factory=dict)
    audits: dict[StatementRef, Audit] = field(default_factory=dict)
    spot_checks: SpotChecks = field(default_factory=SpotChecks)
    given_up: set[StatementRef] = field(default_factory=set)
    shown: set[int] = field(default_factory=set)
    lies: list[StatementRef] = field(default_factory=list)
    said: defaultdict[str, set[VotePlace]] = field(default_factory=lambda: defaultdict(set))
    log: list[tuple[Any, ...]] = field(default_factory=list)
    brought: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    spent: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    tried: set[tuple[str, str]] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)
    convicted: set[str] = field(default_factory=set)
    last: list[tuple[str, GameCall]] = field(default_factory=list)
    passes: int = 0

    @property
    def now(self) -> GameState:
        """The state as a call of this block finds it."""
        return get_state_at(self.table.state, self.table.block)

    @property
    def block(self) -> int:
        """The block that the next call is in."""
        return self.table.block

    # --- Parties --------------------------------------------------------------------------------------------
    def seat_all(self) -> None:
        """Everybody joins."""
        self.note(SUBMITTER, "posts the task")
        amounts = self.table.state.terms.amounts
        for role, name in name_parties(self.agent):
            wei = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
            self.send(calls.JoinSeat(role, wei), name)
        self.spent.clear()

    def get_strategy(self, name: str) -> Strategy:
        """How a party plays."""
        return {"own": self.agent.strategy, "foe": self.agent.foes}.get(name.split()[0], HONEST)

    def get_name(self, number: int) -> str:
        """Who holds a seat, or held it."""
        state = self.table.state
        seat = state.seats.get(number) or state.former[number]
        return self.name_of(seat.account)

    def name_of(self, account: str) -> str:
        """The party of an account."""
        if account not in self.names:
            parties = [name for _, name in name_parties(self.agent)]
            parties += [KEEPER, SUBMITTER, STRANGER, *EXTRAS]
            self.names |= {self.table.get_address(name): name for name in parties}
        return self.names[account]

    def get_seat(self, name: str) -> Seat | None:
        """The seat of a party, None where it has none."""
        return find_seat(self.table.state, self.table.get_address(name))

    def list_own(self, role: SeatRole) -> list[str]:
        """The agent's seats of a role that are not convicted."""
        seats = self.table.state.seats.values()
        names = [self.name_of(s.account) for s in seats if s.role == role and s.status != SeatStatus.CLOSED]
        return [name for name in names if name.startswith("own")]

    def is_up(self, name: str) -> bool:
        """Whether a party's node runs."""
        return not self.get_strategy(name).is_down(self, name)

    def list_honest(self, *roles: SeatRole) -> list[str]:
        """Who follows the protocol, is up and not convicted, in the order of seats."""
        seats = self.table.state.seats.values()
        names = [self.name_of(s.account) for s in seats if s.role in roles and s.status != SeatStatus.CLOSED]
        return [name for name in names if self.is_honest(name) and self.is_up(name)]

    def is_honest(self, name: str) -> bool:
        """Whether a party follows the protocol."""
        return name.startswith("honest") or (name.startswith("own") and self.agent.is_honest)

    # --- Sending --------------------------------------------------------------------------------------------
    def send(self, call: GameCall, name: str) -> str | None:
        """The name of the refusal, None where the call passed. Money that it takes is brought."""
        missing = get_needed_wei(call) - self.get_credit(name)
        if missing > 0:
            self.table.send(calls.Deposit(missing), name)
            self.brought[name] += missing
        closed = {n for n, seat in self.table.state.seats.items() if seat.status == SeatStatus.CLOSED}
        self.note(name, type(call).__name__, list(asdict(call).items()))
        refused = self.table.send(call, name)
        self.last.append((name, call))
        if name != KEEPER:
            self.spent[name] += price_call(call, refused is not None)
        if refused is not None and name.startswith(("own", SUBMITTER)):
            self.refused.append((type(call).__name__, refused))
        for number, seat in self.table.state.seats.items():
            if seat.status == SeatStatus.CLOSED and number not in closed:
                self.convicted.add(self.name_of(seat.account))
        return refused

    def send_once(self, call: GameCall, name: str) -> bool:
        """Whether it passed; a call that was tried is not tried again."""
        key = (name, repr(call))
        if key in self.tried:
            return False
        refused = self.send(call, name)
        if refused != EARLY:
            self.tried.add(key)
        return refused is None

    def note(self, name: str, *what: object) -> None:
        """What an agent or its foe did, on the chain or off it."""
        if name.startswith(("own", "foe")) or (name == SUBMITTER and self.agent.is_submitter):
            self.log.append((self.block, name, *what))

    def get_credit(self, name: str) -> int:
        """What a party may withdraw."""
        return self.table.state.purse.get_wei(credit_of(self.table.get_address(name)))

    # --- What is true ---------------------------------------------------------------------------------------
    def get_claim(self, ref: StatementRef) -> Claim:
        """The claim that a statement is about."""
        return self.claims[ref.round, ref.slot]

    def get_audit(self, ref: StatementRef) -> Audit | None:
        """The audit of a rank of a draw, None where nothing is drawn."""
        if ref not in self.audits:
            found = self._find_audit(ref)
            if found is None:
                return None
            self.audits[ref] = found
        return self.audits[ref]

    def _find_audit(self, ref: StatementRef) -> Audit | None:
        state = self.table.state
        assert ref.draw is not None
        game_round = state.rounds[ref.round]
        seat = get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)
        segment = get_drawn_segment(state, game_round, ref.slot, ref.draw)
        if seat is None or segment is None:
            return None
        return Audit(ref, segment, self.get_name(seat), is_late_draw(state, ref.draw))

    def find_truth(self, audit: Audit) -> VoteWord:
        """What a replay of the segment shows, where everything is served."""
        claim = self.get_claim(audit.ref)
        if claim.fault is Fault.START:
            return VoteWord.REJECT_START
        if audit.segment in claim.spoiled | claim.drifted:
            return VoteWord.REJECT_STATE
        return VoteWord.REJECT_DELTA if claim.fault in (Fault.SCALE, Fault.LENGTH) else VoteWord.ACCEPT

    def ask_for(self, audit: Audit) -> Shown:
        """What an auditor gets from the solver."""
        claim = self.get_claim(audit.ref)
        strategy = self.get_strategy(claim.owner)
        shown = Shown.NOTHING if strategy.is_down(self, claim.owner) else strategy.show(self, audit, claim)
        self.note(claim.owner, "shows", audit, int(shown))
        return shown

    def look(self, audit: Audit) -> VoteWord:
        """An honest auditor replays, and says what it saw. It tells the truth about bytes that it did not get
        as long as it can afford it."""
        shown = self.ask_for(audit)
        self.spent[audit.auditor] += REPLAY * (shown >= Shown.START)
        self.note(audit.auditor, "replays", audit, int(shown))
        if shown == Shown.ALL:
            word, claim = self.find_truth(audit), self.get_claim(audit.ref)
            is_wrong = word != VoteWord.ACCEPT or claim.fault is not Fault.NONE
            if is_wrong and audit.segment not in claim.drifted:
                self.seen.setdefault(replace(audit.ref, draw=None, rank=0), audit.auditor)
            return word
        return self.vote_unserved(audit)

    def vote_unserved(self, audit: Audit) -> VoteWord:
        """UNSERVED where that can be afforded, else ABSTAIN."""
        assert audit.ref.draw is not None
        place, seat = (audit.ref.round, audit.ref.slot, audit.ref.draw), self.get_seat(audit.auditor)
        said = self.said[audit.auditor]
        if seat is None or not may_vote_unserved(self.now, seat.number, place, self.block, said):
            return VoteWord.ABSTAIN
        said.add(place)
        return VoteWord.UNSERVED

    def is_base_right(self, game_round: GameRound) -> bool:
        """Whether everything that a round builds on was merged rightly."""
        rounds = self.table.state.rounds.values()
        posted = [one for one in rounds if one.phase == RoundPhase.POSTED and one.index < game_round.index]
        return not any(one.root in self.wrong for one in posted)

    # --- What it came to ------------------------------------------------------------------------------------
    def list_merged(self) -> Iterator[Claim]:
        """Claims in roots that stand."""
        for game_round in self.table.state.rounds.values():
            if game_round.phase == RoundPhase.POSTED and game_round.root not in self.wrong:
                yield from (self.claims[game_round.index, slot] for slot in game_round.merged)

    def count_won(self) -> int:
        """How often the agent has what is worth V to it: false claims merged, wrong roots that stand."""
        rounds = self.table.state.rounds.values()
        forged = sum(one.phase == RoundPhase.POSTED and one.root in self.wrong for one in rounds)
        return forged + sum(one.is_false and one.owner.startswith("own") for one in self.list_merged())

    def compute_profit(self, names: set[str]) -> int:
        """What parties have in the end, less what they brought, compute and gas; with V and the model."""
        wei = sum(self.get_credit(name) - self.brought[name] - self.spent[name] for name in names)
        wei += self.count_won() * self.agent.gain if any(name.startswith("own") for name in names) else 0
        if SUBMITTER in names:
            right = sum(not one.is_false for one in self.list_merged())
            wei += right * MODEL_WORTH - compute_escrow(self.table.state.terms)
        return wei

    def price_detour(self, audit: Audit) -> None:
        """A vote that goes by a contract."""
        self.note(audit.auditor, "hands in by a contract", audit)
        self.spent[audit.auditor] += OTHER_GAS * GAS_PRICE

    def price_vote(self, name: str) -> None:
        """A vote with its opening, in a page of its own."""
        self.spent[name] += GAS[calls.JudgeVotes] * GAS_PRICE


def get_needed_wei(call: GameCall) -> int:
    """What a call takes from the sender's credit."""
    if isinstance(call, calls.JoinSeat | calls.TopUp):
        return call.wei
    is_bonded = isinstance(call, calls.OpenContest | calls.AskSigner | calls.DisputeStatement)
    return call.bond_limit if is_bonded else 0  # type: ignore[attr-defined]
