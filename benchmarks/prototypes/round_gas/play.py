"""One task of the prototype on Anvil, round after round: who sends what, and what it takes."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from eth_abi.abi import decode, encode

from benchmarks.prototypes.round_gas.twin import (
    ACCEPT,
    DRAWS,
    LATE,
    REJECT,
    SEGMENTS,
    SOLVER,
    VERIFIER,
    WHISTLEBLOWER,
    Ballot,
    deal,
    deal_auditors,
    draw_segments,
    hash_pair,
    make_party,
    tagged,
)
from protocol.adapters.chain.abi import Entry, find_function, parse_abi
from protocol.adapters.chain.headers import encode_header
from scripts.compile import Artifact, compile_contracts
from scripts.devnet import CHAIN_ID
from tests.e2e.twin_chain import JsonRpc

GAS = 16_700_000
"""of every transaction: just below what one may ask for (EIP-7825)."""
FOLDER = "benchmarks/prototypes/round_gas"
TASK = b"task".ljust(32, b"\0")
DELAY, GRID, TRAIN_MIN, TRAIN_MAX = 2, 2, 5_000, 9_000
FIRST_ROUND = 2


@dataclass(frozen=True)
class Sent:
    """A transaction. floor: least gas that EIP-7623 charges for its bytes."""

    gas: int
    size: int
    floor: int


@dataclass(frozen=True)
class Case:
    """is_refusing: a third of the primaries REJECT; is_later: Openings come a round after their votes."""

    layout: str
    solvers: int
    verifiers: int
    is_refusing: bool = False
    is_later: bool = False
    ring: int = 8


class Chain:
    """Anvil; senders are impersonated, which costs the same gas."""

    def __init__(self, rpc: JsonRpc) -> None:
        self.ask = rpc.ask
        self.ask(("anvil_autoImpersonateAccount", [True]), ("evm_setAutomine", [False]))
        compiled = compile_contracts(folder=FOLDER)
        self.artifacts: dict[str, Artifact] = {one.name: one for one in compiled}
        self.owner = str(self.ask(("eth_accounts", []))[0][0])

    def deploy(self, name: str) -> "Contract":
        """A fresh contract."""
        artifact = self.artifacts[name]
        receipt = self.transact({"from": self.owner, "data": artifact.bytecode})
        return Contract(self, receipt["contractAddress"], parse_abi(name, artifact.abi))

    def transact(self, transaction: dict[str, str]) -> dict[str, Any]:
        """The receipt of a transaction in a block of its own."""
        name = self.ask(("eth_sendTransaction", [{"gas": hex(GAS), **transaction}]))[0]
        self.ask(("evm_mine", []))
        receipt: dict[str, Any] = self.ask(("eth_getTransactionReceipt", [name]))[0]
        if receipt["status"] != "0x1":
            call = {key: transaction[key] for key in ("from", "to", "data")}
            self.ask(("eth_call", [call, "latest"]))
            raise RuntimeError(f"expected a transaction to be accepted, it was refused: {receipt}")
        return receipt


@dataclass(frozen=True)
class Contract:
    """A contract at an address."""

    chain: Chain
    address: str
    entries: Sequence[Entry]

    def encode(self, function: str, *arguments: Any) -> bytes:
        """A call's data."""
        entry = find_function(self.entries, function)
        return entry.selector + encode([parameter.kind for parameter in entry.inputs], arguments)

    def send(self, sender: str, data: bytes) -> Sent:
        """The call in a block of its own."""
        receipt = self.chain.transact({"from": sender, "to": self.address, "data": "0x" + data.hex()})
        floor = 21_000 + 10 * (4 * len(data) - 3 * data.count(0))
        return Sent(int(receipt["gasUsed"], 16), len(data), floor)

    def read(self, function: str, *arguments: Any) -> tuple[Any, ...]:
        """What a view answers."""
        call = {"to": self.address, "data": "0x" + self.encode(function, *arguments).hex(), "gas": hex(10**8)}
        (answer,) = self.chain.ask(("eth_call", [call, "latest"]))
        outputs = find_function(self.entries, function).outputs
        return tuple(decode([parameter.kind for parameter in outputs], bytes.fromhex(answer[2:])))


class Play:
    """Rounds of one task, everybody awake; late audits of half of the claims."""

    def __init__(self, chain: Chain, case: Case) -> None:
        self.chain, self.case, self.contract = chain, case, chain.deploy(case.layout)
        counts = (case.solvers, case.verifiers, case.verifiers)
        self.seats = [[make_party(f"{kind} {i}") for i in range(many)] for kind, many in enumerate(counts)]
        self.sender = self.seats[SOLVER][0].address
        for party in self.seats[SOLVER]:
            chain.ask(("anvil_setBalance", [party.address, hex(10**24)]))
        windows = [DELAY, GRID, TRAIN_MIN, TRAIN_MAX, case.solvers + 12, 1 << 16]
        config = [SEGMENTS, case.ring, *windows, FIRST_ROUND, 0, (1 << case.solvers) - 1, False]
        self.send("start", TASK, config)
        for kind, parties in enumerate(self.seats):
            for number, party in enumerate(parties):
                self.send("join", TASK, kind, number, party.address)
        self.domain = tagged("domain", CHAIN_ID, int(self.contract.address, 16), TASK)
        self.seeds = {0: b"seed 0".ljust(32, b"\0"), 1: b"seed 1".ljust(32, b"\0")}
        self.roots = {1: b"root".ljust(32, b"\0")}
        self.claims: dict[int, list[bytes]] = {}
        self.paid: dict[int, Counter[str]] = defaultdict(Counter)

    def send(self, function: str, *arguments: Any) -> Sent:
        """A call of whoever keeps the round going."""
        return self.contract.send(self.sender, self.contract.encode(function, *arguments))

    def play(self, number: int) -> dict[str, list[Sent]]:
        """One round; late votes of the last one, Openings that wait, all in one transaction or each apart."""
        sent = {"commit": [self.commit(number, slot) for slot in range(self.case.solvers)]}
        sent["seal"] = [self.seal(number)]
        calls = {"late": (number - 1, True), "judge": (number, False)}
        data = {name: self.encode_votes(*call, not self.case.is_later) for name, call in calls.items()}
        data["post"] = self.encode_post(number)
        if self.case.is_later and number > FIRST_ROUND + 1:
            data["open late"] = self.encode_votes(number - 2, True, True)
            data["open"] = self.encode_votes(number - 1, False, True)
        if number == FIRST_ROUND:
            del data["late"]
        before = self.chain.ask(("evm_snapshot", []))[0]
        sent |= {name: [self.contract.send(self.sender, one)] for name, one in data.items()}
        self.chain.ask(("evm_revert", [before]))
        sent["together"] = [self.send("multicall", list(data.values()))]
        return sent

    def commit(self, number: int, slot: int) -> Sent:
        """One solver's claim."""
        root = hash_pair(self.seeds[0], number << 8 | slot)
        self.claims.setdefault(number, []).append(root)
        beacon = tagged("beacon", self.domain, number, self.seeds[number - 2])
        data = self.contract.encode("commit", TASK, number, self.roots[number - 1], beacon, root)
        return self.contract.send(self.seats[SOLVER][slot].address, data)

    def seal(self, number: int) -> Sent:
        """The last commitment stands in the latest block and closes the round."""
        closes = int(self.chain.ask(("eth_blockNumber", []))[0], 16)
        drawn = (closes + DELAY + GRID - 1) // GRID * GRID
        self.chain.ask(("anvil_mine", [hex(drawn - closes)]))
        block = self.chain.ask(("eth_getBlockByNumber", [hex(drawn), False]))[0]
        randomness = bytes.fromhex(block["mixHash"][2:])
        self.seeds[number] = tagged("draw", self.domain, number, randomness)
        return self.send("seal", TASK, number, encode_header(block))

    def encode_votes(self, number: int, is_late: bool, is_opened: bool) -> bytes:
        """`judge` with all votes of a round, or with the late ones of its first half."""
        ballots = self.cast(number, is_late, is_opened) if number >= FIRST_ROUND else []
        return self.contract.encode("judge", TASK, number, is_late, b"".join(ballots), self.bring(number))

    def cast(self, number: int, is_late: bool, is_opened: bool) -> list[bytes]:
        """The votes in the order of slot, draw and rank."""
        kind, draws = (WHISTLEBLOWER, [LATE]) if is_late else (VERIFIER, [*range(DRAWS)])
        drawn_by = self.seeds[number + is_late]
        auditors = deal_auditors(drawn_by, kind, self.case.verifiers, self.case.solvers * len(draws))
        ballots = []
        for slot in range(self.case.solvers // 2 if is_late else self.case.solvers):
            segments = draw_segments(self.seeds[number], drawn_by, slot)
            for draw in draws:
                t = slot if is_late else DRAWS * slot + draw
                for rank, word in enumerate(self.list_words(t, is_late)):
                    auditor = self.seats[kind][auditors[t][rank]]
                    place, claim = (slot, draw, rank), self.claims[number][slot]
                    ballot = Ballot(self.domain, number, claim, drawn_by, place, segments[draw])
                    ballots.append(ballot.cast(auditor, word, is_opened))
                    self.paid[number][auditor.address] += is_opened
        return ballots

    def list_words(self, t: int, is_late: bool) -> list[int]:
        """What the ranks of draw t say."""
        if is_late:
            return [ACCEPT] * 3
        return [REJECT | 1_234_567 << 3, ACCEPT, ACCEPT] if self.case.is_refusing and t % 3 == 0 else [ACCEPT]

    def bring(self, number: int) -> bytes:
        """The round's claims, where the layout does not keep them."""
        claims = enumerate(self.claims.get(number, []) if self.case.layout == "Derived" else [])
        return b"".join(bytes([slot]) + root for slot, root in claims)

    def encode_post(self, number: int) -> bytes:
        """`post` with signatures of the least majority."""
        many = self.case.solvers
        shards = deal(hash_pair(self.seeds[number - 2], SOLVER), many, range(many), many)
        merged = sha256(b"".join(self.claims[number][slot] for slot in shards)).digest()
        root = self.roots[number] = hash_pair(merged, number)
        digest = tagged("merge", self.domain, number, self.roots[number - 1], merged, root)
        signatures = b"".join(one.sign(digest) for one in self.seats[SOLVER][: many // 2 + 1])
        self.paid[number].update(one.address for one in self.seats[SOLVER])
        signers = (1 << many // 2 + 1) - 1
        return self.contract.encode("post", TASK, number, root, signers, signatures, self.bring(number))

    def settle(self, first: int, behind: int) -> int:
        """Gas to pay all seats, where pay is derived for these rounds, else for all so far; checks what they
        got."""
        rounds = (first, behind) if self.case.layout == "Derived" else None
        before = self.read_balances()
        spans = [(len(some), *rounds) if rounds else (0, 0, len(some)) for some in self.seats]
        gas = sum(self.send("settle", TASK, kind, *span).gas for kind, span in enumerate(spans))
        numbers = range(first, behind) if rounds else list(self.paid)
        expected = sum((self.paid.pop(number) for number in numbers), before)
        if self.read_balances() != expected:
            raise RuntimeError(f"{self.case}: expected other pay for rounds {first} .. {behind - 1}")
        return gas

    def derive_pay(self, first: int, behind: int) -> int:
        """Gas to pay these rounds once more, unchecked."""
        kinds = enumerate(self.seats)
        return sum(self.send("settle", TASK, kind, len(some), first, behind).gas for kind, some in kinds)

    def count_accepted(self, number: int, votes: Sequence[bytes]) -> int:
        """Claims that these votes alone would have accepted."""
        before = self.chain.ask(("evm_snapshot", []))[0]
        data = self.contract.encode("judge", TASK, number, False, b"".join(votes), self.bring(number))
        call = {"from": self.sender, "to": self.contract.address, "data": "0x" + data.hex()}
        (log,) = self.chain.transact(call)["logs"]
        self.chain.ask(("evm_revert", [before]))
        return int(log["data"][2:66], 16).bit_count()

    def read_balances(self) -> Counter[str]:
        """What each account may claim, in units of one vote."""
        accounts = [one.address for some in self.seats for one in some]
        return Counter({one: self.contract.read("claimableOf", TASK, one)[0] for one in accounts})
