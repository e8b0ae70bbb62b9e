"""A task played in memory: parties who act by duties, a clock that jumps, and the truth that facts tell.

The truth: which claims are false, who serves, which roots are wrong. Honest parties see it through replaying,
so they vote, sign, contest and answer by it. Cheats say what a test lets them say.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening, SignedVote
from touchstone.protocol.spec.game.claim_status import get_votes, has_undecided, list_mergeable
from touchstone.protocol.spec.game.enums import ContestTurn, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import (
    ClaimTaken,
    GameEvent,
    RoundOpened,
    SeatJoined,
    VoteCounted,
    VoteOpened,
    WeiMoved,
)
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.root_posting import get_post_window, get_waiting_round
from touchstone.protocol.spec.game.round_machine import apply, fold_all, get_state_at
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import (
    GameRound,
    GameState,
    Pool,
    Seat,
    compute_seat_id,
    create_game,
)
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    compute_draw_window,
    get_live_round,
    get_votes_from,
)
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.vault import BURNED, OUTSIDE, credit_of
from touchstone.protocol.spec.game.vote_judging import get_opening_flaw, get_vote_flaw
from touchstone.protocol.spec.statements import VoteWord

SUBMITTER, KEEPER, OTHER_KEEPER = "submitter", "keeper", "other keeper"
AMOUNTS = GameAmounts(
    solver_stake=2_000, auditor_stake=500, solver_pay=100, audit_pay=10, late_pay=20, dropped_fee=60,
    unserved_fee=70, contest_bond=300, query_bond=40, dispute_bond=80, finder_cap=150,
)  # fmt: skip
START_BLOCK = 100
OPEN_BLOCK = 103


def make_word(*parts: object) -> bytes:
    return sha256(repr(parts).encode()).digest()


def make_terms(**changes: Any) -> GameTerms:
    terms = GameTerms(
        submitter=SUBMITTER, domain=make_word("domain"), root=make_word("root"), rounds=3, segment_count=6,
        draws=1, late_chance=1 << 15, solver_seats=4, least_solvers=1, least_verifiers=3,
        least_whistleblowers=3, contest_levels=2, is_exact=False, windows=WINDOWS_LOCAL, amounts=AMOUNTS,
    )  # fmt: skip
    return replace(terms, **changes)


def make_right_root(game_round: GameRound, merged: tuple[int, ...]) -> bytes:
    roots = [game_round.claims[slot].claim_root for slot in merged]
    return make_word("merge", game_round.index, game_round.base_root, roots)


@dataclass
class Simulation:
    """log: what happened, by block; silenced: from which block a party does nothing;
    patience: after how many acts it does nothing any more; false_claims: (account,
    round); unserving: accounts that serve nobody; cheats: who does not act by duties; acts: blocks in which a
    party acted of its own accord."""

    state: GameState
    block: int = START_BLOCK
    log: list[tuple[int, GameEvent]] = field(default_factory=list)
    false_claims: set[tuple[str, int]] = field(default_factory=set)
    unserving: set[str] = field(default_factory=set)
    cheats: set[str] = field(default_factory=set)
    silenced: dict[str, int] = field(default_factory=dict)
    patience: dict[str, int] = field(default_factory=dict)
    acts: list[tuple[int, str, GameCall]] = field(default_factory=list)
    lies: dict[tuple[int, int, int, int], VoteWord] = field(default_factory=dict)
    deposited: dict[str, int] = field(default_factory=dict)
    withdrawn: dict[str, int] = field(default_factory=dict)
    accounts: dict[int, str] = field(default_factory=dict)
    claimants: dict[tuple[int, int], str] = field(default_factory=dict)
    pools: dict[int, Pool] = field(default_factory=dict)
    voters: dict[tuple[int, int, int, int], tuple[str, VoteWord]] = field(default_factory=dict)
    plans: list[Callable[["Simulation"], Iterator[tuple[str, GameCall]]]] = field(default_factory=list)
    watchers: list[Callable[["Simulation", GameEvent], None]] = field(default_factory=list)

    def send(self, call: GameCall, sender: str, is_funded: bool = True) -> None:
        """Deposits what the call takes, and sends it. Raises GameRefusal; then nothing has changed."""
        state = self.state
        events: list[GameEvent] = []
        needed = get_needed_wei(call) if is_funded else 0
        for one in ((calls.Deposit(needed),) if needed else ()) + (call,):
            logged = apply(state, one, sender, self.block)
            state = fold_all(state, logged, self.block)
            events += logged
        self.state = state
        for event in events:
            self.log.append((self.block, event))
            self._note(event)
            if isinstance(event, WeiMoved) and OUTSIDE in (event.source, event.target):
                book = self.deposited if event.source == OUTSIDE else self.withdrawn
                book[sender] = book.get(sender, 0) + event.wei

    def _note(self, event: GameEvent) -> None:
        """Whose seats and votes they were: numbers are used again."""
        for watch in self.watchers:
            watch(self, event)
        if isinstance(event, SeatJoined):
            self.accounts[event.seat] = event.account
        if isinstance(event, RoundOpened):
            self.pools[event.round] = self.state.rounds[event.round].pool
        if isinstance(event, ClaimTaken):
            seat = self.state.rounds[event.round].pool.solvers[event.slot]
            self.claimants[event.round, event.slot] = self.accounts[seat]
        if isinstance(event, VoteOpened | VoteCounted):
            game_round = self.state.rounds[event.round]
            drawn = get_drawn_seat(self.state, game_round, event.slot, event.draw, event.rank)
            word = get_votes(game_round, event.slot, event.draw)[event.rank].word
            key = (event.round, event.slot, event.draw, event.rank)
            if isinstance(event, VoteOpened) or word == VoteWord.UNSERVED:
                self.voters[key] = (self.accounts[drawn or 0], word)

    def try_send(self, call: GameCall, sender: str, is_funded: bool = True) -> str | None:
        try:
            self.send(call, sender, is_funded)
        except GameRefusal as refusal:
            return refusal.name
        return None

    def is_silent(self, account: str) -> bool:
        """Silent from a block on, or once it has acted so often."""
        acts = self.patience.get(account)
        is_tired = acts is not None and sum(sender == account for _, sender, _ in self.acts) >= acts
        return is_tired or self.block >= self.silenced.get(account, 1 << 60)

    def is_serving(self, account: str) -> bool:
        return account not in self.unserving and not self.is_silent(account)

    def is_served(self, account: str, index: int) -> bool:
        """Whether a claim of a round is shown to its auditors."""
        return self.is_serving(account)

    def choose_word(self, key: tuple[int, int, int, int], account: str) -> VoteWord:
        """What an auditor says of a draw: the truth, but for lies that a test names."""
        index, slot, _, _ = key
        return self.lies.get(key, self.get_true_word(self.state.rounds[index], slot))

    def is_signing(self, account: str, index: int) -> bool:
        """Whether a solver signs what it merged of a round."""
        return account not in self.cheats and not self.is_silent(account)

    def get_seat(self, account: str) -> Seat:
        seat = find_seat(self.state, account)
        assert seat is not None, account
        return seat

    def get_now(self) -> GameState:
        return get_state_at(self.state, self.block)

    def get_gain(self, account: str) -> int:
        return self.withdrawn.get(account, 0) - self.deposited.get(account, 0)

    # What is true
    def get_true_word(self, game_round: GameRound, slot: int) -> VoteWord:
        account = self.claimants[game_round.index, slot]
        if not self.is_served(account, game_round.index):
            return VoteWord.UNSERVED
        is_false = (account, game_round.index) in self.false_claims
        return VoteWord.REJECT_STATE if is_false else VoteWord.ACCEPT

    def is_right(self, index: int) -> bool:
        """Whether the root that was posted for a round is what its merge gives."""
        game_round = self.state.rounds[index]
        return game_round.root == make_right_root(game_round, game_round.merged)

    def is_base_right(self, game_round: GameRound) -> bool:
        """Whether everything that a round builds on was merged rightly."""
        posted = [r for r in self.state.rounds.values() if r.phase == RoundPhase.POSTED]
        return all(self.is_right(r.index) for r in posted if r.index < game_round.index)

    def is_statement_false(self, ref: Any) -> bool:
        game_round = self.state.rounds[ref.round]
        account = self.claimants[ref.round, ref.slot]
        is_claim_false = (account, ref.round) in self.false_claims
        if ref.draw is None:
            return is_claim_false
        vote = get_votes(game_round, ref.slot, ref.draw).get(ref.rank)
        word = VoteWord.ABSTAIN if vote is None else vote.word
        return word == (VoteWord.ACCEPT if is_claim_false else VoteWord.REJECT_STATE)

    # Playing
    def jump(self, block: int) -> None:
        assert block >= self.block
        self.block = block

    def play_block(self) -> bool:
        """Everything that is due in this block is done; tells whether anything was. A call that passes and
        changes nothing (a vote that counts no more) is no act: its sender would repeat it for ever."""
        for count in range(50):
            if not self._play_pass():
                return count > 0
        raise AssertionError("a block without end")

    def _play_pass(self) -> bool:
        before = len(self.acts)
        for sender, call in list(self.list_duties()):
            state = self.state
            is_sent = not self.is_silent(sender) and self.try_send(call, sender) is None
            if is_sent and self.state is not state:
                self.acts.append((self.block, sender, call))
        return len(self.acts) > before

    def play(
        self, until: Callable[["Simulation"], bool] | None = None, last_block: int = 1 << 40
    ) -> "Simulation":
        """Plays until the condition holds, or nothing is left to do."""
        for _ in range(3_000):
            self.play_block()
            if until is not None and until(self):
                return self
            later = [get_next_block(self.state, self.block), *self.list_wakes()]
            blocks = [block for block in later if block is not None and block > self.block]
            if not blocks or min(blocks) > last_block:
                return self
            self.block = min(blocks)
        raise AssertionError("a play without end")

    def list_wakes(self) -> Iterator[int]:
        live = get_live_round(self.state)
        if live is not None and live.trained_from is not None and live.closed is None:
            yield from (live.trained_from + get_training_blocks(n) for n in live.pool.solvers)
        yield from (block for block in self.silenced.values() if block > self.block)
        if live is None or live.closed is not None:
            yield self.block + 1 if self.acts and self.acts[-1][0] == self.block else 0

    def list_duties(self) -> Iterator[tuple[str, GameCall]]:
        now = self.get_now()
        for plan in self.plans:
            yield from plan(self)
        for seat in list(now.seats.values()):
            if seat.account not in self.cheats:
                yield from list_seat_duties(self, now, seat)
        for keeper in (one for one in (KEEPER, OTHER_KEEPER) if one not in self.cheats):
            yield from ((keeper, self.seal(call)) for call in list_upkeep(self.state, self.block))

    def seal(self, call: GameCall) -> GameCall:
        if not hasattr(call, "randomness"):
            return call
        return replace(call, randomness=make_word("header", type(call).__name__, self.block))  # type: ignore[call-arg]

    def withdraw_all(self) -> None:
        accounts = {str(pot.key) for pot in self.state.vault.wei if pot.kind.name == "CREDIT"}
        for account in sorted(accounts):
            self.send(calls.WithdrawCredit(), account)


def get_needed_wei(call: GameCall) -> int:
    """What a call takes from the sender's credit."""
    if isinstance(call, calls.JoinSeat | calls.TopUp):
        return call.wei
    is_bonded = isinstance(call, calls.OpenContest | calls.QueryVote | calls.DisputeStatement)
    return call.bond_limit if is_bonded else 0  # type: ignore[attr-defined]


def get_training_blocks(seat: int) -> int:
    return 30 + seat % 4


def solver(number: int) -> int:
    """The id of a solver's seat: those of `make_world` have the numbers from 0 on."""
    return compute_seat_id(SeatRole.SOLVER, number)


# Duties of an honest seat
def list_seat_duties(world: Simulation, now: GameState, seat: Seat) -> Iterator[tuple[str, GameCall]]:
    if seat.role != SeatRole.SOLVER and seat.status != SeatStatus.CONVICTED:
        yield from list_votes(world, now, seat)
    yield from list_other_duties(world, now, seat)


def list_other_duties(world: Simulation, now: GameState, seat: Seat) -> Iterator[tuple[str, GameCall]]:
    """All but votes."""
    if seat.status == SeatStatus.CONVICTED:
        return
    if seat.role == SeatRole.SOLVER:
        yield from _list_solver_duties(world, now, seat)
    yield from _list_answers(world, now, seat)


def _list_solver_duties(world: Simulation, now: GameState, seat: Seat) -> Iterator[tuple[str, GameCall]]:
    yield from list_commits(world, now, seat)
    waiting = get_waiting_round(now)
    post = None if waiting is None else make_post(world, now, waiting)
    if waiting is not None and post is not None and seat.number in waiting.pool.solvers:
        yield seat.account, post


def list_commits(world: Simulation, now: GameState, seat: Seat) -> Iterator[tuple[str, GameCall]]:
    live = get_live_round(now)
    if live is not None and live.closed is None and seat.number in live.pool.solvers:
        slot, ready = live.pool.solvers.index(seat.number), live.trained_from
        is_ready = ready is not None and world.block >= ready + get_training_blocks(seat.number)
        if slot not in live.claims and is_ready and world.is_base_right(live):
            yield seat.account, make_commit(now, live, seat)


def make_commit(now: GameState, game_round: GameRound, seat: Seat, **changes: Any) -> calls.CommitRound:
    root = make_word("claim", seat.account, game_round.index)
    segments = now.terms.segment_count
    call = calls.CommitRound(game_round.index, game_round.base_root, game_round.beacon or b"", root, segments)
    return replace(call, **changes)


def make_post(world: Simulation, now: GameState, game_round: GameRound) -> calls.PostRoot | None:
    """What the honest seats that are awake would sign: everything accepted."""
    merged = list_mergeable(now, game_round, world.block)
    first, last = get_post_window(now, game_round, world.block)
    if not merged or not first <= world.block <= last:
        return None
    if has_undecided(now, game_round, world.block) and world.block < first:
        return None
    index, solvers = game_round.index, game_round.pool.solvers
    signers = tuple(n for n in solvers if world.is_signing(now.seats[n].account, index))
    return calls.PostRoot(index, merged, make_right_root(game_round, merged), signers)


def make_vote(
    world: Simulation, now: GameState, key: tuple[int, int, int, int], word: VoteWord
) -> SignedVote:
    index, slot, draw, rank = key
    game_round = now.rounds[index]
    seed = game_round.late_seed if draw == now.terms.draws else game_round.seed
    seat = get_drawn_seat(now, game_round, slot, draw, rank)
    segment = get_drawn_segment(now, game_round, slot, draw)
    assert seat is not None and seed is not None and segment is not None
    root = game_round.claims[slot].claim_root
    return SignedVote(slot, draw, rank, root, seed, segment, word, now.seats[seat].account)


def list_votes(world: Simulation, now: GameState, seat: Seat) -> Iterator[tuple[str, GameCall]]:
    for index, game_round in now.rounds.items():
        if game_round.phase == RoundPhase.UNDONE or index < seat.settled:
            continue
        for slot, draw in list_draws(now, game_round):
            start = get_votes_from(now, game_round, draw) or 0
            if world.block > start + 3 * now.terms.windows.audit_max:
                continue
            for rank in range(3):
                if get_drawn_seat(now, game_round, slot, draw, rank) == seat.number:
                    yield from list_vote(world, now, (index, slot, draw, rank), seat.account)


def list_vote(
    world: Simulation, now: GameState, key: tuple[int, int, int, int], account: str
) -> Iterator[tuple[str, GameCall]]:
    index, slot, draw, rank = key
    game_round = now.rounds[index]
    word = world.choose_word(key, account)
    vote, opening = make_vote(world, now, key, word), HandedOpening(slot, draw, rank)
    if get_vote_flaw(now, game_round, vote, world.block) is None:
        yield account, calls.JudgeVotes(index, (vote,), (opening,))
    if get_opening_flaw(now, game_round, opening, world.block) is None:
        yield account, calls.JudgeVotes(index, (), (opening,))


def _list_answers(world: Simulation, now: GameState, seat: Seat) -> Iterator[tuple[str, GameCall]]:
    for number, query in now.queries.items():
        if query.seat == seat.number:
            exceeds_limits = world.get_true_word(now.rounds[query.statement.round], query.statement.slot)
            beyond = exceeds_limits == VoteWord.REJECT_STATE
            yield seat.account, calls.AnswerQuery(number, exceeds_limits=beyond)
    for number, contest in now.contests.items():
        is_solver = seat.role == SeatRole.SOLVER
        if is_solver and contest.turn == ContestTurn.ANSWER and world.is_right(contest.round):
            yield seat.account, calls.AnswerContest(number)
        is_at_leaf = contest.turn == ContestTurn.LEAF and contest.contester != seat.account
        if is_at_leaf and world.is_right(contest.round):
            yield seat.account, calls.BringLeaf(number)


# Making worlds
def make_world(solvers: int = 3, verifiers: int = 5, whistleblowers: int = 3, **changes: Any) -> Simulation:
    terms = make_terms(**changes)
    world = Simulation(create_game(terms, BOUNDS_LOCAL, START_BLOCK))
    groups = {"solver": (SeatRole.SOLVER, solvers), "verifier": (SeatRole.VERIFIER, verifiers)}
    groups["whistle"] = (SeatRole.WHISTLEBLOWER, whistleblowers)
    for name, (role, count) in groups.items():
        amounts = terms.amounts
        stake = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
        for i in range(count):
            world.send(calls.JoinSeat(role, stake), f"{name}{i}")
    return world


def is_drawn(world: Simulation, index: int = 0) -> bool:
    return index in world.state.rounds and world.state.rounds[index].seed is not None


def is_posted(world: Simulation, index: int = 0) -> bool:
    return index in world.state.rounds and world.state.rounds[index].phase == RoundPhase.POSTED


def get_credit(world: Simulation, account: str) -> int:
    return world.state.vault.get_wei(credit_of(account))


def get_burned(world: Simulation) -> int:
    return world.state.vault.get_wei(BURNED)


def make_quiet_world(**changes: Any) -> Simulation:
    """A world in which nobody but the keepers acts by duties, opened at block 103: round 0 runs."""
    world = make_world(**changes)
    world.cheats = {seat.account for seat in world.state.seats.values()}
    world.play(until=lambda w: 0 in w.state.rounds)
    assert world.block == OPEN_BLOCK
    return world


def commit(world: Simulation, account: str, index: int = 0, **changes: Any) -> str | None:
    """The name of the refusal, None where it passed."""
    now = world.get_now()
    return world.try_send(make_commit(now, now.rounds[index], world.get_seat(account), **changes), account)


def seal_draw(world: Simulation, index: int = 0) -> None:
    """Closes the round by the clock, and seals its draw in the first block in which that can be done."""
    world.cheats |= {KEEPER, OTHER_KEEPER}
    now = get_state_at(world.state, world.block)
    closing = compute_closing_block(now, now.rounds[index])
    world.jump(max(world.block, compute_draw_window(now, closing)[0]))
    world.send(world.seal(calls.DrawAudits(index)), KEEPER)


def vote(world: Simulation, slot: int, draw: int, rank: int, word: VoteWord, index: int = 0) -> bool:
    """Hands in the vote of the drawn seat; tells whether it counted."""
    before = get_votes(world.state.rounds[index], slot, draw)
    world.send(
        calls.JudgeVotes(index, (make_vote(world, world.get_now(), (index, slot, draw, rank), word),)), "x"
    )
    return len(get_votes(world.state.rounds[index], slot, draw)) > len(before)


def post(
    world: Simulation, signers: tuple[int, ...], merged: tuple[int, ...], index: int = 0, **facts: Any
) -> str | None:
    """Posts the right root unless `root` says another, signed by the solver seats of these numbers; the name
    of the refusal, None where it passed."""
    root = facts.get("root") or make_right_root(world.state.rounds[index], merged)
    seats = tuple(solver(number) for number in signers)
    return world.try_send(calls.PostRoot(index, merged, root, seats), "poster")


def check_game_call(state: GameState, call: GameCall, sender: str, block: int) -> GameRefusal | None:
    """The refusal of a call, None where it would pass."""
    try:
        apply(state, call, sender, block)
    except GameRefusal as refusal:
        return refusal
    return None
