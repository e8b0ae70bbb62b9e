"""One task in memory: parties by name, a clock in blocks, money, and a play that reads as a story.

    world = World("a liar")
    ann, bob = world.solvers("ann", "bob")
    vic, *others = world.verifiers("vic", "wil", "xia")
    world.starts()
    ann.commits(); bob.commits()
    world.draws()
    vic.rejects("ann")
    with world.refuses("NotHolder"):
        bob.leaves(ann)

Every call goes to the pure machine. Claims, votes, signatures and headers are real, so that the same call
can be sent to the contracts (`traces.py`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tests.kit.actor import Actor
from tests.kit.dispute_moves import DisputeMoves
from tests.kit.played_claims import PlayedClaim
from tests.kit.played_roots import TensorLeaf, make_trees
from tests.kit.played_shares import PlayedShares
from tests.kit.played_task import STRANGER, SUBMITTER
from tests.kit.proofs import Proofs
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.calls import HandedOpening, SignedVote
from touchstone.protocol.spec.game.claim_status import list_mergeable
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.events import GameEvent
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.round_machine import apply, fold_all, get_state_at
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import (
    GameRound,
    Seat,
    StatementRef,
)
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    compute_draw_window,
    get_closing_from,
    get_duty_until,
    get_live_round,
    is_late_draw,
)
from touchstone.protocol.spec.game.vault import HELD, credit_of, stake_of
from touchstone.protocol.spec.statements import VoteWord


class World(PlayedShares):
    """A task with its parties, its rounds and its end."""

    # Parties
    def anybody(self, name: str = STRANGER) -> "Actor":
        """Returns a party as it is, with a seat or without."""
        self.get_party(name)
        return Actor(self, name)

    @property
    def submitter(self) -> "Actor":
        """Who posted the task."""
        return Actor(self, SUBMITTER)

    def solver(self, name: str, wei: int | None = None) -> "Actor":
        """Returns a solver; it takes a seat where it has none."""
        return self._seated(SeatRole.SOLVER, name, wei)

    def verifier(self, name: str, wei: int | None = None) -> "Actor":
        """Returns a verifier; it takes a seat where it has none."""
        return self._seated(SeatRole.VERIFIER, name, wei)

    def whistleblower(self, name: str, wei: int | None = None) -> "Actor":
        """Returns a whistleblower; it takes a seat where it has none."""
        return self._seated(SeatRole.WHISTLEBLOWER, name, wei)

    def _seated(self, role: SeatRole, name: str, wei: int | None) -> "Actor":
        actor = Actor(self, name)
        if self.find_seat(name) is None:
            actor.joins(role, wei)
        return actor

    def solvers(self, *names: str) -> list["Actor"]:
        """Returns solvers, seated."""
        return [self.solver(name) for name in names]

    def verifiers(self, *names: str) -> list["Actor"]:
        """Returns verifiers, seated."""
        return [self.verifier(name) for name in names]

    def whistleblowers(self, *names: str) -> list["Actor"]:
        """Returns whistleblowers, seated."""
        return [self.whistleblower(name) for name in names]

    def find_seat(self, name: str) -> Seat | None:
        """Returns the seat of a party, None where it has none."""
        return find_seat(self.state, self.get_party(name).address)

    def get_seat(self, name: str) -> Seat:
        """Returns the seat of a party."""
        seat = self.find_seat(name)
        assert seat is not None, name
        return seat

    def get_name(self, account: str) -> str:
        """Returns the name of an account."""
        return next(name for name, one in self.parties.items() if one.address == account)

    def get_credit(self, name: str) -> int:
        """Returns what a party may withdraw, in wei."""
        return self.state.vault.get_wei(credit_of(self.get_party(name).address))

    def get_held(self) -> int:
        """Returns what slashes have left, in wei."""
        return self.state.vault.get_wei(HELD)

    def get_stake(self, name: str) -> int:
        """Returns the stake of a party, in wei."""
        return self.state.vault.get_wei(stake_of(self.get_seat(name).number))

    @property
    def proofs(self) -> Proofs:
        """Makes proofs in one transaction."""
        return Proofs(self)

    def moves(self, dispute: int) -> DisputeMoves:
        """Makes the moves of a dispute."""
        return DisputeMoves(self, dispute)

    def find_carried(self, index: int, account: str) -> PlayedClaim | None:
        """Returns the claim whose moments go on into an account's claim of a round."""
        number = next(one.number for one in self.state.seats.values() if one.account == account)
        for before in range(
            index - 1, max(get_epoch_start(get_epoch(index)), self.state.seats[number].joined) - 1, -1
        ):
            game_round = self.state.rounds[before]
            if game_round.phase == RoundPhase.POSTED and number in game_round.pool.solvers:
                slot = game_round.pool.solvers.index(number)
                if slot in game_round.merged:
                    return self.claims[game_round.claims[slot].claim_root]
        return None

    # Rounds
    @property
    def live(self) -> GameRound:
        """The round that runs, as a call of this block finds it."""
        live = get_live_round(get_state_at(self.state, self.block))
        assert live is not None, "no round runs"
        return live

    def get_slot(self, name: str, index: int) -> int:
        """Returns the slot of a solver in a round."""
        return self.state.rounds[index].pool.solvers.index(self.get_seat(name).number)

    @property
    def is_paused(self) -> bool:
        """Whether no round runs."""
        return get_live_round(get_state_at(self.state, self.block)) is None

    def get_drawn(self, index: int, claimant: str, draw: int = 0, rank: int = 0) -> int:
        """Returns the seat that is drawn for a claim."""
        slot, game_round = self.get_slot(claimant, index), self.state.rounds[index]
        seat = get_drawn_seat(self.state, game_round, slot, draw, rank)
        assert seat is not None, "nobody is drawn"
        return seat

    def get_auditor(self, index: int, claimant: str, draw: int = 0, rank: int = 0) -> "Actor":
        """Returns the party that is drawn for a claim."""
        seat = self.get_drawn(index, claimant, draw, rank)
        return Actor(self, self.get_name(self.state.seats[seat].account))

    def asks_for_start(self) -> None:
        """Pools are frozen, and a beacon is asked for."""
        self.send(calls.StartRounds(), STRANGER)

    def seals_start(self) -> None:
        """The beacon of a start deals its rounds, and the first one opens."""
        self.send(calls.DrawStart(), STRANGER)

    def starts(self) -> None:
        """Rounds are started, and the first one opens."""
        self.asks_for_start()
        if self.state.start is not None and self._refusal is None:
            self.comes_to(self.state.start.beacon_block + 1)
            self.seals_start()

    def deals(self) -> None:
        """A round that opened without a beacon gets one."""
        self.comes_to((self.live.beacon_block or 0) + 1)
        self.send(calls.DrawRound(self.live.index), STRANGER)

    def all_commit(self) -> None:
        """Every solver of the round that runs commits."""
        for number in self.live.pool.solvers:
            seat = self.state.seats.get(number)
            if seat is not None and seat.status != SeatStatus.CONVICTED:
                Actor(self, self.get_name(seat.account)).commits()

    def closes(self) -> int:
        """The clock passes the closing block of the round that runs; returns that block."""
        closing = compute_closing_block(self.state, self.live)
        self.comes_to(closing + 1)
        return closing

    def draws(self) -> None:
        """The round that runs closes, and its audits are drawn."""
        self.comes_to(compute_draw_window(self.state, self.closes())[0])
        self.send(calls.DrawAudits(self.live.index), STRANGER)

    def seals_closing(self) -> None:
        """The late audits that no later round draws are drawn."""
        self.send(calls.DrawClosing(), STRANGER)

    def draws_the_last(self) -> None:
        """The clock comes to where the late audits of the last rounds can be drawn, and they are."""
        from_block = get_closing_from(self.state, self.block)
        assert from_block is not None, "no late audit is left"
        self.comes_to(compute_draw_window(self.state, from_block)[0])
        self.seals_closing()

    def list_places(self, index: int) -> list[tuple[int, int]]:
        """Returns (slot, draw) of all audits of a round."""
        return list(list_draws(self.state, self.state.rounds[index]))

    def all_accept(self, index: int | None = None) -> None:
        """Every primary auditor of a round accepts, and opens its vote."""
        index = self.live.index if index is None else index
        places = [(slot, draw) for slot, draw in self.list_places(index) if draw < self.state.terms.draws]
        votes = [self.make_vote(index, slot, draw, 0, VoteWord.ACCEPT) for slot, draw in places]
        openings = tuple(HandedOpening(slot, draw, 0) for slot, draw in places)
        self.send(calls.JudgeVotes(index, tuple(votes), openings), STRANGER)

    def make_vote(
        self, index: int, slot: int, draw: int, rank: int, word: VoteWord, **lies: Any
    ) -> SignedVote:
        """Returns the vote that the drawn auditor would sign, but for `lies`."""
        game_round = self.state.rounds[index]
        seat = get_drawn_seat(self.state, game_round, slot, draw, rank)
        segment = get_drawn_segment(self.state, game_round, slot, draw)
        seed = game_round.late_seed if is_late_draw(self.state, draw) else game_round.seed
        assert seat is not None and segment is not None and seed is not None, "nobody is drawn"
        account = self.state.seats[seat].account if seat in self.state.seats else ""
        root = game_round.claims[slot].claim_root
        if "signer" in lies:
            lies["signer"] = self.get_party(lies["signer"]).address
        return replace(SignedVote(slot, draw, rank, root, seed, segment, word, account), **lies)

    def judges_and_posts(self, *late: tuple[str, VoteWord], merged: Sequence[str]) -> None:
        """Every primary accepts, primaries of late draws of the round before say their words, and the root
        over these claims is posted, in one call."""
        live = self.live
        index, earlier, draws = live.index, max(live.index - 1, 0), self.state.terms.draws
        judged = self._judge(
            index, [(slot, d, VoteWord.ACCEPT) for slot in live.claims for d in range(draws)]
        )
        said = [(self.get_slot(name, earlier), draws if index else 0, word) for name, word in late]
        before = self._judge(earlier, said)
        slots = tuple(self.get_slot(name, index) for name in merged)
        post = calls.PostRoot(index, slots, self.state.terms.root, live.pool.solvers)
        votes, late_votes, posting = (self.write(call) for call in (judged, before, post))
        assert votes and late_votes and posting
        made = ("Votes", "judgeAndPost", self.task, index, votes[-1], late_votes[-1], *posting[4:])
        is_late = bool(late) and index > 0
        self.send_together([*[before] * is_late, judged, post], STRANGER, made)

    def _judge(self, index: int, said: Sequence[tuple[int, int, VoteWord]]) -> calls.JudgeVotes:
        votes = tuple(self.make_vote(index, slot, draw, 0, word) for slot, draw, word in said)
        return calls.JudgeVotes(index, votes, tuple(HandedOpening(one.slot, one.draw, 0) for one in votes))

    def votes(
        self,
        claimant: str,
        word: VoteWord,
        *,
        index: int | None = None,
        draw: int = 0,
        rank: int = 0,
        is_opened: bool = True,
        is_fitting: bool = True,
        **lies: Any,
    ) -> None:
        """The drawn auditor of a claim says a word, with its opening or without. is_fitting: whether the
        opening fits what was counted."""
        index = self.live.index if index is None else index
        slot = self.get_slot(claimant, index)
        vote = self.make_vote(index, slot, draw, rank, word, **lies)
        opening = HandedOpening(slot, draw, rank, is_fitting=is_fitting)
        openings = (opening,) if is_opened else ()
        self.send(calls.JudgeVotes(index, (vote,), openings), STRANGER)

    def opens(self, claimant: str, *, index: int, draw: int = 0, rank: int = 0, **facts: Any) -> None:
        """The auditor of a counted vote opens it."""
        opening = HandedOpening(self.get_slot(claimant, index), draw, rank, **facts)
        self.send(calls.JudgeVotes(index, (), (opening,)), STRANGER)

    def posts(
        self,
        *,
        merged: Sequence[str] | None = None,
        root: bytes | None = None,
        signers: Sequence[str] | None = None,
        index: int | None = None,
    ) -> None:
        """The round's root is posted: all that can be merged, signed by all its solvers, unless told else."""
        live = self.live if index is None else self.state.rounds[index]
        slots = list_mergeable(get_state_at(self.state, self.block), live, self.block)
        if merged is not None:
            slots = tuple(self.get_slot(name, live.index) for name in merged)
        numbers = live.pool.solvers
        if signers is not None:
            numbers = tuple(self.get_seat(name).number for name in signers)
        posted = root or self.state.terms.root
        self.send(calls.PostRoot(live.index, slots, posted, numbers), STRANGER)

    def make_outer(self, merged: Sequence[str] | None = None, wrong: TensorLeaf | None = None) -> bytes:
        """Returns the right root of the round that runs, over all claims or these, and keeps its trees.
        wrong: a leaf of it that is another."""
        live = self.live
        slots = list(live.claims) if merged is None else [self.get_slot(name, live.index) for name in merged]
        trees = make_trees(self.list_merged(live.index, slots), wrong)
        self.trees[trees.root], self.behind[trees.root] = trees, trees.roots
        return trees.root

    def posts_late(self) -> None:
        """The round's root is posted once undecided claims are not waited for any more."""
        self.comes_to((self.live.closed or 0) + self.state.terms.windows.audit_max)
        self.posts()

    def stands(self, index: int | None = None) -> None:
        """The base root of a round stays."""
        self.send(calls.LetStand(self.live.index if index is None else index), STRANGER)

    def stands_after_fall(self) -> None:
        """A round whose root fell is not posted again in time: its base root stands."""
        self.comes_to((self.live.fallen or 0) + self.state.terms.windows.post)
        self.stands()

    def runs_out(self) -> None:
        """Nobody commits to the round that runs: it closes, and its base root stands."""
        self.closes()
        self.stands()

    def winds_down(self) -> None:
        """The submitter halts the task, and nobody commits any more."""
        self.submitter.halts()
        while not self.is_paused:
            self.runs_out()

    def plays_round(self) -> None:
        """All commit, all are accepted, the right root is posted."""
        if self.live.beacon is None:
            self.deals()
        self.all_commit()
        self.draws()
        self.all_accept()
        self.posts()

    # The end
    def passes_duties(self) -> None:
        """The clock goes to where every round so far can be settled."""
        for game_round in self.state.rounds.values():
            until = get_duty_until(self.state, game_round)
            assert until is not None, f"round {game_round.index} has no root"
            self.comes_to(until + 1)

    def settles(self, name: str, until: int) -> None:
        """A seat settles its rounds up to and with `until`."""
        self.send(calls.SettleSeat(self.get_seat(name).number, until), STRANGER)

    def settles_together(self, *seats: int, until: int) -> None:
        """Seats settle in one call: each once, and who cannot yet is left out."""
        logged: tuple[GameEvent, ...] = ()
        for number in seats:
            call, account = calls.SettleSeat(number, until), self.get_party(STRANGER).address
            with suppress(GameRefusal):
                events = apply(self.state, call, account, self.block)
                self.state, logged = fold_all(self.state, events, self.block), logged + events
                self._mint(call, events)
        self._note("settle", STRANGER, ("Settlement", "settle", self.task, list(seats), until), None, logged)

    def all_settle(self, until: int | None = None) -> None:
        """Every seat settles."""
        last = self.state.next_round - 1 if until is None else until
        for number, seat in list(self.state.seats.items()):
            if seat.settled <= last:
                self.send(calls.SettleSeat(number, last), STRANGER)

    def closes_task(self) -> None:
        """What is left of the escrow goes to the submitter."""
        self.send(calls.CloseTask(), STRANGER)

    def ends(self) -> None:
        """The task is over: all settle and are paid out, it closes, all withdraw, and nothing is left."""
        self.passes_duties()
        if self.state.next_round < self.state.terms.rounds and not self.state.is_halted:
            self.comes_to(self.state.paused_since + self.state.terms.windows.dispute)
        if any(seat.settled < self.state.next_round for seat in self.state.seats.values()):
            self.all_settle()
        for number in list(self.state.seats):
            self.send(calls.PayOut(number), STRANGER)
        self.closes_task()
        for name in list(self.parties):
            if self.get_credit(name):
                self.send(calls.WithdrawCredit(), name)
        wei_left = self.state.vault.wei.items()
        left = {pot.kind.name: wei for pot, wei in wei_left if pot.kind.name not in ("BURNED", "REVENUE")}
        assert not left, f"money is left: {left}"


def make_place(world: World, index: int, claimant: str, draw: int | None = 0, rank: int = 0) -> StatementRef:
    """Returns the name of a vote on a claim, or of the claim itself where `draw` is None."""
    return StatementRef(index, world.get_slot(claimant, index), draw, rank)


Play = Callable[[], World]
"""Plays one task and returns it."""
