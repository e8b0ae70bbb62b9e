"""One round of real contracts on Anvil, played by accounts that each have a plot, and what it left everybody
with.

Who is honest does what its node would do (`duties`, `keeping`, `dispute_moves`); a plot leaves things out or
does others. The randomness of a draw is fixed so that the draw is the one that is asked for: rare
outcomes are measured as often as common ones.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from benchmarks.economy.disputes import Court
from benchmarks.economy.ground import (
    INVENTED_ULPS,
    SEGMENTS,
    MarketClaims,
    MarketMaker,
    make_market_terms,
    move,
)
from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.clock import NEVER
from protocol.spec.draw import compute_draw_seed, compute_late_seed
from protocol.spec.drawn import get_drawn
from protocol.spec.duties import get_auditor_actions, get_next_deadline, get_solver_actions
from protocol.spec.events import RoundStarted
from protocol.spec.keeping import get_keeper_actions, get_my_keeper_actions
from protocol.spec.params import TOKEN_WEI
from protocol.spec.round import RoundState, get_late_deadlines, process_event, start_round
from protocol.spec.statuses import AuditRef, Role
from tests.e2e.twin_chain import Outcome, Sending, TwinChain
from tests.e2e.twin_world import State
from tests.protocol.spec.play import get_label

WEALTH_WEI = 10**6 * TOKEN_WEI
STAKE_WEI = WEALTH_WEI // 2
MAX_ATTEMPTS = 20_000
"""Words tried for one draw: the rarest deal asked for comes once in 1,300."""
MAX_BLOCKS = 3_000
"""A round that takes more blocks with something in them does not end."""


@dataclass(frozen=True)
class Plot:
    """How an account departs from what its node would do.

    spoiled: segments of its claim that are false; works: whether it trains the others; silent: calls that it
    never sends (`get_label`); serves: whom it serves its states (None: everybody); copies: slots whose solver
    hands it the end, so that it replays nothing; invents: it hands in what nobody computed; words: what it
    says instead of auditing, by slot; accuses: segments of solvers' claims that it disputes without a reason;
    moves, defends: whether it goes on with a dispute as its opener, as its claimant; partners: whom it leaves
    alone."""

    spoiled: frozenset[int] = frozenset()
    works: bool = True
    silent: frozenset[str] = frozenset()
    serves: frozenset[str] | None = None
    copies: frozenset[int] = frozenset()
    invents: bool = False
    words: Mapping[int, type[calls.SayUnserved] | type[calls.Abstain]] = field(default_factory=dict)
    accuses: tuple[tuple[int, int], ...] = ()
    moves: bool = True
    defends: bool = True
    partners: frozenset[str] = frozenset()


HONEST = Plot()


@dataclass(frozen=True)
class Player:
    """An account of a round."""

    name: str
    account: str
    role: Role
    plot: Plot = HONEST


Want = Callable[[RoundState], bool]


@dataclass(frozen=True)
class Books:
    """What a round left behind. wealth_wei: by name, tokens gained; gas: by name; work: by name, compute in
    rounds of a solver."""

    wealth_wei: Mapping[str, int]
    gas: Mapping[str, Fraction]
    work: Mapping[str, Fraction]
    state: RoundState


class Market:
    """The contracts with funded accounts. Every round starts from the same state."""

    def __init__(self, chain: TwinChain, accounts: Mapping[str, str]) -> None:
        self.chain, self.accounts = chain, accounts
        chain.fund(list(accounts.values()), WEALTH_WEI)
        staked = [account for name, account in accounts.items() if name != "submitter"]
        deposits = [Sending(one, "StakeVault", "deposit", (STAKE_WEI,)) for one in staked]
        assert not any(one.error for one in chain.mine(deposits))

    def read_wealth(self) -> dict[str, int]:
        """Tokens, stake and credits of everybody, in wei."""
        names = list(self.accounts)
        where = (("IERC20", "balanceOf"), ("StakeVault", "stakeOf"), ("StakeVault", "creditOf"))
        questions = [(*place, (self.accounts[name],)) for name in names for place in where]
        answers = self.chain.read_all(questions)
        return {name: sum(answers[3 * i : 3 * i + 3]) for i, name in enumerate(names)}

    def play(self, name: str, players: list[Player], want_draw: Want, want_late: Want) -> Books:
        """One round from the posting of its task to its closing; the chain is as before afterwards."""
        snapshot = self.chain.snapshot()
        try:
            return Round(self, name, players, want_draw, want_late).run()
        finally:
            self.chain.revert(snapshot)


class Round:
    """One round. The state and the disputes are folded from the chain's logs alone."""

    def __init__(
        self, market: Market, name: str, players: list[Player], want_draw: Want, want_late: Want
    ) -> None:
        self.market, self.chain, self.players = market, market.chain, players
        self.want_draw, self.want_late = want_draw, want_late
        self.submitter = market.accounts["submitter"]
        self.gas: dict[str, Fraction] = defaultdict(Fraction)
        self.common: set[tuple[str, str]] = set()
        self.work: dict[str, Fraction] = defaultdict(Fraction)
        self.names = {account: one for one, account in market.accounts.items()}
        self.before = market.read_wealth()
        self.terms = make_market_terms(self.submitter, name)
        self.state = self._create()
        solvers = [player for player in players if player.role == Role.SOLVER]
        spoiled = {slot: player.plot.spoiled for slot, player in enumerate(solvers)}
        self.claims = MarketClaims(self.state, spoiled)
        self.found: dict[tuple[int, int, int], State] = {}
        self.court = Court(self.state, self.terms, players)
        self.rigged: set[int] = set()

    def _create(self) -> RoundState:
        [outcome] = self.send([Sending(self.submitter, "TaskRegistry", "createTask", (self.terms, b"spec"))])
        started = next(event for event in outcome.events if isinstance(event, RoundStarted))
        domain = self.chain.read("TaskRegistry", "domainOf", started.task)
        return start_round(self.terms, domain, started)

    def send(self, sendings: list[Sending]) -> list[Outcome]:
        """Mines them in one block, and charges their gas. Whose turn a call is that anybody may send is a
        matter of chance, and the same for all: each has an equal share in it."""
        outcomes = self.chain.mine(sendings)
        parties = [player.name for player in self.players if player.role != Role.NONE]
        for sending, outcome in zip(sendings, outcomes, strict=True):
            is_common = (sending.contract, sending.function) in self.common
            for name in parties if is_common else [self.names[sending.sender]]:
                self.gas[name] += Fraction(outcome.gas, len(parties) if is_common else 1)
        return outcomes

    # Playing ------------------------------------------------------------------------------------------------
    def run(self) -> Books:
        """Plays until nothing is left to do, closes the task and counts."""
        for _ in range(MAX_BLOCKS):
            block = self.chain.head + 1
            sendings = [*self.list_sendings(block)]
            if sendings:
                for outcome in self.send(sendings):
                    self.fold(outcome)
            elif (target := self.get_next_block(block)) == NEVER:
                return self.close()
            else:
                self.wait_until(target - 1)
        raise RuntimeError(f"the round does not end: {self.state}")

    def fold(self, outcome: Outcome) -> None:
        """The chain's logs, into both machines."""
        for event in outcome.events:
            self.state = process_event(self.state, event)
        self.court.fold(outcome.events, self.state, self.claims, self.found)

    def close(self) -> Books:
        """The submitter takes the rest of the escrow."""
        [outcome] = self.send([Sending(self.submitter, "TaskRegistry", "closeTask", (self.state.task,))])
        assert outcome.error is None, outcome
        after = self.market.read_wealth()
        for name, work in self.court.work.items():
            self.work[name] += work
        wealth = {name: after[name] - self.before[name] for name in after}
        return Books(wealth, dict(self.gas), dict(self.work), self.state)

    def list_sendings(self, block: int) -> Iterator[Sending]:
        """All that the players send in a block."""
        for player in self.players:
            for call in self.list_calls(player, block):
                yield self.make(player, call)
            for call in get_my_keeper_actions(self.state, player.account, block):
                if get_label(self.state, call) in player.plot.silent:
                    continue
                sending = self.make(player, call)
                if not isinstance(call, calls.PostOuter):  # Whoever posts is paid for it.
                    self.common.add((sending.contract, sending.function))
                yield sending
            yield from self.court.list_moves(player, block)

    def list_calls(self, player: Player, block: int) -> Iterator[Call]:
        """What a player sends of what is due."""
        state, me = self.state, player.account
        if player.role == Role.SOLVER:
            found = get_solver_actions(state, me, block)
        elif player.role == Role.NONE:
            found = ()
        else:
            found = get_auditor_actions(state, me, block, player.role)
        due = [call for call in found if not isinstance(call, calls.OFF_CHAIN)]
        for call in due:
            if get_label(state, call) not in player.plot.silent:
                yield self.reword(player, call)

    def reword(self, player: Player, call: Call) -> Call:
        """An auditor that is not served says so; a plot may have it say other things."""
        if not isinstance(call, calls.CommitReplay):
            return call
        word = player.plot.words.get(call.audit.slot)
        if word is not None:
            return word(call.round, call.audit)
        solver = self.player_of(self.state.solvers[call.audit.slot])
        if solver.plot.serves is not None and player.name not in solver.plot.serves:
            return calls.SayUnserved(call.round, call.audit)
        return call

    def player_of(self, account: str) -> Player:
        """The player behind an account."""
        return next(player for player in self.players if player.account == account)

    def make(self, player: Player, call: Call) -> Sending:
        """The transaction of a call; the work behind it is counted."""
        if isinstance(call, calls.CommitClaim):
            self.work[player.name] += Fraction(SEGMENTS - len(player.plot.spoiled), SEGMENTS)
        if isinstance(call, calls.CommitReplay):
            self.found[call.audit.key] = self.audit(player, call.audit)
        where = (self.chain.head + 1, self.chain.read_header)
        maker = MarketMaker(self.state, player.account, {}, *where, self.claims, self.found)
        return maker.make_sending(call)

    def audit(self, player: Player, ref: AuditRef) -> State:
        """The end state that an auditor commits to."""
        drawn = get_drawn(self.state, ref.slot, ref.draw)
        assert drawn is not None
        replayed = self.claims.replay(ref.slot, drawn.segment)
        if player.plot.invents:
            return move(replayed, INVENTED_ULPS, 0)
        if ref.slot in player.plot.copies:
            return self.claims.state_at(ref.slot, drawn.segment + 1)
        self.work[player.name] += Fraction(1, SEGMENTS)
        return replayed

    # Time ---------------------------------------------------------------------------------------------------
    def get_next_block(self, block: int) -> int:
        """When something can happen again. What is due but not yet anybody's turn may be so in any block."""
        if any(get_keeper_actions(self.state, block)) or self.court.is_waiting():
            return block + 1
        return min(get_next_deadline(self.state, block), self.court.get_next_deadline(block))

    def wait_until(self, block: int) -> None:
        """Empty blocks; before one that deals cards its randomness is fixed, so that the cards are right."""
        marks = {self.state.deadlines.draw_block: self.try_draw}
        late = get_late_deadlines(self.state, self.chain.head + 1)
        if late is not None:
            marks[late.late_block] = self.try_late
        for mark in sorted(marks):
            if self.chain.head < mark <= block and mark not in self.rigged:
                self.chain.mine_to(mark - 1)
                self.rigged.add(mark)
                self.chain.fix_randomness(marks[mark], MAX_ATTEMPTS)
        self.chain.mine_to(block)

    def try_draw(self, randomness: bytes) -> bool:
        """Whether the segments and auditors that a block's prevrandao gives are those that are wanted."""
        seed = compute_draw_seed(self.state.domain, self.state.index, randomness)
        return self.want_draw(replace(self.state, draw_seed=seed))

    def try_late(self, randomness: bytes) -> bool:
        """The same for the late audits."""
        seed = compute_late_seed(self.state.domain, self.state.index, randomness)
        return self.want_late(replace(self.state, late_seed=seed))
