"""Plays a task at random on machine and contracts at once: honest work, refusals, wrong moves, silence."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.kit.members import make_word
from tests.rounds.twin import STRANGER, Twin
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening, SignedVote
from touchstone.protocol.spec.game.claim_status import get_votes, list_mergeable
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.pools import list_unclosed
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.round_machine import apply, get_state_at
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.game.timing import get_live_round, is_late_draw
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.statements import VoteWord

WORDS = (
    [VoteWord.ACCEPT] * 12
    + [VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA]
    + [VoteWord.UNSERVED, VoteWord.ABSTAIN]
)


class Player:
    """counts: accepted and refused calls by kind; is_quiet: only useful moves; left_out: upkeep that nobody
    sends."""

    is_quiet = False
    left_out: tuple[type[GameCall], ...] = ()

    def __init__(self, twin: Twin, seed: int, solvers: list[str], auditors: list[str]) -> None:
        self.twin, self.dice = twin, random.Random(seed)
        self.solvers, self.auditors = solvers, auditors
        self.counts: Counter[tuple[str, str | None]] = Counter()

    def do(self, call: GameCall, sender: str = STRANGER) -> str | None:
        """One call to both."""
        refused = self.twin.do(call, sender)
        self.counts[type(call).__name__, refused] += 1
        return refused

    def join_all(self) -> None:
        """Everybody gets a seat."""
        amounts = self.twin.state.terms.amounts
        for name in self.solvers:
            self.do(calls.Deposit(4 * amounts.solver_stake), name)
            self.do(calls.JoinSeat(SeatRole.SOLVER, amounts.solver_stake), name)
        for number, name in enumerate(self.auditors):
            role = SeatRole.VERIFIER if number % 2 else SeatRole.WHISTLEBLOWER
            self.do(calls.Deposit(4 * amounts.auditor_stake), name)
            self.do(calls.JoinSeat(role, amounts.auditor_stake), name)
        self.do(calls.Deposit(100_000), STRANGER)

    def play(self, steps: int) -> None:
        """So many steps, or until the task is closed."""
        for _ in range(steps):
            if self.twin.state.is_closed:
                return
            self.step()

    def step(self) -> None:
        """Something useful mostly, something wrong now and then, else the clock goes on."""
        moves = [
            self._upkeep,
            self._commit,
            self._judge,
            self._post,
            self._upkeep,
            self._commit,
            self._judge,
            self._post,
        ]
        self.dice.shuffle(moves)
        if not self.is_quiet and self.dice.random() < 0.15:
            moves.insert(0, self.dice.choice([self._mischief, self._members, self._questions]))
        if not any(move() for move in moves):
            self._wait()

    def keep(self) -> None:
        """What anybody may send, else the clock goes on."""
        if not self._upkeep():
            self._wait()

    def _wait(self) -> None:
        block = self.twin.chain.get_block()
        following = get_next_block(self.twin.state, block + 1)
        self.twin.chain.mine_to(
            block + 1 if following is None else max(block + 1, min(following - 1, block + 400))
        )

    # Useful moves
    def _upkeep(self) -> bool:
        listed = list_upkeep(self.twin.state, self.twin.get_block())
        due = [call for call in listed if not isinstance(call, self.left_out)]
        if not due:
            return False
        self.do(self.dice.choice(due))
        return True

    def _live(self) -> GameRound | None:
        return get_live_round(get_state_at(self.twin.state, self.twin.get_block()))

    def _commit(self) -> bool:
        live, state = self._live(), self.twin.state
        if live is None or live.closed is not None or live.beacon is None:
            return False
        missing = [n for slot, n in enumerate(live.pool.solvers) if slot not in live.claims]
        missing = [n for n in list_unclosed(state, tuple(missing)) if (n + live.index) % 7]
        if not missing:
            return False
        seat = state.seats[self.dice.choice(missing)]
        count = state.terms.segment_count
        segments = self.dice.choice([count, count, count, 3 * state.terms.draws - 2])
        root = make_word("claim", live.index, seat.number)
        return (
            self.do(
                calls.CommitRound(live.index, live.base_root, live.beacon, root, segments),
                self._name(seat.account),
            )
            is None
        )

    def _name(self, account: str) -> str:
        return next(name for name, one in self.twin.parties.items() if one.address == account)

    def _judge(self) -> bool:
        state = self.twin.state
        rounds = [
            one for one in state.rounds.values() if one.seed is not None and one.phase != RoundPhase.UNDONE
        ][-3:]
        for game_round in self.dice.sample(rounds, len(rounds)):
            votes, openings = self._cast(game_round)
            call = calls.JudgeVotes(game_round.index, tuple(votes), tuple(openings))
            if votes and (self._changes(call) or self.dice.random() < 0.05):
                return self.do(call) is None
        return False

    def _changes(self, call: GameCall) -> bool:
        """Whether anything comes of a call: votes that do not count are skipped, not refused."""
        return bool(apply(self.twin.state, call, STRANGER, self.twin.get_block()))

    def _cast(self, game_round: GameRound) -> tuple[list[SignedVote], list[HandedOpening]]:
        state, votes, openings = self.twin.state, list[SignedVote](), list[HandedOpening]()
        for slot, draw in list_draws(state, game_round):
            counted = get_votes(game_round, slot, draw)
            for rank in range(3):
                if rank in counted or self.dice.random() < (0.2 if rank == 0 else 0.75):
                    continue
                vote = self._sign(game_round, slot, draw, rank)
                if vote is None:
                    continue
                votes.append(vote)
                if self.dice.random() < 0.8:
                    openings.append(HandedOpening(slot, draw, rank))
        return votes, openings

    def _sign(self, game_round: GameRound, slot: int, draw: int, rank: int) -> SignedVote | None:
        state = self.twin.state
        seat, segment = (
            get_drawn_seat(state, game_round, slot, draw, rank),
            get_drawn_segment(state, game_round, slot, draw),
        )
        seed = game_round.late_seed if is_late_draw(state, draw) else game_round.seed
        if seat is None or segment is None or seed is None or seat not in state.seats:
            return None
        rng = random.Random(f"{game_round.index} {slot} {draw} {rank} {self.twin.task.hex()}")
        word, claim = rng.choice(WORDS), game_round.claims[slot]
        return SignedVote(slot, draw, rank, claim.claim_root, seed, segment, word, state.seats[seat].account)

    def _post(self) -> bool:
        state = get_state_at(self.twin.state, self.twin.get_block())
        waiting = get_waiting_round(state)
        if waiting is None:
            return False
        merged = list_mergeable(state, waiting, self.twin.get_block())
        if not merged:
            return False
        signers = list_unclosed(state, waiting.pool.solvers)
        if self.dice.random() < 0.5:
            signers = signers[: len(signers) // 2 + self.dice.choice([0, 1, 1, 1, 1])]
        root = self.twin.make_root(waiting.index, merged, waiting.fallen)
        return self.do(calls.PostRoot(waiting.index, merged, root, signers)) is None

    # Others
    def _members(self) -> bool:
        state = self.twin.state
        name = self.dice.choice([*self.solvers, *self.auditors, "submitter"])
        account = self.twin.parties[name].address
        seat = next((one for one in state.seats.values() if one.account == account), None)
        amounts = state.terms.amounts
        role = (
            SeatRole.SOLVER
            if name in self.solvers
            else self.dice.choice([SeatRole.VERIFIER, SeatRole.WHISTLEBLOWER])
        )
        stake = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
        options: list[GameCall] = [
            calls.Deposit(self.dice.choice([0, 5, 500])), calls.WithdrawCredit(),
            calls.JoinSeat(role, stake + self.dice.randint(-1, 50)),
        ]  # fmt: skip
        if seat is not None:
            options += [calls.TopUp(seat.number, self.dice.randint(0, 100)), calls.PayOut(seat.number)]
            if self.dice.random() < 0.3:
                options.append(calls.LeaveSeat(seat.number))
        if self.dice.random() < 0.01:
            options.append(calls.HaltTask())
        self.do(self.dice.choice(options), name)
        return True

    def _questions(self) -> bool:
        """Of one kind, so that what is rare in a round is not rare in a play."""
        kinds = [self._list_contests(), self._list_asks(), self._list_disputes(), self._list_turns()]
        options = self.dice.choice([one for one in kinds if one] or [[]])
        if options:
            self.do(self.dice.choice(options), self.dice.choice([STRANGER, STRANGER, *self.solvers]))
        return bool(options)

    def _list_contests(self) -> list[GameCall]:
        state, rounds = self.twin.state, list(self.twin.state.rounds.items())[-6:]
        bond = state.terms.amounts.contest_bond * (1 + len(state.contests))
        posted = [index for index, one in rounds if one.phase == RoundPhase.POSTED]
        return [calls.OpenContest(index, bond + _get_spare(index)) for index in posted]

    def _list_asks(self) -> list[GameCall]:
        state, options = self.twin.state, list[GameCall]()
        for index, game_round in list(state.rounds.items())[-6:]:
            for (slot, draw), votes in game_round.votes.items():
                for rank, vote in votes.items():
                    ref = StatementRef(index, slot, draw, rank)
                    seat = get_drawn_seat(state, game_round, slot, draw, rank)
                    bonds = 1 + sum(one.seat == seat for one in state.queries.values())
                    leaf = int((index + slot + rank) % 5 == 4)
                    bond = state.terms.amounts.query_bond * bonds
                    options.append(calls.QueryVote(ref, vote.word, leaf, bond + _get_spare(slot)))
        return options

    def _list_disputes(self) -> list[GameCall]:
        state, options = self.twin.state, list[GameCall]()
        for index, game_round in list(state.rounds.items())[-6:]:
            for slot, claim in game_round.claims.items():
                bonds = 1 + sum(one.seat == claim.seat for one in state.disputes.values())
                wei = state.terms.amounts.dispute_bond * bonds
                options.append(calls.DisputeStatement(StatementRef(index, slot), wei + _get_spare(slot)))
        return options

    def _list_turns(self) -> list[GameCall]:
        """Moves in open contests, right or wrong."""
        numbers = list(self.twin.state.contests)
        answers: list[GameCall] = [calls.AnswerContest(number) for number in numbers]
        return answers + [calls.NameChild(number, 0) for number in numbers]

    def _mischief(self) -> bool:
        """A wrong or early call."""
        live, state = self._live(), self.twin.state
        index = 0 if live is None else live.index
        options: list[tuple[GameCall, str]] = [
            (calls.StartRounds(), STRANGER), (calls.DrawStart(), STRANGER),
            (calls.DrawAudits(index), STRANGER),
            (calls.DrawClosing(), STRANGER), (calls.LetStand(index), STRANGER), (calls.FreeEpoch(), STRANGER),
            (calls.CloseTask(), STRANGER), (calls.HaltTask(), STRANGER), (calls.DrawRound(index), STRANGER),
            (calls.PayOut(1 << 16), STRANGER), (calls.SettleSeat(1 << 16, max(index - 1, 0)), STRANGER),
            (calls.SettleSeat(99, index + 9), STRANGER), (calls.SettleSeat(99, 0), STRANGER),
            (calls.OpenContest(index, state.terms.amounts.contest_bond - 1), STRANGER),
        ]  # fmt: skip
        if live is not None and live.beacon is not None:
            right = calls.CommitRound(
                live.index, live.base_root, live.beacon, make_word("x"), state.terms.segment_count
            )
            wrong: list[Any] = [
                {"base_root": make_word("y")},
                {"beacon": make_word("z")},
                {"segments": 0},
                {"segments": 99},
                {},
            ]
            sender = self.dice.choice([*self.solvers, STRANGER])
            options += [(replace(right, **self.dice.choice(wrong)), sender)] * 4
        self.do(*self.dice.choice(options))
        return True


def _get_spare(number: int) -> int:
    """So much more than what is due the call pays at most."""
    return number % 3 * 100
