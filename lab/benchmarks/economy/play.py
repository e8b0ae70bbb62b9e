"""Plays one task to its end: who holds which seat, what is true, who saw what, and all money.

The keeper sends upkeep calls and votes, whoever else is silent. The accounts of an agent are named `own ...`,
those that it is played against `foe ...`; all others are honest.
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
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat, StatementRef
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.protocol.spec.game.timing import is_late_draw
from touchstone.protocol.spec.game.unserved_votes import VotePlace, may_vote_unserved
from touchstone.protocol.spec.game.vault import credit_of
from touchstone.protocol.spec.statements import VoteWord

EARLY = "early"
"""Marks a call that the contracts do not accept yet, while the machine has no lower time limit for it."""
KEEPER, STRANGER = "keeper", "own stranger"
"""The keeper sends what any account may send; the stranger is an agent's account without a seat."""


EXTRAS = tuple(f"own extra {i}" for i in range(5))
"""Further accounts of the agent (beside STRANGER) that have no seat."""


def name_parties(agent: Agent) -> list[tuple[SeatRole, str]]:
    """Returns roles and names in the order in which they join: solvers, verifiers, whistleblowers."""
    counts = (SOLVERS, VERIFIERS, WHISTLEBLOWERS)
    parties = []
    for role, own, foe, count in zip(SeatRole, agent.seats, agent.foe_seats, counts, strict=True):
        sides = ["own"] * own + ["foe"] * foe + ["honest"] * (count - own - foe)
        parties += [(role, f"{side} {role.name.lower()} {i}") for i, side in enumerate(sides)]
    return parties


@dataclass
class SpotChecks:
    """Which votes are queried at random. `seed` is the seed of the dice. `only` is the number of the agent's
    vote that is queried, counted from 1; 0 for none, None to throw the dice. `passed` are votes that the dice
    were thrown for; `own` counts the agent's among them."""

    seed: int = 0
    only: int | None = None
    passed: set[StatementRef] = field(default_factory=set)
    own: int = 0


@dataclass
class Play:
    """One play. `claims` are by round and slot. `wrong` are roots that no merge gives. `seen` are claims that
    an honest party found false, with its name; `given_up` are those that it disputed in vain. `words` are
    verdicts by place and rank. `log` is what the agent's accounts did. `brought` and `spent` are wei by
    party."""

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

    # Parties
    def seat_all(self) -> None:
        """Posts the task and lets all parties join."""
        self.note(SUBMITTER, "posts the task")
        amounts = self.table.state.terms.amounts
        for role, name in name_parties(self.agent):
            wei = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
            self.send(calls.JoinSeat(role, wei), name)
        self.spent.clear()

    def get_strategy(self, name: str) -> Strategy:
        """Returns the strategy of a party."""
        return {"own": self.agent.strategy, "foe": self.agent.foes}.get(name.split()[0], HONEST)

    def get_name(self, number: int) -> str:
        """Returns the party that holds a seat, or held it."""
        state = self.table.state
        seat = state.seats.get(number) or state.former[number]
        return self.name_of(seat.account)

    def name_of(self, account: str) -> str:
        """Returns the party that an account belongs to."""
        if account not in self.names:
            parties = [name for _, name in name_parties(self.agent)]
            parties += [KEEPER, SUBMITTER, STRANGER, *EXTRAS]
            self.names |= {self.table.get_address(name): name for name in parties}
        return self.names[account]

    def get_seat(self, name: str) -> Seat | None:
        """Returns the seat of a party, None if it has none."""
        return find_seat(self.table.state, self.table.get_address(name))

    def list_own(self, role: SeatRole) -> list[str]:
        """Returns the agent's parties with an unconvicted seat of this role."""
        seats = self.table.state.seats.values()
        names = [
            self.name_of(s.account) for s in seats if s.role == role and s.status != SeatStatus.CONVICTED
        ]
        return [name for name in names if name.startswith("own")]

    def is_up(self, name: str) -> bool:
        """Returns whether a party's node runs."""
        return not self.get_strategy(name).is_down(self, name)

    def list_honest(self, *roles: SeatRole) -> list[str]:
        """Returns the parties that follow the protocol, run and are not convicted, in the order of seats."""
        seats = self.table.state.seats.values()
        names = [
            self.name_of(s.account) for s in seats if s.role in roles and s.status != SeatStatus.CONVICTED
        ]
        return [name for name in names if self.is_honest(name) and self.is_up(name)]

    def is_honest(self, name: str) -> bool:
        """Returns whether a party follows the protocol."""
        return name.startswith("honest") or (name.startswith("own") and self.agent.is_honest)

    # Sending
    def send(self, call: GameCall, name: str) -> str | None:
        """Sends a call with the money that it takes. Returns the name of the refusal, None if the call
        passed."""
        missing = get_needed_wei(call) - self.get_credit(name)
        if missing > 0:
            self.table.send(calls.Deposit(missing), name)
            self.brought[name] += missing
        closed = {n for n, seat in self.table.state.seats.items() if seat.status == SeatStatus.CONVICTED}
        self.note(name, type(call).__name__, list(asdict(call).items()))
        refused = self.table.send(call, name)
        self.last.append((name, call))
        if name != KEEPER:
            self.spent[name] += price_call(call, refused is not None)
        if refused is not None and name.startswith(("own", SUBMITTER)):
            self.refused.append((type(call).__name__, refused))
        for number, seat in self.table.state.seats.items():
            if seat.status == SeatStatus.CONVICTED and number not in closed:
                self.convicted.add(self.name_of(seat.account))
        return refused

    def send_once(self, call: GameCall, name: str) -> bool:
        """Sends a call unless it was tried before. Returns whether it passed."""
        key = (name, repr(call))
        if key in self.tried:
            return False
        refused = self.send(call, name)
        if refused != EARLY:
            self.tried.add(key)
        return refused is None

    def note(self, name: str, *what: object) -> None:
        """Logs what an agent or its foe did, on the chain or elsewhere."""
        if name.startswith(("own", "foe")) or (name == SUBMITTER and self.agent.is_submitter):
            self.log.append((self.block, name, *what))

    def get_credit(self, name: str) -> int:
        """Returns what a party may withdraw, in wei."""
        return self.table.state.vault.get_wei(credit_of(self.table.get_address(name)))

    # What is true
    def get_claim(self, ref: StatementRef) -> Claim:
        """Returns the claim that a statement is about."""
        return self.claims[ref.round, ref.slot]

    def get_audit(self, ref: StatementRef) -> Audit | None:
        """Returns the audit in a place, None if nothing is drawn there."""
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
        """Returns the verdict that a replay gives if everything is served."""
        claim = self.get_claim(audit.ref)
        if claim.fault is Fault.START:
            return VoteWord.REJECT_START
        if audit.segment in claim.spoiled | claim.drifted:
            return VoteWord.REJECT_STATE
        return VoteWord.REJECT_DELTA if claim.fault in (Fault.SCALE, Fault.LENGTH) else VoteWord.ACCEPT

    def ask_for(self, audit: Audit) -> Shown:
        """Returns what the solver shows to an auditor."""
        claim = self.get_claim(audit.ref)
        strategy = self.get_strategy(claim.owner)
        shown = Shown.NOTHING if strategy.is_down(self, claim.owner) else strategy.show(self, audit, claim)
        self.note(claim.owner, "shows", audit, int(shown))
        return shown

    def look(self, audit: Audit) -> VoteWord:
        """Returns an honest auditor's verdict after its replay. If it got no data it votes UNSERVED, as long
        as it can afford that."""
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
        """Returns UNSERVED if the auditor can afford it, else ABSTAIN."""
        assert audit.ref.draw is not None
        place, seat = (audit.ref.round, audit.ref.slot, audit.ref.draw), self.get_seat(audit.auditor)
        said = self.said[audit.auditor]
        if seat is None or not may_vote_unserved(self.now, seat.number, place, self.block, said):
            return VoteWord.ABSTAIN
        said.add(place)
        return VoteWord.UNSERVED

    def is_base_right(self, game_round: GameRound) -> bool:
        """Returns whether all merges that a round builds on are right."""
        rounds = self.table.state.rounds.values()
        posted = [one for one in rounds if one.phase == RoundPhase.POSTED and one.index < game_round.index]
        return not any(one.root in self.wrong for one in posted)

    # What it came to
    def list_merged(self) -> Iterator[Claim]:
        """Yields the claims in posted roots that are right."""
        for game_round in self.table.state.rounds.values():
            if game_round.phase == RoundPhase.POSTED and game_round.root not in self.wrong:
                yield from (self.claims[game_round.index, slot] for slot in game_round.merged)

    def count_won(self) -> int:
        """Counts the agent's successes that are worth V each: merged false claims, and wrong roots that
        stand."""
        rounds = self.table.state.rounds.values()
        forged = sum(one.phase == RoundPhase.POSTED and one.root in self.wrong for one in rounds)
        return forged + sum(one.is_false and one.owner.startswith("own") for one in self.list_merged())

    def compute_profit(self, names: set[str]) -> int:
        """Returns the profit of parties in wei: their credit less deposits, compute and gas, plus V and the
        worth of the model."""
        wei = sum(self.get_credit(name) - self.brought[name] - self.spent[name] for name in names)
        wei += self.count_won() * self.agent.gain if any(name.startswith("own") for name in names) else 0
        if SUBMITTER in names:
            right = sum(not one.is_false for one in self.list_merged())
            wei += right * MODEL_WORTH - compute_escrow(self.table.state.terms)
        return wei

    def price_detour(self, audit: Audit) -> None:
        """Charges an auditor for a vote that goes through a contract."""
        self.note(audit.auditor, "hands in by a contract", audit)
        self.spent[audit.auditor] += OTHER_GAS * GAS_PRICE

    def price_vote(self, name: str) -> None:
        """Charges an auditor for a vote with its opening."""
        self.spent[name] += GAS[calls.JudgeVotes] * GAS_PRICE


def get_needed_wei(call: GameCall) -> int:
    """Returns what a call takes from the sender's credit, in wei."""
    if isinstance(call, calls.JoinSeat | calls.TopUp):
        return call.wei
    is_bonded = isinstance(call, calls.OpenContest | calls.QueryVote | calls.DisputeStatement)
    return call.bond_limit if is_bonded else 0  # type: ignore[attr-defined]
