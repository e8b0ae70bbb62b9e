"""A whole task of nodes whose endpoints and clocks are wrong now and then, in the middle of their work."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.behind_providers import CAST, check_paid, open_behind, play
from tests.faults.provider import PASS, Fault, Refusal, Request, lag
from touchstone.node.kit.duty import Duty, name_duty
from touchstone.node.kit.signer import Signer
from touchstone.node.loop.node_loop import Loop
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.gate import Gate
from touchstone.protocol.adapters.keys.signatures import Signed
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.statements import Vote, VoteWord
from touchstone.scripts.network.devnet import run_anvil

CLOCKS_OFF_S = {"clock + 90 s": 90, "clock - 90 s": -90, "clock + 1 h": 3_600, "clock - 1 h": -3_600}
AMID = {
    "MakeClaim", "AuditDraw", "OfferVotes", "PostMerge", "AnswerQuery", "PostRoots", "PostTrace",
    "ShowLeaves", "MoveContest",
}  # fmt: skip
"""Some lie began in the middle of each of these."""
HEAD_TOO_HIGH = "head + 2,000"
"""All else is told rightly: what was folded before may be signed."""
LIE_REQUESTS, TRUTH_REQUESTS = (5, 40), (0, 60)
"""For so many requests: of a lie all, of the truth those that come while the party is at work."""


@dataclass
class Liar:
    """The endpoint and the clock of one party: wrong now and then, for some requests. told: the lie of now;
    count: how often it changed; at_work: what the party does; amid: at which work each lie began."""

    lies: Mapping[str, Fault]
    may_lie: Callable[[], bool]
    chance: random.Random
    told: str = ""
    post: int = -1
    left: int = 0
    count: int = 0
    at_work: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    amid: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    async def answer(self, request: Request) -> Any:
        """Answer a request. Those of one batch are all told the same."""
        if not self.may_lie():
            return PASS
        self.left -= bool(self.told or self.at_work)
        if self.left <= 0 and request.post != self.post:
            self._turn()
        self.post = request.post
        return await self.lies[self.told](request) if self.told in self.lies else PASS

    def begin(self, duty: str) -> None:
        """The party begins a duty. The first of each kind meets a lie soon. If the duty ends before, the next
        of the kind begins with a lie."""
        self.at_work.add(duty)
        if self.told or not self.may_lie() or any(duty in works for works in self.amid.values()):
            return
        if duty in self.met:
            self._turn()
        else:
            self.met.add(duty)
            self.left = min(self.left, self.chance.randint(0, 6))

    def _turn(self) -> None:
        self.count += 1
        self.told = "" if self.told else self.chance.choice([*self.lies, *CLOCKS_OFF_S])
        self.left = self.chance.randint(*(LIE_REQUESTS if self.told else TRUTH_REQUESTS))
        if self.told:
            self.amid[self.told] |= self.at_work

    def tell_time(self, gate: Gate) -> Callable[[], float]:
        """Returns the clock that a party looks at. The test network's own blocks run ahead of any clock."""
        return lambda: (gate.folded.timestamp_s if gate.folded else 0) + CLOCKS_OFF_S.get(self.told, 0)


def shift_head(blocks: int) -> Fault:
    """The head has another number."""

    async def answer(request: Request) -> Any:
        if request.method == "eth_getBlockByNumber" and request.params[0] == "latest":
            block = await request.ask(request.method, request.params)
            return {**block, "number": hex(int(block["number"], 16) + blocks)}
        return PASS

    return answer


def be_other(connection: Connection) -> Fault:
    """Everything is answered by another chain, which takes every transaction and forgets it."""

    async def answer(request: Request) -> Any:
        if request.method == "eth_sendRawTransaction":
            return "0x" + 64 * "0"
        try:
            return await connection.request(request.method, *request.params)
        except EnvironmentFault as fault:
            raise Refusal(str(fault.actual)) from None

    return answer


@dataclass
class Watched:
    """What the gates of all parties let through in a lie, and what was signed. names: of the parties, by
    their accounts."""

    names: dict[str, str]
    liars: dict[str, Liar] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    signed: list[Signed] = field(default_factory=list)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on."""
        pass_usually, sign_usually, perform_usually = Gate.pass_through, Signer.sign, Loop._perform

        async def pass_through(gate: Gate) -> None:
            liar = self.liars[owners[gate]] if gate in owners else None
            before = (liar.told, liar.count) if liar else None
            await pass_usually(gate)
            if liar and liar.told not in ("", HEAD_TOO_HIGH) and before == (liar.told, liar.count):
                self.passed.append(f"{owners[gate]}: {liar.told}")

        async def sign(signer: Signer, statement: Signed) -> bytes:
            signature = await sign_usually(signer, statement)
            self.signed.append(statement)
            return signature

        async def perform(loop: Loop, duty: Duty[Any], tools: Any) -> None:
            gate, name = loop.following.chain.gate, self.names[loop.account]
            if gate not in owners:
                owners[gate] = name
                gate.preset, gate._now = "2s", self.liars[name].tell_time(gate)
            at_work = self.liars[name].at_work
            self.liars[name].begin(name_duty(duty))
            try:
                await perform_usually(loop, duty, tools)
            finally:
                at_work.discard(name_duty(duty))

        owners = dict[Gate, str]()
        monkeypatch.setattr(Gate, "pass_through", pass_through)
        monkeypatch.setattr(Signer, "sign", sign)
        monkeypatch.setattr(Loop, "_perform", perform)


async def test_no_node_signs_or_sends_while_its_endpoint_or_clock_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another chain with the same id, a head that is 2,000 blocks too high or too low, a clock that is off by
    90 s and by an hour both ways: put in between any two requests of solvers, verifiers and the submitter,
    while they claim, audit, vote, merge, and answer disputes. A node once signed UNSERVED against an honest
    solver so, and it counted."""
    async with run_anvil(0, tmp_path / "other.log") as other_url:
        other = Connection(other_url)
        await other.request("anvil_mine", 3_000)
        lies = {
            "other chain": be_other(other),
            HEAD_TOO_HIGH: shift_head(2_000),
            "head - 2,000": lag(2_000, 1.0),
        }
        async with open_behind(tmp_path, CAST) as (world, providers):
            watched = Watched({key.address.lower(): name for name, key in world.keys.items()})
            for seed, (name, provider) in enumerate(providers.items()):
                watched.liars[name] = Liar(lies, world.all_seated.is_set, random.Random(seed))
                provider.faults.append(watched.liars[name].answer)
            watched.watch(monkeypatch)
            game = await play(world, CAST)
            amid = set[str]()
            for name, liar in watched.liars.items():
                print(name, liar.count, dict(liar.amid))
                amid |= set().union(*liar.amid.values())
            assert watched.passed == []
            assert amid >= AMID
            votes = [one for one in watched.signed if isinstance(one, Vote)]
            assert votes and {vote.word for vote in votes} == {VoteWord.ACCEPT}
            await check_paid(world, game, set(CAST) - {"harasser"})
        await other.close()
