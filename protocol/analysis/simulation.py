"""Pay and loss by kind of agent, played on the round's machine with a seed. Calls are the machine's own; only
training, replays and the inside of disputes are facts here.

One coalition owns the cheating solvers and some auditors. Its auditors accept its claims where they decide,
and abstain at once where they do not. Honest auditors see every spoiled segment that they replay, and dispute
it; a dispute takes its whole time. Where nobody serves them the primary and a reserve say so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256

from protocol.analysis.players import (
    CheatKind,
    choose_own_word,
    get_statement,
    is_serving,
    list_places,
)
from protocol.spec.game import calls
from protocol.spec.game.calls import GameCall, HandedOpening, JudgeVotes, SignedVote
from protocol.spec.game.enums import GameOutcome, SeatRole, SeatStatus
from protocol.spec.game.fates import get_accepted_block, has_undecided, is_draw_over, list_mergeable
from protocol.spec.game.figures import Figures
from protocol.spec.game.machine import apply, fold_all, get_state_at
from protocol.spec.game.posting import get_post_window, get_waiting_round
from protocol.spec.game.purse import credit_of
from protocol.spec.game.refusals import GameRefusal
from protocol.spec.game.state import GameRound, GameState, StatementRef, create_game
from protocol.spec.game.statement_refs import count_open_disputes
from protocol.spec.game.terms import DeploymentLimits, GameTerms
from protocol.spec.game.timing import get_live_round
from protocol.spec.game.unserved import VotePlace, may_say_unserved
from protocol.spec.game.upkeep import get_next_block, list_upkeep
from protocol.spec.statements import VoteWord

WATCHER = "watcher"
"""Sends what anybody may send, and the honest auditors' disputes."""


class AgentKind(Enum):
    """Whose money is counted together."""

    HONEST_SOLVER = "honest solver"
    HONEST_AUDITOR = "honest auditor"
    COALITION = "coalition"


@dataclass(frozen=True)
class Plan:
    """Who plays. kind, spoiled: what the coalition's solvers do, and which segments they spoil; the seats are
    numbers by role, the coalition's first. train_blocks: of a round."""

    terms: GameTerms
    limits: DeploymentLimits
    figures: Figures
    kind: CheatKind
    spoiled: frozenset[int]
    cheats: int
    honest: int
    own_auditors: int
    honest_auditors: int
    train_blocks: int
    seed: int = 0


@dataclass(frozen=True)
class Report:
    """What a play came to. gains: wei by kind, compute and V counted; claims, accepted, merged: false ones;
    convicted: the coalition's seats; rounds: that were opened."""

    gains: dict[AgentKind, int]
    claims: int
    accepted: int
    merged: int
    convicted: int
    rounds: int


@dataclass
class _Table:
    plan: Plan
    state: GameState
    block: int = 1
    deposits: dict[str, int] = field(default_factory=dict)
    accounts: dict[int, str] = field(default_factory=dict)
    rounds: dict[int, GameRound] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)
    said: dict[int, set[VotePlace]] = field(default_factory=dict)
    merged: set[tuple[int, int]] = field(default_factory=set)
    false: set[tuple[int, int]] = field(default_factory=set)
    convicted: int = 0

    def send(self, call: GameCall, sender: str) -> bool:
        """Whether the call passed."""
        try:
            events = apply(self.state, call, sender, self.block)
        except GameRefusal:
            return False
        self.state = fold_all(self.state, events, self.block)
        self.rounds |= self.state.rounds
        return True

    def is_own(self, account: str) -> bool:
        """Whether an account is the coalition's."""
        return account.startswith("own")

    def hash(self, *parts: object) -> bytes:
        """What chance and content are here: a hash of the seed and of what it is for."""
        return sha256(repr((self.plan.seed, *parts)).encode()).digest()


def simulate(plan: Plan) -> Report:
    """Plays a task from joining to the last payout."""
    table = _Table(plan, create_game(plan.terms, plan.limits, 0))
    _seat(table)
    while True:
        while _play_pass(table):
            pass
        later = [get_next_block(table.state, table.block), *_list_wakes(table)]
        blocks = [block for block in later if block is not None and block > table.block]
        if not blocks:
            return _report(table)
        table.block = min(blocks)


def _seat(table: _Table) -> None:
    plan, amounts = table.plan, table.plan.terms.amounts
    groups = [(SeatRole.SOLVER, plan.cheats, plan.honest, amounts.solver_stake)]
    for role in (SeatRole.VERIFIER, SeatRole.WHISTLEBLOWER):
        groups.append((role, plan.own_auditors, plan.honest_auditors, amounts.auditor_stake))
    for role, own, honest, wei in groups:
        for i in range(own + honest):
            account = f"{'own' if i < own else 'honest'} {role.name} {i}"
            table.deposits[account] = wei
            table.send(calls.Deposit(wei), account)
            table.send(calls.JoinSeat(role, wei), account)
    table.accounts = {number: seat.account for number, seat in table.state.seats.items()}


def _play_pass(table: _Table) -> bool:
    duties = (_list_upkeep, _list_commits, _list_votes, _list_posts, _list_disputes)
    return sum(table.send(call, sender) for one in duties for sender, call in list(one(table))) > 0


def _list_wakes(table: _Table) -> Iterator[int]:
    live = get_live_round(table.state)
    if live is not None and live.closed is None and live.trained_from is not None:
        yield live.trained_from + table.plan.train_blocks
    yield from (dispute.clock for dispute in table.state.disputes.values())


# --- What is sent -------------------------------------------------------------------------------------------
def _list_upkeep(table: _Table) -> Iterator[tuple[str, GameCall]]:
    for call in list_upkeep(table.state, table.block):
        if hasattr(call, "randomness"):
            randomness = table.hash("header", type(call).__name__, table.block)
            call = replace(call, randomness=randomness)  # type: ignore[call-arg]
        yield WATCHER, call


def _list_commits(table: _Table) -> Iterator[tuple[str, GameCall]]:
    live = get_live_round(get_state_at(table.state, table.block))
    if live is None or live.closed is not None or live.trained_from is None or live.beacon is None:
        return
    if table.block < live.trained_from + table.plan.train_blocks:
        return
    for slot, number in enumerate(live.pool.solvers):
        seat = table.state.seats[number]
        if slot not in live.claims and seat.status != SeatStatus.CLOSED:
            _note_work(table, live, slot, seat.account)
            root = table.hash("claim", live.index, slot)
            count = table.plan.terms.segment_count
            yield seat.account, calls.CommitRound(live.index, live.base_root, live.beacon, root, count)


def _note_work(table: _Table, game_round: GameRound, slot: int, account: str) -> None:
    plan, work = table.plan, table.plan.terms.segment_count
    if table.is_own(account):
        work -= len(plan.spoiled)
        table.false |= {(game_round.index, slot)} if plan.spoiled else set()
    cost = plan.figures.cost * work // plan.terms.segment_count
    table.spent[account] = table.spent.get(account, 0) + cost


def _list_votes(table: _Table) -> Iterator[tuple[str, GameCall]]:
    now = get_state_at(table.state, table.block)
    for game_round in now.rounds.values():
        votes: list[SignedVote] = []
        openings: list[HandedOpening] = []
        for slot, draw, places in list_places(now, game_round):
            if not is_draw_over(now, game_round, slot, draw, table.block):
                votes += _vote(table, now, game_round, slot, draw, places)
                openings += [HandedOpening(slot, draw, rank) for rank in range(3)]
        if votes:
            yield WATCHER, JudgeVotes(game_round.index, tuple(votes), tuple(openings))


def _vote(
    table: _Table, now: GameState, game_round: GameRound, slot: int, draw: int, places: tuple[int, ...]
) -> Iterator[SignedVote]:
    """The primary's vote, then the reserves', the coalition's first, until nobody has to say more."""
    place, claim = (game_round.index, slot, draw), game_round.claims[slot]
    segment, seed = get_statement(now, place)
    solver, unserved = table.accounts[claim.seat], 0
    is_hit = table.is_own(solver) and segment in table.plan.spoiled
    is_served = not table.is_own(solver) or is_serving(table.plan.kind, is_hit)
    own = tuple(table.is_own(table.accounts[number]) for number in places)
    for rank in (0, *sorted((1, 2), key=lambda reserve: not own[reserve])):
        if own[rank]:
            word = choose_own_word(rank, own, is_hit or not is_served)
        else:
            word = _look(table, now, place, places[rank], is_served, is_hit)
        account = table.accounts[places[rank]]
        yield SignedVote(slot, draw, rank, claim.claim_root, seed, segment, word, account)
        unserved += word == VoteWord.UNSERVED
        if (rank == 0 and word == VoteWord.ACCEPT) or unserved == 2:
            return


def _look(
    table: _Table, now: GameState, place: VotePlace, number: int, is_served: bool, is_hit: bool
) -> VoteWord:
    """An honest auditor's word. It tells the truth about bytes that it did not get as long as it can afford
    it, and what it saw to be false is disputed."""
    if is_served and is_hit:
        table.seen.add(place[:2])
    if is_served:
        return VoteWord.REJECT_STATE if is_hit else VoteWord.ACCEPT
    said = table.said.setdefault(number, set())
    if not may_say_unserved(now, number, place, table.block, said):
        return VoteWord.ABSTAIN
    said.add(place)
    return VoteWord.UNSERVED


def _list_posts(table: _Table) -> Iterator[tuple[str, GameCall]]:
    now = get_state_at(table.state, table.block)
    waiting = get_waiting_round(now)
    if waiting is None:
        return
    merged, (first, last) = (
        list_mergeable(now, waiting, table.block),
        get_post_window(now, waiting, table.block),
    )
    is_due = not has_undecided(now, waiting, table.block) and first <= table.block <= last
    if merged and is_due:
        table.merged |= {(waiting.index, slot) for slot in merged} & table.false
        root = table.hash("root", waiting.index)
        yield WATCHER, calls.PostRoot(waiting.index, merged, root, waiting.pool.solvers)


def _list_disputes(table: _Table) -> Iterator[tuple[str, GameCall]]:
    for index, slot in sorted(table.seen):
        claim = table.rounds[index].claims[slot]
        seat = table.state.seats.get(claim.seat)
        is_open = seat is not None and seat.status != SeatStatus.CLOSED and seat.settled <= index
        if is_open and not count_open_disputes(table.state, claim.seat):
            bond = table.plan.terms.amounts.dispute_bond
            table.send(calls.Deposit(bond), WATCHER)
            yield WATCHER, calls.DisputeStatement(StatementRef(index, slot), bond)
    for dispute in table.state.disputes.values():
        if dispute.clock == table.block:
            table.convicted += 1
            yield WATCHER, calls.EndDispute(dispute.number, outcome=GameOutcome.CONVICTED)


# --- What it came to ----------------------------------------------------------------------------------------
def _report(table: _Table) -> Report:
    gains = dict.fromkeys(AgentKind, 0)
    for account, wei in table.deposits.items():
        credit = table.state.purse.get_wei(credit_of(account))
        gains[_get_kind(table, account)] += credit - wei - table.spent.get(account, 0)
    gains[AgentKind.COALITION] += table.plan.figures.gain * len(table.merged)
    accepted = sum(
        get_accepted_block(table.state, table.rounds[index], slot) is not None for index, slot in table.false
    )
    return Report(gains, len(table.false), accepted, len(table.merged), table.convicted, len(table.rounds))


def _get_kind(table: _Table, account: str) -> AgentKind:
    if table.is_own(account):
        return AgentKind.COALITION
    return AgentKind.HONEST_SOLVER if SeatRole.SOLVER.name in account else AgentKind.HONEST_AUDITOR
