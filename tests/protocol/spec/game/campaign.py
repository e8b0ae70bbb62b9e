"""Hostile calls at random against honest parties who act by duties, with everything checked after each step.

Facts tell the truth: a proof against an honest statement is never good. Whatever a cheat could sign or say
itself, it may. `./dev` runs a short campaign in the tests; TOUCHSTONE_GAME_EXAMPLES makes it longer.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.protocol.spec.game.cashier import open_cashier
from tests.protocol.spec.game.payday import Bookkeeper
from tests.protocol.spec.game.silences import find_silences
from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    START_BLOCK,
    SUBMITTER,
    Simulation,
    list_commits,
    list_votes,
    make_commit,
    make_terms,
    make_vote,
    make_word,
    make_world,
)
from touchstone.protocol.spec.game import calls, epochs
from touchstone.protocol.spec.game.assignments import get_drawn_seat, list_draws
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening
from touchstone.protocol.spec.game.claim_status import get_votes, list_mergeable
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import (
    GameEvent,
    RoundOpened,
    SeatConvicted,
    SeatFreed,
    SeatJoined,
    SeatLeft,
    WeiMoved,
)
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.open_questions import (
    count_open_disputes,
    count_open_queries,
    list_questions,
)
from touchstone.protocol.spec.game.pools import find_seat, get_stake
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_12S, WINDOWS_LOCAL
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.settling import get_settle_flaw, get_settled_until
from touchstone.protocol.spec.game.silence import find_silent_seats
from touchstone.protocol.spec.game.state import MissedPlace, StatementRef, create_game
from touchstone.protocol.spec.game.statement_seats import find_statement_seat
from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows, compute_escrow
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.game.vault import PotKind
from touchstone.protocol.spec.statements import VoteWord

PASSED: Counter[str] = Counter()
SENT: Counter[str] = Counter()
REACHED: Counter[str] = Counter()
"""Calls that passed and calls sent by kind, and outcomes reached, over all plays: a campaign that only
collects refusals proves nothing."""
SMALL, PICK = st.integers(0, 6), st.integers(0, 1 << 16)
WORDS = st.sampled_from(list(VoteWord))
LIES = st.sampled_from([None, *VoteWord])
CONFLICTS = (VoteWord.UNSERVED,)
TIGHT = GameWindows(
    delay=1, draw_grid=1, train_min=34, train_max=34, audit_max=12, post=2, respond=4, dispute=76, query=288,
)  # fmt: skip
"""As short as the deployment allows, but for the training that honest solvers need."""
TINY = replace(AMOUNTS, solver_pay=1, audit_pay=1, late_pay=1, contest_bond=1, query_bond=1, dispute_bond=1)
HUGE = GameAmounts(**{one.name: BOUNDS_LOCAL.amount_max for one in fields(GameAmounts)})


@dataclass(frozen=True)
class Strategy:
    """What the cheats of a play do as a rule, besides what is drawn call by call. lie: what they say of every
    draw, None where they are silent; is_forging: they post wrong roots where they are enough."""

    is_committing: bool
    is_false: bool
    is_serving: bool
    lie: VoteWord | None
    is_forging: bool

    def plan(self, world: Simulation) -> Iterator[tuple[str, GameCall]]:
        """Their calls at this block."""
        now = world.get_now()
        for seat in [one for one in now.seats.values() if one.account in world.cheats]:
            if self.is_committing:
                yield from list_commits(world, now, seat)
            for _, call in list_votes(world, now, seat) if self.lie else ():
                assert isinstance(call, calls.JudgeVotes)
                votes = tuple(replace(one, word=self.lie or one.word) for one in call.votes)
                yield seat.account, replace(call, votes=votes)
        waiting = get_waiting_round(now)
        if self.is_forging and waiting is not None:
            signers = tuple(n for n in waiting.pool.solvers if now.seats[n].account in world.cheats)
            merged = list_mergeable(now, waiting, world.block)
            yield "pest", calls.PostRoot(waiting.index, merged, make_word("forged"), signers)


class Campaign(RuleBasedStateMachine):
    """One task. hostile: accounts that do not act by duties; `pest` has no seat."""

    world: Simulation

    @initialize(
        solvers=st.integers(0, 3), verifiers=st.integers(0, 3), whistles=st.integers(0, 2),
        rounds=st.integers(2, 6), late=st.sampled_from([0, 1 << 15, 1 << 16]), draws=st.integers(1, 2),
        ahead=st.integers(3, 60), epoch=st.sampled_from([1, 2, 16]),
        windows=st.sampled_from([WINDOWS_LOCAL, WINDOWS_LOCAL, TIGHT, WINDOWS_12S]),
        amounts=st.sampled_from([AMOUNTS, AMOUNTS, TINY, HUGE]),
        strategy=st.builds(Strategy, st.booleans(), st.booleans(), st.booleans(), LIES, st.booleans()),
    )  # fmt: skip
    def begin(
        self,
        solvers: int,
        verifiers: int,
        whistles: int,
        rounds: int,
        late: int,
        draws: int,
        ahead: int,
        epoch: int,
        windows: GameWindows,
        amounts: GameAmounts,
        strategy: Strategy,
    ) -> None:
        self.ring = patch.multiple(epochs, EPOCH_ROUNDS=epoch, RING_ROUNDS=4 * epoch)
        self.ring.start()
        self.amounts = amounts
        self.changes: dict[str, Any] = {"rounds": rounds, "late_chance": late, "draws": draws}
        self.changes |= {"least_verifiers": 3 * draws, "solver_seats": 5}
        self.changes |= {"windows": windows, "amounts": amounts}
        assert check_terms(make_terms(**self.changes), BOUNDS_LOCAL) is None
        self.world = make_world(solvers=4, verifiers=7, whistleblowers=4, **self.changes)
        counts = {"solver": solvers, "verifier": verifiers, "whistle": whistles}
        self.world.cheats = {f"{name}{i}" for name, count in counts.items() for i in range(count)}
        self.world.cheats |= {"pest", "stranger"}
        self.books = Bookkeeper({seat.number: seat.settled for seat in self.world.state.seats.values()})
        self.world.watchers = [self.books.watch]
        self.world.plans = [plan_watcher, strategy.plan]
        self.cashier = open_cashier(self.world)
        self.owners: dict[tuple[int, int], str] = {}
        self.seen = 0
        if strategy.is_false:
            self.world.false_claims |= {(one, r) for one in self.world.cheats for r in range(rounds)}
        if not strategy.is_serving:
            self.world.unserving |= self.world.cheats
        self.sent = 0
        self.pass_time(ahead)

    # Time
    @rule(steps=st.integers(1, 12))
    def wait(self, steps: int) -> None:
        self.pass_time(steps)

    def pass_time(self, steps: int) -> None:
        """Honest parties are awake: they act in every block in which something may have become due."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        self.world.play_block()
        later = [get_next_block(self.world.state, self.world.block), *self.world.list_wakes()]
        blocks = [one for one in later if one is not None and one > self.world.block]
        self.world.block = min(blocks, default=self.world.block + 1)

    @rule()
    def pass_block(self) -> None:
        self.world.play_block()
        self.world.block += 1

    # Cheats
    def send(self, call: GameCall, sender: str) -> None:
        name = type(call).__name__
        SENT[name] += 1
        if self.world.try_send(call, sender) is None:
            PASSED[name] += 1
        self.sent += 1
        if self.sent % 3 == 0:
            self.step()

    def pick_cheat(self, pick: int) -> str:
        cheats = sorted(self.world.cheats)
        return cheats[pick % len(cheats)]

    def pick_round(self, index: int) -> int:
        """An opened round, the newest for 0; now and then none."""
        opened = sorted(self.world.state.rounds, reverse=True)
        return opened[index % len(opened)] if opened and index < 6 else index

    def is_cheating(self, number: int | None) -> bool:
        seat = None if number is None else self.world.state.seats.get(number)
        return seat is not None and seat.account in self.world.cheats

    @rule(pick=PICK, is_false=st.booleans(), is_served=st.booleans(), base=st.sampled_from([None, b"other"]))
    def commit(self, pick: int, is_false: bool, is_served: bool, base: bytes | None) -> None:
        live, now = get_live_round(self.world.get_now()), self.world.get_now()
        seat = find_seat(now, self.pick_cheat(pick))
        if live is None or seat is None:
            return
        if is_false and (seat.number not in [one.seat for one in live.claims.values()]):
            self.world.false_claims.add((seat.account, live.index))
        (self.world.unserving.discard if is_served else self.world.unserving.add)(seat.account)
        call = make_commit(now, live, seat)
        self.send(call if base is None else replace(call, base_root=base), seat.account)

    @rule(index=SMALL, pick=PICK, word=WORDS, rank=st.integers(0, 2), is_open=st.booleans())
    def vote(self, index: int, pick: int, word: VoteWord, rank: int, is_open: bool) -> None:
        now = self.world.get_now()
        places = list_draws(now, now.rounds[index]) if index in now.rounds else ()
        hostile = [
            place
            for place in places
            if self.is_cheating(get_drawn_seat(now, now.rounds[index], *place, rank))
        ]
        if not hostile:
            return
        slot, draw = hostile[pick % len(hostile)]
        vote = make_vote(self.world, now, (index, slot, draw, rank), word)
        openings = (HandedOpening(slot, draw, rank),) if is_open else ()
        self.send(calls.JudgeVotes(index, (vote, vote), openings), "pest")

    @rule(index=SMALL, mask=st.integers(0, 31), is_wrong=st.booleans())
    def post(self, index: int, mask: int, is_wrong: bool) -> None:
        """A wrong root, or a right one of fewer claims, by those who would sign it."""
        now, index = self.world.get_now(), self.pick_round(index)
        if index not in now.rounds:
            return
        game_round = now.rounds[index]
        merged = tuple(slot for slot in range(5) if mask >> slot & 1)
        signers = tuple(n for n in game_round.pool.solvers if self.is_cheating(n))
        roots = [game_round.claims[slot].claim_root for slot in merged if slot in game_round.claims]
        root = make_word("merge", index, game_round.base_root, roots)
        self.send(calls.PostRoot(index, merged, make_word("wrong") if is_wrong else root, signers), "pest")

    @rule(index=SMALL, extra=st.sampled_from([0, 0, 1]))
    def contest(self, index: int, extra: int) -> None:
        bond = self.amounts.contest_bond * (1 + len(self.world.state.contests)) + extra
        self.send(calls.OpenContest(self.pick_round(index), bond), "pest")

    @rule(pick=PICK, child=SMALL)
    def move_in_contest(self, pick: int, child: int) -> None:
        for number in list(self.world.state.contests)[pick % 3 :][:1]:
            self.send(calls.NameChild(number, child), "pest")
            self.send(calls.AnswerContest(number), "pest")

    def pick_statement(self, index: int, pick: int) -> StatementRef | None:
        now, index = self.world.get_now(), self.pick_round(index)
        places = list_draws(now, now.rounds[index]) if index in now.rounds else ()
        if not places:
            return None
        slot, draw = places[pick % len(places)]
        return StatementRef(index, slot, None if pick % 2 else draw, pick // 7 % 3)

    @rule(index=SMALL, pick=PICK, word=WORDS, times=st.integers(1, 3))
    def ask(self, index: int, pick: int, word: VoteWord, times: int) -> None:
        """An honest seat signs one word of a draw only."""
        ref = self.pick_statement(index, 2 * pick)
        if ref is None or ref.draw is None:
            return
        now, number = self.world.get_now(), find_statement_seat(self.world.get_now(), ref)
        vote = get_votes(now.rounds[ref.round], ref.slot, ref.draw).get(ref.rank)
        word = vote.word if vote is not None and times > 1 else word
        signed = self.is_cheating(number) or (vote is not None and vote.word == word)
        bond = self.amounts.query_bond * (1 + count_open_queries(now, number or 0))
        self.send(calls.QueryVote(ref, word, 1, bond + times // 3, is_signed=signed), "pest")

    @rule(pick=PICK, exceeds_limits=st.booleans())
    def answer_ask(self, pick: int, exceeds_limits: bool) -> None:
        """What a cheat signed may lie anywhere."""
        for number, query in list(self.world.state.queries.items())[pick % 3 :][:1]:
            if self.is_cheating(query.seat):
                self.send(calls.AnswerQuery(number, exceeds_limits=exceeds_limits), "pest")

    @rule(index=SMALL, pick=PICK, times=st.integers(1, 3))
    def dispute(self, index: int, pick: int, times: int) -> None:
        ref = self.pick_statement(index, pick)
        if ref is not None:
            number = find_statement_seat(self.world.get_now(), ref) or 0
            bond = self.amounts.dispute_bond * (1 + count_open_disputes(self.world.state, number))
            self.send(calls.DisputeStatement(ref, bond + times // 3), "pest")

    @rule(pick=PICK, outcome=st.sampled_from([GameOutcome.CONVICTED, GameOutcome.CLEARED]))
    def end_dispute(self, pick: int, outcome: GameOutcome) -> None:
        """Who answers truthfully is not convicted; a cheat may be, or not."""
        for number, dispute in list(self.world.state.disputes.items())[pick % 3 :][:1]:
            true = outcome if self.is_cheating(dispute.seat) else GameOutcome.CLEARED
            self.send(calls.EndDispute(number, outcome=true), "pest")

    @rule(index=SMALL, pick=PICK, proof=st.sampled_from(list(ProofKind)))
    def convict(self, index: int, pick: int, proof: ProofKind) -> None:
        ref, digest = self.pick_statement(index, pick), make_word("digest", pick % 3)
        if ref is not None:
            is_valid = self.is_cheating(find_statement_seat(self.world.get_now(), ref))
            self.send(calls.ConvictSeat(ref, proof, digest, is_valid=is_valid), "pest")
        self.send(calls.CommitProof(digest), "pest")

    @rule(pick=PICK, role=st.sampled_from(list(SeatRole)), extra=st.integers(0, 2))
    def come_and_go(self, pick: int, role: SeatRole, extra: int) -> None:
        account = self.pick_cheat(pick)
        seat = find_seat(self.world.state, account)
        stake = self.amounts.solver_stake if role == SeatRole.SOLVER else self.amounts.auditor_stake
        if seat is None:
            self.send(calls.JoinSeat(role, stake + extra), account)
        elif extra == 0:
            self.send(calls.LeaveSeat(seat.number), account)
        else:
            self.send(calls.TopUp(seat.number, extra), account)

    @rule(pick=PICK, a=st.integers(0, 16), b=SMALL)
    def meddle(self, pick: int, a: int, b: int) -> None:
        """Any other call with any numbers, by anybody."""
        word, seats = make_word("meddling", pick), [*sorted(self.world.state.seats), 99]
        seat = seats[a % len(seats)]
        missed = tuple(MissedPlace(i * (b % 2), b // 2 + i, pick % 3) for i in range(3))
        options: list[GameCall] = [
            calls.MarkSilent(seat, missed), calls.PayOut(seat), calls.FreeEpoch(), calls.Deposit(a),
            calls.WithdrawCredit(), calls.CloseTask(),
            calls.StartRounds(), calls.DrawStart(randomness=word), calls.DrawRound(a, randomness=word),
            calls.DrawAudits(a, randomness=word), calls.DrawClosing(randomness=word), calls.LetStand(a),
            calls.SettleSeat(seat, b), calls.EndRootContest(a), calls.EndQuery(a),
            calls.BringLeaf(a, is_right=False), calls.AnswerContest(a, is_hashing=False),
            calls.AnswerQuery(a, is_fitting=False), calls.EndDispute(a),
        ]  # fmt: skip
        self.send(options[pick % len(options)], self.pick_cheat(pick // 64))

    @precondition(lambda self: self.world.state.next_round > 1)
    @rule()
    def halt(self) -> None:
        self.send(calls.HaltTask(), SUBMITTER)

    # What must hold
    @invariant()
    def money_is_neither_made_nor_lost(self) -> None:
        world = self.world
        total = world.state.vault.compute_total() + sum(world.withdrawn.values())
        assert total == compute_escrow(world.state.terms) + sum(world.deposited.values())
        assert all(wei > 0 for wei in world.state.vault.wei.values())
        assert not [pot for pot in world.state.vault.wei if pot.kind == PotKind.SLASHED]

    @invariant()
    def the_account_of_money_adds_up(self) -> None:
        self.cashier.take(self.world.log)
        self.cashier.check(self.world.block)

    @invariant()
    def honest_seats_are_neither_closed_nor_charged_nor_marked(self) -> None:
        logged = [event for _, event in self.world.log[self.seen :]]
        paid_out = {event.seat for event in logged if isinstance(event, SeatFreed)}
        for event in logged:
            # A seat that is paid out once the task is over leaves in the same call.
            if not (isinstance(event, SeatLeft) and event.seat in paid_out):
                self.check_event(event)
        self.seen = len(self.world.log)
        for seat in self.world.state.seats.values():
            if not self.is_cheating(seat.number):
                assert not find_silences(self.world.get_now(), seat, self.world.block)

    @invariant()
    def what_upkeep_lists_is_all_that_is_due(self) -> None:
        """The short ways of `list_upkeep` come to what the rules say of each seat by itself."""
        now, block = self.world.get_now(), self.world.block
        seats = [seat for seat in now.seats.values() if seat.status == SeatStatus.ACTIVE]
        silences = {seat.number: find_silences(now, seat, block) for seat in seats}
        assert find_silent_seats(now, block) == {n: missed for n, missed in silences.items() if missed}
        for seat in now.seats.values():
            rounds = range(seat.settled, now.next_round)
            passing = [r for r in rounds if get_settle_flaw(now, seat, r, block) is None]
            assert get_settled_until(now, seat, block) == max(passing, default=seat.settled - 1)

    def check_event(self, event: GameEvent) -> None:
        if isinstance(event, SeatJoined):
            self.owners[event.seat, -1] = event.account
        if isinstance(event, RoundOpened):
            pool = self.world.pools[event.round]
            for number in (*pool.solvers, *pool.verifiers, *pool.whistleblowers):
                self.owners[number, event.round] = self.owners[number, -1]
        if isinstance(event, SeatConvicted):
            REACHED[f"convicted {event.proof.name}"] += 1
            assert not self.is_honest(event.seat), "an honest seat was closed"
        if isinstance(event, SeatLeft):
            assert not self.is_honest(event.seat), "an honest seat was made to leave"
        if isinstance(event, WeiMoved) and event.source.kind == PotKind.STAKE:
            is_fee = event.target.kind == PotKind.BURNED and self.is_honest(int(event.source.key))
            assert not is_fee or self.is_unserved_fee(int(event.source.key), event.wei)
        name = getattr(getattr(event, "outcome", None), "name", "")
        REACHED[f"{type(event).__name__} {name}".strip()] += 1

    def is_honest(self, number: int) -> bool:
        return self.owners[number, -1] not in self.world.cheats

    def is_unserved_fee(self, number: int, wei: int) -> bool:
        """The one fee that an honest seat pays: two cheats said UNSERVED of its claim, or it said so itself,
        truthfully. Several are taken at once; the last one takes what is left of the stake."""
        account, left = self.owners[number, -1], get_stake(self.world.state, number)
        words = [(voter, word) for voter, word in self.world.voters.values() if word in CONFLICTS]
        is_own = any(voter == account for voter, _ in words)
        is_by_cheats = sum(voter in self.world.cheats for voter, _ in words) >= 2
        is_whole = wei % self.amounts.unserved_fee == 0 or not left
        return is_whole and (is_own or is_by_cheats)

    @invariant()
    def seats_stay_while_something_names_them(self) -> None:
        state = self.world.state
        questions = [one for number in state.seats for one in list_questions(state, number)]
        assert len(questions) == len(state.queries) + len(state.disputes), "each names a seat that is there"
        for question in questions:
            owner = self.owners[question.seat, question.statement.round]
            assert state.seats[question.seat].account == owner
        contested = {contest.round for contest in state.contests.values()}
        for index, game_round in state.rounds.items():
            is_live = game_round.phase in (RoundPhase.RUNNING, RoundPhase.FALLEN)
            if is_live or index in contested:
                for number in (*game_round.pool.solvers, *game_round.pool.verifiers):
                    assert state.seats[number].account == self.owners[number, index]

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            if hasattr(self, "ring"):
                self.ring.stop()

    def finish(self) -> None:
        """All fall silent but one keeper: the task closes, all stakes and credits come out."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.plans, world.cheats = (
            [],
            {*world.cheats, *(seat.account for seat in world.state.seats.values())},
        )
        world.cheats.add("other keeper")
        world.play()
        assert world.state.is_closed and not world.state.seats
        assert {pot.kind for pot in world.state.vault.wei} <= {PotKind.CREDIT, PotKind.BURNED}
        REACHED["settlements that owed something"] += self.books.count
        self.check_fold()

    def check_fold(self) -> None:
        state = create_game(make_terms(**self.changes), BOUNDS_LOCAL, START_BLOCK)
        for block, event in self.world.log:
            state = fold(state, event, block)
        assert state == self.world.state


def plan_watcher(world: Simulation) -> Iterator[tuple[str, GameCall]]:
    """An honest outsider contests what it merged otherwise."""
    now = world.get_now()
    for index, game_round in now.rounds.items():
        is_posted = game_round.phase == RoundPhase.POSTED
        is_watched = any(c.contester == "watcher" and c.round == index for c in now.contests.values())
        if is_posted and not world.is_right(index) and not is_watched:
            bond = now.terms.amounts.contest_bond * (1 + len(world.state.contests))
            yield "watcher", calls.OpenContest(index, bond)
    for number, contest in now.contests.items():
        if contest.contester == "watcher" and contest.turn.name == "CONTESTER":
            yield "watcher", calls.NameChild(number, 1)
        if contest.turn.name == "LEAF" and world.is_right(contest.round):
            yield "watcher", calls.BringLeaf(number)
