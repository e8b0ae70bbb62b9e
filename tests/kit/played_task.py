"""One task in memory: what is sent to the pure machine, in which block, and what the contracts would get."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.kit.contract_calls import ContractCall
from tests.kit.deployment import CHAIN_ID, list_addresses
from tests.kit.dispute_moves import PlayedDispute
from tests.kit.members import Member, make_member, make_word
from tests.kit.played_calls import PlayedCalls, find_entry
from tests.kit.played_claims import STEPS, Model, make_schedule
from tests.kit.played_roots import LEARNING_RATE, MOMENTUM
from tests.kit.share_book import ShareBook
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.events import GameEvent, RootFell, RoundClosed, SeatConvicted, WeiMoved
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.logged_terms import count_contest_levels
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.round_machine import apply, fold_all
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import (
    GameState,
    create_game,
)
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms, compute_escrow
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.game.vault import ESCROW, PotKind, credit_of
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import EXACT_FORMAT
from touchstone.protocol.spec.typed_data import SigningDomain

SUBMITTER, STRANGER = "submitter", "stranger"
AMOUNTS = GameAmounts(
    solver_stake=2_000, auditor_stake=500, solver_pay=100, audit_pay=10, late_pay=20, dropped_fee=60,
    unserved_fee=70, contest_bond=300, query_bond=40, dispute_bond=80, finder_cap=150,
)  # fmt: skip
FIRST_BLOCK = 1_000
TRAINING = b"text"
ZERO_MODEL = Model()


NOT_CLOSING = (
    calls.Deposit, calls.WithdrawCredit, calls.CommitProof, calls.JudgeVotes, calls.OpenContest,
    calls.AnswerContest, calls.NameChild, calls.BringLeaf, calls.QueryVote,
)  # fmt: skip
"""Calls by which the contracts close no round that is due to be closed: the next call does."""
CLOSING_BY_CONVICTION = (calls.EndRootContest, calls.AnswerQuery, calls.EndQuery, calls.EndDispute)
"""These do where they convict a seat."""


@dataclass(frozen=True)
class Relay:
    """A call by way of a contract. taken: places of the handed votes that are logged whole, None for all;
    is_coded: the sender's own account has code."""

    taken: tuple[int, ...] | None = None
    is_coded: bool = False


@dataclass(frozen=True)
class Sent:
    """A call that was sent. call: of the machine, its class or the function's name; header: of the block
    whose randomness it proves; state, shares: after it; reason: first argument of the refusal, where a play
    says it; relay: how it came by way of a contract."""

    call: str
    sender: str
    block: int
    made: ContractCall | None
    header: tuple[int, bytes] | None
    refused: str | None
    events: tuple[GameEvent, ...]
    state: GameState
    shares: ShareBook
    reason: bytes = b""
    relay: Relay | None = None


class PlayedTask(PlayedCalls):
    """A posted task, its clock and its parties.

    log: what was sent, in order; randomness: of blocks, where a play chooses it; model: what its tensors look
    like; carries: whether a claim's moments go on into the solver's next one."""

    def __init__(
        self,
        name: str,
        *,
        model: Model = ZERO_MODEL,
        carries: bool = False,
        step_root: bytes | None = None,
        **changes: Any,
    ) -> None:
        """Posts a task. changes: fields of its terms, windows and amounts."""
        self.model, self.carries, self.step_root = model, carries, step_root or make_word("step")
        self.block, self.log, self.count = FIRST_BLOCK, list[Sent](), 0
        self.randomness: dict[int, bytes] = {}
        self.parties, self.ids, self.questions = {}, {}, {}
        self.trees, self.children = {}, {}
        self.claims, self.own_ends, self.disputes = {}, {}, dict[int, PlayedDispute]()
        self.disputed_segment, self.other_votes = 0, {}
        self._refusal: str | None = None
        self._reason, self.shares = b"", ShareBook()
        self._relay: Relay | None = None
        self.name, self.signing = name, SigningDomain(CHAIN_ID, list_addresses()["Game"])
        behind = (model.weights_root, model.zero_root)
        root = hash_words("touchstone.outer", *behind)
        self.behind = {root: behind}
        changes.setdefault("contest_levels", count_contest_levels(model.parameters))
        terms = make_terms(submitter=self.get_party(SUBMITTER).address, root=root, **changes)
        assert check_terms(terms, BOUNDS_LOCAL) is None, check_terms(terms, BOUNDS_LOCAL)
        self.get_party(STRANGER)
        posted = self._encode_terms(terms)
        kinds = [one.kind for one in find_entry("Tasks", "postTask").inputs[:1]]
        self.task = sha256(encode(kinds, [posted]) + TRAINING).digest()
        domain = hash_words("touchstone.domain", CHAIN_ID, list_addresses()["Game"], self.task)
        self.state = create_game(replace(terms, domain=domain), BOUNDS_LOCAL, self.block)
        escrow = compute_escrow(terms)
        if escrow:
            self._note("Deposit", SUBMITTER, ("Vault", "deposit", escrow), None)
        self._note("PostTask", SUBMITTER, ("Tasks", "postTask", posted, TRAINING), None)

    def _encode_terms(self, terms: GameTerms) -> tuple[Any, ...]:
        schedule = make_schedule(max(1, terms.rounds * terms.segment_count))
        return (
            terms.submitter, make_word("salt", self.name), self.model.weights_root, self.model.zero_root,
            schedule[-1][0], self.step_root, EXACT_FORMAT * terms.is_exact, 0, 0, 0,
            self.model.parameters, terms.rounds, terms.segment_count * STEPS, STEPS, terms.solver_seats,
            terms.draws, terms.late_chance, terms.least_solvers, terms.least_verifiers,
            terms.least_whistleblowers, int(self.carries), LEARNING_RATE, MOMENTUM,
            tuple(asdict(terms.windows).values()), tuple(asdict(terms.amounts).values()), (1,) * 6,
        )  # fmt: skip

    def posts_other_terms(self, refused: str, **changes: Any) -> None:
        """The submitter posts a task whose terms are refused by this name. changes: as of a world."""
        terms = make_terms(submitter=self.get_party(SUBMITTER).address, root=self.state.terms.root, **changes)
        found = check_terms(terms, BOUNDS_LOCAL)
        self._refusal = refused
        self._expect(None if found is None else found.name, f"a task with {changes}")
        self._refusal = None
        self.send_refused(refused, SUBMITTER, "Tasks", "postTask", self._encode_terms(terms), TRAINING)

    # Sending
    def send(self, call: GameCall, sender: str, made: ContractCall | None = None) -> None:
        """Sends a call, and deposits what it takes before. Raises AssertionError where it is refused and the
        play does not say so, or passes where the play says that it is refused. made: the contracts' call,
        where it does not follow from the machine's."""
        if self._refusal is None:
            self._fund(call, sender)
        call = self.prepare(call, self.block, sender)
        self.count += 1
        made, before = made or self.write(call), self.state
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
        self._mint(call, events)
        if refused is None:
            self._name(call, before, sender)
        assert made is not None, f"{call} cannot be written for the contracts"
        self._note(type(call).__name__, sender, made, refused, events, header)

    def _mint(self, call: GameCall, events: tuple[GameEvent, ...]) -> None:
        """A share for each wei that a settlement pays out of the escrow."""
        for event in events if isinstance(call, calls.SettleSeat) else ():
            if isinstance(event, WeiMoved) and event.source == ESCROW and event.target.kind == PotKind.CREDIT:
                self.shares = self.shares.mint(str(event.target.key), event.wei)

    def send_refused(self, refused: str, sender: str, *made: Any) -> None:
        """Sends a call that the machine has not, and that the contracts must refuse by this name. sender: a
        party, or one of the contracts."""
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
        address = list_addresses().get(sender) or self.get_party(sender).address
        reason = self._reason if refused else b""
        after = (self.state, self.shares)
        told = (events, *after, reason, self._relay)
        self.log.append(Sent(name, address, self.block, made, header, refused, *told))

    def _expect(self, refused: str | None, what: str) -> None:
        if refused != self._refusal:
            expected = f"is refused by {self._refusal}" if self._refusal else "passes"
            raise AssertionError(
                f"{what} in block {self.block}: {refused or 'passes'}; the play says that it {expected}"
            )

    @contextmanager
    def refuses(self, name: str, reason: str | int | bytes = b"") -> Iterator[None]:
        """Every call inside must be refused by this name. reason: first argument of the contracts' refusal,
        which the machine does not have."""
        count, self._refusal = self.count + len(self.log), name
        self._reason = make_reason(reason)
        try:
            yield
        finally:
            self._refusal, self._reason = None, b""
        assert self.count + len(self.log) > count, "a refusal without a call"

    @contextmanager
    def relays(self, *taken: int, is_all: bool = True, is_coded: bool = False) -> Iterator[None]:
        """Every call inside comes by way of a contract. The votes at these places are logged whole; all where
        none are named, unless nothing is taken."""
        self._relay = Relay(None if is_all and not taken else taken, is_coded)
        try:
            yield
        finally:
            self._relay = None

    def send_together(self, all_calls: Sequence[GameCall], sender: str, made: ContractCall) -> None:
        """Sends calls of the machine that are one call of the contracts."""
        logged: list[GameEvent] = []
        for call in all_calls:
            self.count += 1
            events = apply(self.state, call, self.get_party(sender).address, self.block)
            if not is_closing(call, events):
                events = tuple(one for one in events if not isinstance(one, RoundClosed))
            self.state = fold_all(self.state, events, self.block)
            logged += events
        self._note(str(made[1]), sender, made, None, tuple(logged))

    def _fund(self, call: GameCall, sender: str) -> None:
        self.fund(get_needed_wei(call), sender)

    def fund(self, needed_wei: int, sender: str) -> None:
        """Deposits what a party lacks of so much credit."""
        missing = needed_wei - self.state.vault.get_wei(credit_of(self.get_party(sender).address))
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
            clock = self.block + before.terms.windows.respond
            self.disputes[number] = PlayedDispute(DisputeStage.ROOTS, clock, self.disputed_segment)
        if isinstance(call, calls.NameChild):
            self.children.setdefault(call.contest, []).append(call.child)
        if isinstance(call, calls.QueryVote):
            query = self.state.queries[number]
            words = self._signed(call.statement, call.word, call.leaf)[0]
            self.questions[number] = (words, call.leaf, query.seat, account)

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

    def get_party(self, name: str) -> Member:
        """Returns the key of a party."""
        return self.parties.setdefault(name, make_member(name))


def make_reason(reason: str | int | bytes) -> bytes:
    """Returns a refusal's first argument as a word; nothing where a play says none."""
    if isinstance(reason, str):
        return reason.encode().ljust(32, b"\0")
    return reason.to_bytes(32) if isinstance(reason, int) else reason


def is_closing(call: GameCall, events: tuple[GameEvent, ...]) -> bool:
    """Whether the contracts close a round that is due before they do what a call asks."""
    if isinstance(call, CLOSING_BY_CONVICTION):
        return any(isinstance(one, SeatConvicted | RootFell) for one in events)
    is_vote = isinstance(call, calls.DisputeStatement) and call.statement.draw is not None
    return not isinstance(call, NOT_CLOSING) and not is_vote


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
    if isinstance(call, calls.OpenContest | calls.QueryVote | calls.DisputeStatement):
        return call.bond_limit
    return 0
