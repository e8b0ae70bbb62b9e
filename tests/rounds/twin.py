"""The pure machine and the contracts, side by side: each call goes to both, and they must agree.

A call passes in both or is refused in both by the same name. After each the money, the seats and the rounds
of the contracts are those of the machine's state. Signatures, headers and draws are real.
"""

from dataclasses import asdict, replace
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.kit.contract_calls import ContractCalls, list_words
from tests.kit.members import (
    ContractParty,
    Member,
    Party,
    make_member,
    make_word,
)
from tests.rounds.chain import RoundChain, Sent
from tests.rounds.logged import LoggedTask
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.money_book import MoneyBook, note_event
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.round_machine import apply, get_state_at
from touchstone.protocol.spec.game.round_opening import SHARES
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import GameState, create_game
from touchstone.protocol.spec.game.terms import GameTerms, compute_escrow
from touchstone.protocol.spec.game.vault import BURNED, ESCROW, PotKind, credit_of, stake_of
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import EXACT_FORMAT
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.scripts.network.devnet import CHAIN_ID

WEALTH_WEI = 10**24
STRANGER = "stranger"


class Disagreement(AssertionError):
    """Machine and contracts part."""


class Twin(ContractCalls):
    """One task. parties: who may send, by name; numbers: bonds' ids on the chain by the machine's number."""

    def __init__(self, chain: RoundChain, terms: GameTerms, names: tuple[str, ...]) -> None:
        self.chain = chain
        names = ("submitter", STRANGER, *names)
        self.parties = {name: make_member(f"{name} of task {terms.domain.hex()}") for name in names}
        self.burned = int(chain.read("Vault", "burnPending"))
        start = chain.get_block() + 1
        for party in self.parties.values():
            self._fund(party, max(WEALTH_WEI, compute_escrow(terms)))
        submitter = self.parties["submitter"]
        self.task, root = self._post(submitter, terms)
        domain = hash_words("touchstone.domain", CHAIN_ID, chain.addresses["Game"], self.task)
        self.signing = SigningDomain(CHAIN_ID, chain.addresses["Game"])
        terms = replace(terms, submitter=submitter.address, domain=domain, root=root)
        self.state = create_game(terms, chain.bounds, chain.get_block())
        self.money = MoneyBook()
        self.logged = LoggedTask(chain, self.task, self.signing, start)
        self.ids: dict[int, bytes] = {}
        self.behind: dict[bytes, tuple[bytes, bytes]] = {}
        self.questions: dict[int, tuple[Any, ...]] = {}
        self.count = 0
        self.calls: list[tuple[GameCall, str, int]] = []

    def _fund(self, party: Member, wei: int) -> None:
        self.chain.ask(("anvil_setBalance", [party.address, hex(WEALTH_WEI)]))
        vault = self.chain.addresses["Vault"]
        self._must(self.chain.send(party.address, "DevToken", "mint", party.address, wei))
        self._must(self.chain.send(party.address, "DevToken", "approve", vault, wei))

    def _must(self, sent: Sent) -> Sent:
        if sent.error is not None:
            raise Disagreement(f"the set-up is refused: {sent.error}")
        return sent

    def _post(self, submitter: Member, terms: GameTerms) -> tuple[bytes, bytes]:
        steps = 5
        encoded = (
            submitter.address, make_word("salt", terms.domain), make_word("W"), make_word("zero"),
            make_word("schedule"), make_word("step"), EXACT_FORMAT * terms.is_exact, 0, 0, 0, 200,
            terms.rounds, terms.segment_count * steps, steps, terms.solver_seats, terms.draws,
            terms.late_chance,
            terms.least_solvers, terms.least_verifiers, terms.least_whistleblowers, 0, 0x3F000000, 0x3F000000,
            tuple(asdict(terms.windows).values()), tuple(asdict(terms.amounts).values()), (1,) * 6,
        )  # fmt: skip
        escrow = compute_escrow(terms)
        self._must(self.chain.send(submitter.address, "Vault", "deposit", escrow))
        sent = self._must(self.chain.send(submitter.address, "Tasks", "postTask", encoded, b"text"))
        task = next(bytes(values["task"]) for _, name, values in sent.events if name == "TaskPosted")
        return task, hash_words("touchstone.outer", make_word("W"), make_word("zero"))

    # One call to both
    def _send(self, call: GameCall, party: Party) -> Sent | None:
        """None where the call cannot even be written down for the chain."""
        made = self.write(call)
        return None if made is None else self.chain.send(party.address, *made)

    def get_header(self, block: int) -> tuple[bytes, bytes]:
        """As the chain has it."""
        return self.chain.get_header(block)

    def get_block(self) -> int:
        """The block that the next call is in."""
        return self.chain.get_block() + 1

    def do(self, call: GameCall, sender: str) -> str | None:
        """The name of the refusal, None where the call passed. Raises Disagreement."""
        if self.is_early(call):
            return "early"
        self.count += 1
        self.calls.append((call, sender, self.get_block()))
        block, party = self.get_block(), self._find_party(sender)
        account = SHARES if sender == SHARES else party.address
        prepared = self.prepare(call, block, sender)
        before, refused = self.state, None
        try:
            events = apply(self.state, prepared, account, block)
        except GameRefusal as refusal:
            refused, events = refusal.name, ()
        sent = self._send(prepared, party)
        self._compare(prepared, refused, sent)
        for event in events:
            self.money = note_event(self.money, self.state, event, block)
            self.state = fold(self.state, event, block)
        if refused is None:
            self._remember(prepared, before, party, sent)
            self.check()
        self._check_logs()
        return refused

    def _find_party(self, sender: str) -> Party:
        """A member, or the contract that halts a task for the majority of its shares."""
        return ContractParty(self.chain.addresses["Shares"]) if sender == SHARES else self.parties[sender]

    def _check_logs(self) -> None:
        """What the logs alone tell is the machine's state."""
        self.logged.catch_up()
        for difference in self.logged.list_differences(self.state):
            raise Disagreement(f"{difference}, after {self.calls[-1]}")
        for name, party in self.parties.items():
            held = self.state.vault.get_wei(credit_of(party.address))
            self._equal(f"logged credit of {name}", held, self.logged.credits[party.address])
        self._check_account_of_money()

    def _check_account_of_money(self) -> None:
        """By the task's logs alone it is the machine's. It explains the credits, of which the vault tells."""
        self._equal("book of money", self.money, self.logged.game.money)
        found = self.logged.compute_money()
        for account in {*found, *(party.address for party in self.parties.values())}:
            money = found.get(account, AccountMoney(account))
            explained = self.logged.brought[account] + money.change
            self._equal(f"explained credit of {account}", explained, self.logged.credits[account])

    def _compare(self, call: GameCall, refused: str | None, sent: Sent | None) -> None:
        if sent is None:
            if refused is None:
                raise Disagreement(f"{call}: passes in the machine, cannot be made for the chain")
            return
        if refused is None and isinstance(call, calls.JudgeVotes):
            return
        if sent.error != refused:
            raise Disagreement(
                f"{call}: the machine says {refused}, the contract {sent.error} at {self.get_block() - 1}"
            )

    def _remember(self, call: GameCall, before: GameState, party: Party, sent: Sent | None) -> None:
        if sent is None:
            return
        for _, name, values in sent.events:
            if name in ("QueryOpened", "Contested", "DisputeOpened"):
                number = before.next_number
                self.ids[number] = bytes(values.get("id") or values["dispute"])
                if name == "QueryOpened":
                    assert isinstance(call, calls.QueryVote)
                    vote, _, _ = self._vote(call.statement, call.word, call.leaf)
                    said = list_words(vote)
                    self.questions[number] = (said, call.leaf, values["seat"], values["asker"])

    def is_early(self, call: GameCall) -> bool:
        """Whether a dispute cannot be ended yet: inside it the claimant, who says nothing here, has time."""
        if not isinstance(call, calls.EndDispute) or call.dispute not in self.ids:
            return False
        dispute = self.state.disputes.get(call.dispute)
        seat = None if dispute is None else self.state.seats.get(dispute.seat)
        if dispute is None or (seat is not None and seat.status == SeatStatus.CONVICTED):
            return False
        clock = self.chain.read("Disputes", "disputeOf", self.task, self.ids[call.dispute])[1]
        return self.get_block() <= int(clock)

    # Comparing states
    def check(self) -> None:
        """Money, seats and rounds of the contracts are the machine's."""
        block = self.chain.get_block()
        state = get_state_at(self.state, block)
        self._check_money(state)
        views = [("Seats", "seatAt", self.task, number) for number in state.seats]
        seen = self.chain.read_many(views)
        for (number, seat), (account, stake, status, settled, _) in zip(
            state.seats.items(), seen, strict=True
        ):
            expected = (
                seat.account,
                state.vault.get_wei(stake_of(number)),
                int(seat.status),
                seat.settled,
            )
            self._equal(f"seat {number}", expected, (account, stake, status, settled))
        for index in sorted(state.rounds)[-3:]:
            self._check_round(self.state, index)

    def _check_money(self, state: GameState) -> None:
        pots = state.vault.wei
        views = [("Vault", "creditOf", party.address) for party in self.parties.values()]
        seen = self.chain.read_many(views)
        for (name, party), held in zip(self.parties.items(), seen, strict=True):
            self._equal(f"credit of {name}", state.vault.get_wei(credit_of(party.address)), held)
        stakes = sum(wei for pot, wei in pots.items() if pot.kind == PotKind.STAKE)
        bonds = sum(wei for pot, wei in pots.items() if pot.kind == PotKind.BOND)
        for name, wei in {"escrow": state.vault.get_wei(ESCROW), "stakes": stakes, "bonds": bonds}.items():
            self._equal(name, wei, self.chain.read("Vault", "potOf", self._pot(name)))
        burned = self.chain.read("Vault", "burnPending") - self.burned
        self._equal("burned", state.vault.get_wei(BURNED), burned)

    def _pot(self, name: str) -> bytes:
        return bytes(keccak(encode(["string", "bytes32"], [name, self.task])))

    def _check_round(self, state: GameState, index: int) -> None:
        game_round = state.rounds[index]
        seen = self.chain.read("Rounds", "roundOf", self.task, index)
        phase, committed = seen[0], sum(1 << slot for slot in game_round.claims)
        self._equal(f"phase of round {index}", int(game_round.phase), phase)
        self._equal(f"claims of round {index}", committed, seen[3])
        self._equal(f"opened {index}", game_round.opened, seen[7])
        if game_round.closed is not None and game_round.phase != RoundPhase.UNDONE and seen[8]:
            self._equal(f"closed {index}", game_round.closed, seen[8])
        self._equal(f"late from {index}", game_round.late_from or 0, seen[9])
        late = sum(1 << slot for slot in game_round.late_slots)
        self._equal(f"late slots {index}", late, seen[6])
        if game_round.phase == RoundPhase.POSTED:
            merged = sum(1 << slot for slot in game_round.merged)
            self._equal(
                f"outcome of {index}",
                (merged, game_round.root_until, game_round.root),
                (seen[4], seen[10], seen[14]),
            )

    def _equal(self, what: str, expected: Any, actual: Any) -> None:
        if expected != actual:
            raise Disagreement(
                f"{what}: the machine has {expected}, the contracts {actual}, after {self.calls[-1]}"
            )
