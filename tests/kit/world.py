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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.kit.contract_calls import ContractCall
from tests.kit.deployment import CHAIN_ID, list_addresses
from tests.kit.members import Member, make_member, make_word
from tests.kit.played_calls import PlayedCalls, encode_contract_call, find_entry
from tests.kit.zero_claims import PARAMETERS, STEPS, ZERO_ROOT, ZeroClaim, make_schedule
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening, SignedVote
from touchstone.protocol.spec.game.claim_status import list_mergeable
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import GameEvent, RootFell, RoundClosed, SeatConvicted
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.presets import LIMITS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.purse import credit_of, stake_of
from touchstone.protocol.spec.game.round_machine import apply, fold_all, get_state_at
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import (
    GameRound,
    GameState,
    MissedPlace,
    Seat,
    StatementRef,
    create_game,
)
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms, compute_escrow
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    compute_draw_window,
    get_closing_from,
    get_duty_until,
    get_live_round,
    is_late_draw,
)
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import EXACT_FORMAT
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.typed_data import SigningDomain

SUBMITTER, STRANGER = "submitter", "stranger"
AMOUNTS = GameAmounts(
    solver_stake=2_000, auditor_stake=500, solver_pay=100, audit_pay=10, late_pay=20, dropped_fee=60,
    unserved_fee=70, contest_bond=300, ask_bond=40, dispute_bond=80, finder_cap=150,
)  # fmt: skip
FIRST_BLOCK = 1_000
TRAINING = b"text"
ANSWERS = (DisputeStage.ROOTS, DisputeStage.TRACE, DisputeStage.LEAVES)
"""Stages of a dispute in which the claimant has to answer."""


NOT_CLOSING = (
    calls.Deposit, calls.WithdrawCredit, calls.SealProof, calls.JudgeVotes, calls.OpenContest,
    calls.AnswerContest, calls.NameChild, calls.BringLeaf, calls.AskSigner,
)  # fmt: skip
"""Calls by which the contracts close no round that is due to be closed: the next call does."""
CLOSING_BY_CONVICTION = (calls.EndRootContest, calls.AnswerAsk, calls.EndAsk, calls.EndDispute)
"""These do where they convict a seat."""


@dataclass(frozen=True)
class Sent:
    """A call that was sent. call: of the machine, its class or the function's name; header: of the block
    whose randomness it proves; state: after it."""

    call: str
    sender: str
    block: int
    made: ContractCall | None
    header: tuple[int, bytes] | None
    refused: str | None
    events: tuple[GameEvent, ...]
    state: GameState


class World(PlayedCalls):
    """log: what was sent, in order; randomness: of blocks, where a play chooses it."""

    def __init__(self, name: str, **changes: Any) -> None:
        """Posts a task. changes: fields of its terms, windows and amounts."""
        self.block, self.log, self.count = FIRST_BLOCK, list[Sent](), 0
        self.randomness: dict[int, bytes] = {}
        self.parties, self.ids, self.questions = {}, {}, {}
        self.claims, self.own_ends, self.stages = {}, {}, dict[int, tuple[DisputeStage, int]]()
        self._refusal: str | None = None
        self.name, self.signing = name, SigningDomain(CHAIN_ID, list_addresses()["Tasks"])
        root = hash_words("touchstone.outer", ZERO_ROOT, ZERO_ROOT)
        self.behind = {root: (ZERO_ROOT, ZERO_ROOT)}
        terms = make_terms(submitter=self.get_party(SUBMITTER).address, root=root, **changes)
        assert check_terms(terms, LIMITS_LOCAL) is None, check_terms(terms, LIMITS_LOCAL)
        self.get_party(STRANGER)
        posted = self._encode_terms(terms)
        kinds = [one.kind for one in find_entry("Tasks", "postTask").inputs[:1]]
        self.task = sha256(encode(kinds, [posted]) + TRAINING).digest()
        domain = hash_words("touchstone.domain", CHAIN_ID, list_addresses()["Tasks"], self.task)
        self.state = create_game(replace(terms, domain=domain), LIMITS_LOCAL, self.block)
        escrow = compute_escrow(terms)
        if escrow:
            self._note("Deposit", SUBMITTER, ("Purse", "deposit", escrow), None)
        self._note("PostTask", SUBMITTER, ("Tasks", "postTask", posted, TRAINING), None)

    def _encode_terms(self, terms: GameTerms) -> tuple[Any, ...]:
        schedule = make_schedule(max(1, terms.rounds * terms.segment_count))
        return (
            terms.submitter, make_word("salt", self.name), ZERO_ROOT, ZERO_ROOT, schedule[-1][0],
            make_word("step"), EXACT_FORMAT * terms.is_exact, 0, PARAMETERS, terms.rounds,
            terms.segment_count * STEPS, STEPS, terms.solver_seats, terms.draws, terms.late_chance,
            terms.least_solvers, terms.least_verifiers, terms.least_whistleblowers, 0, 0x3F000000, 0x3F000000,
            tuple(asdict(terms.windows).values()), tuple(asdict(terms.amounts).values()), (1,) * 6,
        )  # fmt: skip

    def posts_other_terms(self, refused: str, **changes: Any) -> None:
        """The submitter posts a task whose terms are refused by this name. changes: as of a world."""
        terms = make_terms(submitter=self.get_party(SUBMITTER).address, root=self.state.terms.root, **changes)
        found = check_terms(terms, LIMITS_LOCAL)
        self._refusal = refused
        self._expect(None if found is None else found.name, f"a task with {changes}")
        self._refusal = None
        self.send_refused(refused, SUBMITTER, "Tasks", "postTask", self._encode_terms(terms), TRAINING)

    # Sending
    def send(self, call: GameCall, sender: str) -> None:
        """Sends a call, and deposits what it takes before. Raises AssertionError where it is refused and the
        play does not say so, or passes where the play says that it is refused."""
        if self._refusal is None:
            self._fund(call, sender)
        call = self.prepare(call, self.block, sender)
        self.count += 1
        made, before = self.write(call), self.state
        header = self._find_header(call)
        refused: str | None = None
        events: tuple[GameEvent, ...] = ()
        try:
            events = apply(before, call, self.get_party(sender).address, self.block)
        except GameRefusal as refusal:
            refused = refusal.name
        if not is_closing(call, events):
            events = tuple(one for one in events if not isinstance(one, RoundClosed))
        self._expect(refused, f"{call} of {sender}")
        self.state = fold_all(before, events, self.block)
        if refused is None:
            self._name(call, before, sender)
        assert made is not None, f"{call} cannot be written for the contracts"
        self._note(type(call).__name__, sender, made, refused, events, header)

    def send_refused(self, refused: str, sender: str, *made: Any) -> None:
        """Sends a call that the machine has not, and that the contracts must refuse by this name."""
        self._note(str(made[1]), sender, made, refused)

    def send_raw(self, sender: str, *made: Any) -> None:
        """Sends a call that the machine has not, and that changes nothing there."""
        self._note(str(made[1]), sender, made, self._refusal)

    def _note(
        self,
        name: str,
        sender: str,
        made: ContractCall,
        refused: str | None,
        events: tuple[GameEvent, ...] = (),
        header: tuple[int, bytes] | None = None,
    ) -> None:
        address = self.get_party(sender).address
        self.log.append(Sent(name, address, self.block, made, header, refused, events, self.state))

    def _expect(self, refused: str | None, what: str) -> None:
        if refused != self._refusal:
            expected = f"is refused by {self._refusal}" if self._refusal else "passes"
            raise AssertionError(
                f"{what} in block {self.block}: {refused or 'passes'}; the play says that it {expected}"
            )

    @contextmanager
    def refuses(self, name: str) -> Iterator[None]:
        """Every call inside must be refused by this name."""
        count, self._refusal = self.count + len(self.log), name
        try:
            yield
        finally:
            self._refusal = None
        assert self.count + len(self.log) > count, "a refusal without a call"

    def _fund(self, call: GameCall, sender: str) -> None:
        needed = get_needed_wei(call)
        missing = needed - self.state.purse.get_wei(credit_of(self.get_party(sender).address))
        if missing > 0:
            self.send(calls.Deposit(missing), sender)

    def _name(self, call: GameCall, before: GameState, sender: str) -> None:
        """What the chain calls that which a call has opened."""
        number, account = before.next_number, self.get_party(sender).address
        if isinstance(call, calls.OpenContest):
            root, salt = before.rounds[call.round].root, make_word("contest", self.count)
            kinds = ["bytes32", "uint256", "bytes32", "address", "bytes32"]
            self.ids[number] = keccak(encode(kinds, [self.task, call.round, root, account, salt]))
        if isinstance(call, calls.DisputeStatement):
            salt = make_word("d", self.count)
            kinds = ["bytes32", "address", "bytes32"]
            self.ids[number] = keccak(encode(kinds, [self.task, account, salt]))
            self.stages[number] = (DisputeStage.ROOTS, self.block + before.terms.windows.respond)
        if isinstance(call, calls.AskSigner):
            ask = self.state.asks[number]
            words = self._signed(call.statement, call.word, call.leaf)[0]
            self.questions[number] = (words, call.leaf, ask.seat, account)

    def prepare(self, call: GameCall, block: int, sender: str) -> GameCall:
        """As its base; how a dispute ends is said by the play."""
        return call if isinstance(call, calls.EndDispute) else super().prepare(call, block, sender)

    # Blocks
    def get_block(self) -> int:
        """As its base."""
        return self.block

    def get_header(self, block: int) -> tuple[bytes, bytes]:
        """A header as Ethereum has it since Cancun; only number and randomness tell blocks apart."""
        randomness = self.randomness.get(block, make_word("randomness", self.name, block))
        words, nothing = [bytes(32)] * 3, b""
        fields = [
            bytes(32), bytes(32), bytes(20), *words, bytes(256), nothing, block, 30_000_000, 0, 12 * block,
            nothing, randomness, bytes(8), 1, bytes(32), nothing, nothing, bytes(32),
        ]  # fmt: skip
        return rlp.encode(fields), randomness

    def _find_header(self, call: GameCall) -> tuple[int, bytes] | None:
        if not hasattr(call, "randomness"):
            return None
        decisive = self._decisive(call, self.block)
        if decisive is None or decisive >= self.block:
            return None
        return decisive, keccak(self.get_header(decisive)[0])

    def passes(self, blocks: int = 1) -> None:
        """The clock goes on."""
        self.block += blocks

    def comes_to(self, block: int) -> None:
        """The clock goes to a block; it never goes back."""
        self.block = max(self.block, block)

    # Parties
    def get_party(self, name: str) -> Member:
        """Returns the key of a party."""
        return self.parties.setdefault(name, make_member(name))

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
        return self.state.purse.get_wei(credit_of(self.get_party(name).address))

    def get_stake(self, name: str) -> int:
        """Returns the stake of a party, in wei."""
        return self.state.purse.get_wei(stake_of(self.get_seat(name).number))

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
    def is_standing(self) -> bool:
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
        self.send(calls.SealStart(), STRANGER)

    def starts(self) -> None:
        """Rounds are started, and the first one opens."""
        self.asks_for_start()
        if self.state.start is not None and self._refusal is None:
            self.comes_to(self.state.start.beacon_block + 1)
            self.seals_start()

    def deals(self) -> None:
        """A round that opened without a beacon gets one."""
        self.comes_to((self.live.beacon_block or 0) + 1)
        self.send(calls.SealRound(self.live.index), STRANGER)

    def all_commit(self) -> None:
        """Every solver of the round that runs commits."""
        for number in self.live.pool.solvers:
            seat = self.state.seats.get(number)
            if seat is not None and seat.status != SeatStatus.CLOSED:
                Actor(self, self.get_name(seat.account)).commits()

    def closes(self) -> int:
        """The clock passes the closing block of the round that runs; returns that block."""
        closing = compute_closing_block(self.state, self.live)
        self.comes_to(closing + 1)
        return closing

    def draws(self) -> None:
        """The round that runs closes, and its audits are drawn."""
        self.comes_to(compute_draw_window(self.state, self.closes())[0])
        self.send(calls.SealAudits(self.live.index), STRANGER)

    def seals_closing(self) -> None:
        """The late audits that no later round draws are drawn."""
        self.send(calls.SealClosing(), STRANGER)

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
        while not self.is_standing:
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

    def all_settle(self, until: int | None = None) -> None:
        """Every seat settles."""
        last = self.state.next_round - 1 if until is None else until
        for number, seat in list(self.state.seats.items()):
            if seat.settled <= last:
                self.send(calls.SettleSeat(number, last), STRANGER)

    def closes_task(self) -> None:
        """What is left of the escrow goes to the submitter."""
        self.send(calls.CloseGame(), STRANGER)

    def ends(self) -> None:
        """The task is over: all settle and are paid out, it closes, all withdraw, and nothing is left."""
        self.passes_duties()
        if self.state.next_round < self.state.terms.rounds and not self.state.is_halted:
            self.comes_to(self.state.stands_since + self.state.terms.windows.dispute)
        if any(seat.settled < self.state.next_round for seat in self.state.seats.values()):
            self.all_settle()
        for number in list(self.state.seats):
            self.send(calls.PayOut(number), STRANGER)
        self.closes_task()
        for name in list(self.parties):
            if self.get_credit(name):
                self.send(calls.WithdrawCredit(), name)
        left = {pot.kind.name: wei for pot, wei in self.state.purse.wei.items() if pot.kind.name != "BURNED"}
        assert not left, f"money is left: {left}"


@dataclass(frozen=True)
class Actor:
    """A party of a world by its name, and all that it can do."""

    world: World
    name: str

    def send(self, call: GameCall) -> None:
        """Sends a call of the machine."""
        self.world.send(call, self.name)

    @property
    def seat(self) -> int:
        """The number of its seat."""
        return self.world.get_seat(self.name).number

    # Seats and money
    def deposits(self, wei: int) -> None:
        """Its money becomes credit."""
        self.send(calls.Deposit(wei))

    def withdraws(self) -> None:
        """All its credit leaves."""
        self.send(calls.WithdrawCredit())

    def joins(self, role: SeatRole, wei: int | None = None) -> None:
        """Takes a seat, with the task's stake unless told else."""
        amounts = self.world.state.terms.amounts
        least = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
        self.send(calls.JoinSeat(role, least if wei is None else wei))

    def tops_up(self, wei: int, *, seat: int | None = None) -> None:
        """Adds to the stake of its seat."""
        self.send(calls.TopUp(self.seat if seat is None else seat, wei))

    def leaves(self, *, seat: int | None = None) -> None:
        """Sits in no pool that is frozen later."""
        self.send(calls.LeaveSeat(self.seat if seat is None else seat))

    def pays_out(self, seat: "int | str") -> None:
        """Sends the call that pays out somebody's stake."""
        number = self.world.get_seat(seat).number if isinstance(seat, str) else seat
        self.send(calls.PayOut(number))

    def halts(self) -> None:
        """Wants no later round."""
        self.send(calls.HaltTask())

    def marks_silent(self, seat: "int | str", *missed: tuple[int, int, int] | int) -> None:
        """Says which rounds or draws a seat has missed."""
        number = self.world.get_seat(seat).number if isinstance(seat, str) else seat
        places = [MissedPlace(*one) if isinstance(one, tuple) else MissedPlace(one) for one in missed]
        self.send(calls.MarkSilent(number, tuple(places)))

    # Work
    def commits(self, segments: int | None = None, *, fault: str = "", **lies: Any) -> None:
        """Commits to a claim of the round that runs; `lies` are fields of the call that it says otherwise."""
        world = self.world
        index = lies.get("round", world.live.index)
        game_round = world.state.rounds.get(index, world.live)
        whole = world.state.terms.segment_count
        count = whole if segments is None else segments
        account = world.get_party(self.name).address
        claim = ZeroClaim(world.state.terms.domain, index, account, max(count, 1), whole, fault)
        world.claims[claim.root] = claim
        beacon = game_round.beacon or make_word("no beacon")
        call = calls.CommitRound(index, game_round.base_root, beacon, claim.root, count)
        self.send(replace(call, **lies))

    def _find_draw(self, claimant: str, index: int, draw: int | None) -> tuple[int, int]:
        """The draw and the rank in which this auditor is drawn for a claim."""
        world, seat = self.world, self.seat
        slot, game_round = world.get_slot(claimant, index), world.state.rounds[index]
        for place in world.list_places(index):
            for rank in range(3):
                drawn = get_drawn_seat(world.state, game_round, *place, rank)
                if place[0] == slot and draw in (None, place[1]) and drawn == seat:
                    return place[1], rank
        raise AssertionError(f"{self.name} is not drawn for the claim of {claimant} in round {index}")

    def says(
        self, word: VoteWord, claimant: str, *, index: int | None = None, draw: int | None = None, **more: Any
    ) -> None:
        """Votes on a claim for which it is drawn."""
        index = self.world.live.index if index is None else index
        draw, rank = self._find_draw(claimant, index, draw)
        self.world.votes(claimant, word, index=index, draw=draw, rank=rank, **more)

    def accepts(self, claimant: str, **more: Any) -> None:
        """Says that a claim is right."""
        self.says(VoteWord.ACCEPT, claimant, **more)

    def rejects(self, claimant: str, word: VoteWord = VoteWord.REJECT_STATE, **more: Any) -> None:
        """Says that a claim is wrong."""
        self.says(word, claimant, **more)

    def is_unserved_by(self, claimant: str, **more: Any) -> None:
        """Says that a solver showed it nothing."""
        self.says(VoteWord.UNSERVED, claimant, is_opened=False, **more)

    # Contests
    def contests(self, index: int, bond: int | None = None) -> int:
        """Contests a posted root; returns the contest's number."""
        state = self.world.state
        due = state.terms.amounts.contest_bond * (1 + len(state.contests))
        self.send(calls.OpenContest(index, due if bond is None else bond))
        return state.next_number

    def answers_contest(self, contest: int, **facts: Any) -> None:
        """Opens the contested node."""
        self.send(calls.AnswerContest(contest, **facts))

    def names_child(self, contest: int, child: int = 0) -> None:
        """Names the child that its own tree does not have."""
        self.send(calls.NameChild(contest, child))

    def brings_leaf(self, contest: int, **facts: Any) -> None:
        """Brings the inputs of the named leaf."""
        self.send(calls.BringLeaf(contest, **facts))

    def ends_contest(self, contest: int) -> None:
        """Says that the clock has run out, or that the root has gone."""
        self.send(calls.EndRootContest(contest))

    # Queries and disputes
    def queries(self, ref: StatementRef, word: VoteWord = VoteWord.ACCEPT, leaf: int = 0, **more: Any) -> int:
        """Asks the signer of a vote to show a leaf; returns the query's number."""
        state = self.world.state
        number = get_drawn_seat(state, state.rounds[ref.round], ref.slot, ref.draw or 0, ref.rank)
        due = state.terms.amounts.ask_bond * (1 + sum(one.seat == number for one in state.asks.values()))
        self.send(calls.AskSigner(ref, word, leaf, more.pop("bond", due), **more))
        return state.next_number

    def queries_other_round(self, ref: StatementRef, index: int) -> None:
        """Asks about a round that nobody opened, with a vote of another one."""
        world = self.world
        words = world._signed(ref, VoteWord.ACCEPT)
        vote = (*words[0][:1], index, *words[0][2:])
        world._expect("RoundUnknown", "a query of an unknown round")
        made = ("Asks", "ask", world.task, (vote, *words[1:]), 0, 1_000)
        world.send_refused("RoundUnknown", self.name, *made)

    def answers_query(self, query: int, **facts: Any) -> None:
        """Shows the leaf."""
        self.send(calls.AnswerAsk(query, **facts))

    def ends_query(self, query: int) -> None:
        """Says that nobody answered in time."""
        self.send(calls.EndAsk(query))

    def disputes(self, ref: StatementRef, **more: Any) -> int:
        """Disputes a claim or a vote; returns the dispute's number."""
        state = self.world.state
        number = find_accused(state, ref)
        open_count = sum(one.seat == number for one in state.disputes.values())
        due = state.terms.amounts.dispute_bond * (1 + open_count)
        if ref.draw is not None:
            more.setdefault("word", self.world._counted_word(ref))
        self.send(calls.DisputeStatement(ref, more.pop("bond", due), **more))
        return state.next_number

    def shows_roots(self, dispute: int) -> None:
        """Answers a dispute of its claim or vote with the states' roots along the segment."""
        world = self.world
        function, *arguments = world.write_roots(world.state.disputes[dispute].statement)
        self._moves(dispute, function, *arguments)
        if world._refusal is None:
            world.stages[dispute] = (DisputeStage.NAME, world.block + world.state.terms.windows.respond)

    def names_step(self, dispute: int, step: int) -> None:
        """Names the first step that it computes otherwise."""
        world = self.world
        roots = world.write_roots(world.state.disputes[dispute].statement)[1]
        self._moves(dispute, "nameStep", step, roots)
        if world._refusal is None:
            world.stages[dispute] = (DisputeStage.TRACE, world.block + world.state.terms.windows.respond)

    def _moves(self, dispute: int, function: str, *arguments: Any) -> None:
        """A move inside a dispute, of which the machine knows its clocks alone."""
        world = self.world
        made = ("Disputes", function, world.task, world.ids[dispute], *arguments)
        if world._refusal is None:
            world.send_raw(self.name, *made)
        else:
            world.count += 1
            world.send_refused(world._refusal, self.name, *made)

    def ends_dispute(self, dispute: int) -> None:
        """Says that the clock of a dispute has run out: who was on turn has lost."""
        world = self.world
        stage, clock = world.stages.get(dispute, (DisputeStage.ROOTS, 0))
        running = world.state.disputes.get(dispute)
        seat = None if running is None else world.state.seats[running.seat]
        is_closed = seat is not None and seat.status == SeatStatus.CLOSED
        if running is not None and not is_closed and world.block <= clock:
            world._expect("NotLate", f"the end of dispute {dispute}")
            self._moves(dispute, "end")
            return
        outcome = GameOutcome.CONVICTED if stage in ANSWERS else GameOutcome.CLEARED
        self.send(calls.EndDispute(dispute, outcome=outcome))

    # Proofs
    def seals_proof(self, ref: StatementRef, proof: ProofKind) -> bytes:
        """Seals a proof, so that who copies it gains nothing; returns its digest."""
        digest = self.compute_digest(ref, proof)
        self.send(calls.SealProof(digest))
        return digest

    def compute_digest(self, ref: StatementRef, proof: ProofKind) -> bytes:
        """Returns what seals the very call that brings the proof."""
        data = encode_contract_call(self.world.write_proof(ref, proof))
        account = self.world.get_party(self.name).address
        return bytes(keccak(encode(["address", "bytes32"], [account, keccak(data)])))

    def convicts(self, ref: StatementRef, proof: ProofKind) -> None:
        """Seals a proof, and brings it a block later."""
        self.seals_proof(ref, proof)
        self.world.passes()
        self.proves(ref, proof)

    def proves(self, ref: StatementRef, proof: ProofKind, **facts: Any) -> None:
        """Brings a proof in one transaction."""
        self.send(calls.ConvictSeat(ref, proof, self.compute_digest(ref, proof), **facts))


def make_place(world: World, index: int, claimant: str, draw: int | None = 0, rank: int = 0) -> StatementRef:
    """Returns the name of a vote on a claim, or of the claim itself where `draw` is None."""
    return StatementRef(index, world.get_slot(claimant, index), draw, rank)


def is_closing(call: GameCall, events: tuple[GameEvent, ...]) -> bool:
    """Whether the contracts close a round that is due before they do what a call asks."""
    if isinstance(call, CLOSING_BY_CONVICTION):
        return any(isinstance(one, SeatConvicted | RootFell) for one in events)
    is_vote = isinstance(call, calls.DisputeStatement) and call.statement.draw is not None
    return not isinstance(call, NOT_CLOSING) and not is_vote


def find_accused(state: GameState, ref: StatementRef) -> int | None:
    """Returns the seat that made a statement, None where there is none."""
    game_round = state.rounds.get(ref.round)
    if game_round is None or ref.slot not in game_round.claims:
        return None
    if ref.draw is None:
        return game_round.claims[ref.slot].seat
    return get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)


def make_terms(*, windows: Any = None, amounts: Any = None, **changes: Any) -> GameTerms:
    """Returns the terms of plays. windows, amounts: fields that are otherwise."""
    terms = GameTerms(
        submitter="", domain=b"", root=b"", rounds=4, segment_count=5, draws=1, late_chance=0, solver_seats=4,
        least_solvers=2, least_verifiers=3, least_whistleblowers=0, contest_levels=1, is_exact=False,
        windows=replace(WINDOWS_LOCAL, **(windows or {})), amounts=replace(AMOUNTS, **(amounts or {})),
    )  # fmt: skip
    return replace(terms, **changes)


def get_needed_wei(call: GameCall) -> int:
    """Returns what a call takes from the sender's credit at most."""
    if isinstance(call, calls.JoinSeat | calls.TopUp):
        return call.wei
    if isinstance(call, calls.OpenContest | calls.AskSigner | calls.DisputeStatement):
        return call.bond_limit
    return 0


Play = Callable[[], World]
"""Plays one task and returns it."""
