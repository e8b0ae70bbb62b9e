"""A task of many solvers and rounds as a chain would log it, made up; and an explorer that hears it live.

    post, seats, start, then for each round: claims, draw, votes, root; each epoch: settled, freed

Nobody trains and nothing is sent: claims are accepted, a few are disputed in vain, one auditor is convicted.
Each event is folded as it is made, since the draws decide who votes. `python -m tests.explorer.many_accounts`
is the explorer that a benchmark measures: a process that computes nothing.
"""

import argparse
import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.names import Names
from touchstone.explorer.running_explorer import open_explorer
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.abi import load_own_abi
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, GameDeployment
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.chain.pots import BONDS, STAKES, name_pot
from touchstone.protocol.spec.game.assignments import get_late_draw
from touchstone.protocol.spec.game.enums import ProofKind, SeatRole
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.log_values import NO_DRAW
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.typed_data import SigningDomain

FIRST_BLOCK = 100
TRAIN_BLOCKS, ROUND_BLOCKS = 30, 36
SETTLED_AFTER = 40
"""Rounds from the first of an epoch until its seats settle it."""
DISPUTED_EVERY = 100
CHEAT = 1
"""The slot of the solver that errs."""
NUMBER = {
    "node": 375, "operation": "SUBTRACT", "element": 133439, "operands": [["1654.34631", "0.00135136908"]],
    "claimed": "2481.76749", "formula": "1654.34631 - 0.00135136908", "exact": "1654", "is_fault": True,
    "exact_shown": "1654.34495863", "bound": "0", "bound_shown": "0", "distance_shown": "827",
}  # fmt: skip
"""The number by which it falls."""
CONTRACTS = {
    entry.name: contract
    for contract in GAME_CONTRACTS.values()
    for entry in load_own_abi(contract)
    if entry.kind == "event"
}
"""Who logs it, by the name of the event."""
GROUPS = {SeatRole.VERIFIER: 13, SeatRole.WHISTLEBLOWER: 6}
BEFORE = frozenset({"Deposited", "Taken"})
"""What is logged before the task is posted."""


def make_word(*parts: object) -> bytes:
    """32 bytes that a name stands for."""
    return hashlib.sha256(repr(parts).encode()).digest()


def make_address(*parts: object) -> str:
    """An account, or a contract."""
    return "0x" + make_word(*parts)[:20].hex()


TASK, SUBMITTER = make_word("task"), make_address("submitter")
DEPLOYMENT = GameDeployment(
    chain_id=31337, token=make_address("token"), deploy_block=0,
    **{name: make_address(name) for name in GAME_CONTRACTS},
)  # fmt: skip
SIGNING = SigningDomain(DEPLOYMENT.chain_id, DEPLOYMENT.tasks)


def make_head(number: int) -> Head:
    """A block of a chain without forks, twelve seconds after the one before."""
    return Head(number, make_word("block", number), make_word("block", number - 1), 12 * number, 10**9)


def make_chain(live: Path | None = None, pace_s: float = 0.0) -> Any:
    """What an explorer has of a chain. live: an index with blocks to come, one each `pace_s`."""

    async def follow(heads: Sequence[Head]) -> AsyncIterator[LogBatch]:
        """The stored blocks of `live`, then silence."""
        index = None if live is None else EventIndex(live, DEPLOYMENT)
        for events in [] if index is None else index.list_blocks():
            for number in sorted({event.block_number for event in events}):
                of_block = tuple(event for event in events if event.block_number == number)
                yield LogBatch(make_head(number), of_block)
                await asyncio.sleep(pace_s)
        await asyncio.Event().wait()

    async def find_head() -> Head:
        """Before the deployment: there is nothing to look for who created the contracts."""
        return make_head(DEPLOYMENT.deploy_block - 1)

    async def find_code(*_: object, **__: object) -> bytes:
        """The same wherever it is asked for, so each contract is as it should be."""
        return b""

    return SimpleNamespace(
        address="",
        bounds=BOUNDS_LOCAL,
        signing=SIGNING,
        deployment=DEPLOYMENT,
        connection=SimpleNamespace(
            code_at=find_code,
            call=find_code,
            head=find_head,
            poll_s=1.0,
            health=SimpleNamespace(answered_s=float("inf"), unread="", unread_s=0.0),
        ),  # fmt: skip
        follow=follow,
    )


@dataclass
class ManyAccounts:
    """terms, training: of the posted task. block: the one that is filled; events: of it so far. In
    `cheat_round` the solver of slot CHEAT errs, and is convicted."""

    terms: Any
    training: bytes
    solvers: int
    cheat_round: int | None = None
    block: int = FIRST_BLOCK
    events: list[Event] = field(default_factory=list)
    accounts: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = ChainState.of(make_chain())
        self.pots = {kind: name_pot(kind, TASK) for kind in ("escrow", STAKES, BONDS)}
        self._transaction = 0

    @property
    def game(self) -> LoggedGame:
        """As the events so far tell it."""
        return self.state.games[TASK]

    def log(self, name: str, **values: Any) -> None:
        """One more event of the block, in the transaction that was begun last."""
        entry = next(one for one in load_own_abi(CONTRACTS[name]) if one.name == name)
        known = {"task": TASK, **values}
        arguments = {one.name: known[one.name] for one in entry.inputs}
        place = (self.block, len(self.events), make_word("block", self.block), self.transaction)
        self.events.append(Event(CONTRACTS[name], name, arguments, *place))
        self.state.fold(self.events[-1])
        assert TASK in self.state.games or name in BEFORE, self.state.refused

    @property
    def transaction(self) -> bytes:
        """The hash of the transaction that was begun last."""
        return make_word("transaction", self._transaction)

    def begin(self) -> None:
        """Another transaction."""
        self._transaction += 1

    def pass_to(self, block: int) -> Iterator[LogBatch]:
        """The block so far, where it has events; then the later one is filled."""
        if self.events:
            yield LogBatch(make_head(self.block), tuple(self.events))
        self.block, self.events = block, []
        self.state.head_block = block - 1

    # What happens
    def play(self, rounds: int) -> Iterator[LogBatch]:
        """From the post to the root of the last of so many rounds."""
        yield from self._open()
        for index in range(rounds):
            yield from self._play_round(index)
        yield from self.pass_to(self.block + 1)

    def _open(self) -> Iterator[LogBatch]:
        amounts = self.terms.amounts
        self.begin()
        escrow_wei = 1 << 80
        self.log("Deposited", account=SUBMITTER, wei_=escrow_wei)
        self.log("Taken", account=SUBMITTER, pot=self.pots["escrow"], wei_=escrow_wei)
        posted = {"terms": self.terms, "training": self.training}
        self.log("TaskPosted", submitter=SUBMITTER, **posted, escrow_wei=escrow_wei)
        for role, count in {SeatRole.SOLVER: self.solvers, **GROUPS}.items():
            stake_wei = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
            for number in range(count):
                seat, account = compute_seat_id(role, number), make_address(role.name, number)
                self.accounts[seat] = account
                self.begin()
                self.log("Deposited", account=account, wei_=stake_wei)
                self.log("SeatJoined", seat=seat, account=account, stake_wei=stake_wei)
                self.log("Taken", account=account, pot=self.pots["stakes"], wei_=stake_wei)
        self.begin()
        self.log("StartAsked", first_round=0, beacon_block=self.block + 2)
        yield from self.pass_to(self.block + 3)
        self.begin()
        self.log("StartDrawn", randomness=make_word("start"))
        self.log("RoundOpened", round=0, base_root=self.game.terms.root)

    def _play_round(self, index: int) -> Iterator[LogBatch]:
        opened = self.block
        for slot in range(self.solvers):
            if slot % (self.solvers // 4 or 1) == 0:
                yield from self.pass_to(max(self.block + 1, opened + TRAIN_BLOCKS))
            self.begin()
            claim = {"slot": slot, "claim_root": make_word("claim", index, slot)}
            self.log("ClaimTaken", round=index, **claim, segments=self.game.terms.segment_count)
        closing = self.block
        yield from self.pass_to(opened + ROUND_BLOCKS)
        self.begin()
        self.log("RoundClosed", round=index, closing_block=closing)
        self.log("AuditsDrawn", round=index, randomness=make_word("draw", index))
        self.begin()
        self._vote(index)
        if index and index % DISPUTED_EVERY == 0:
            self._dispute(index - 1)
        if index == self.cheat_round:
            self._convict_solver(index)
        if index == DISPUTED_EVERY + 1:
            self._convict(index - 1)
        if index % EPOCH_ROUNDS == SETTLED_AFTER % EPOCH_ROUNDS and index >= SETTLED_AFTER:
            self._settle((index - SETTLED_AFTER) // EPOCH_ROUNDS)
        self.begin()
        everybody = (1 << self.solvers) - 1 - (1 << CHEAT if index == self.cheat_round else 0)
        root = make_word("root", index)
        self.log("RootPosted", round=index, root=root, merged=everybody, signers=everybody)
        self.log("RoundOpened", round=index + 1, base_root=root)

    def _vote(self, index: int) -> None:
        """All primaries of the round, then those of the late audits that were just drawn."""
        before, places = self.game.rounds.get(index - 1), [(index, slot, 0) for slot in range(self.solvers)]
        if before is not None:
            late = [s for s in range(self.solvers) if get_late_draw(self.game, before, s) is not None]
            places += [(index - 1, slot, self.game.terms.draws) for slot in late]
        for name in ("VotesCounted", "VotesOpened"):
            for number, slot, draw in places:
                is_false = (number, slot) == (self.cheat_round, CHEAT)
                word = VoteWord.REJECT_STATE if is_false else VoteWord.ACCEPT
                for rank in range(3 if is_false else 1):
                    self.log(name, round=number, votes=bytes([slot, draw, rank, word]))

    def _dispute(self, index: int, slot: int = 3) -> None:
        """A claim that is disputed in vain, with all moves in one block."""
        seat, statement = (
            self.game.rounds[index].pool.solvers[slot],
            SimpleNamespace(round=index, slot=slot, draw=NO_DRAW, rank=0),
        )
        self._move(index, seat, statement)
        self.log("DisputeEnded", dispute=make_word("dispute", index), outcome=DisputeStage.CLEARED)

    def _move(self, index: int, seat: int, statement: SimpleNamespace) -> None:
        opener, dispute = make_address(SeatRole.WHISTLEBLOWER.name, 0), make_word("dispute", index)
        state = StateHeader(make_word("W"), make_word("m"), make_word("v"), 1, 1)
        steps = self.terms.segment_steps
        said = {"dispute": dispute, "clock_block": self.block + 10}
        self.begin()
        bond_wei = self.terms.amounts.dispute_bond
        ref = {"seat": seat, "statement": statement, "segment": 1}
        self.log("DisputeOpened", **said, **ref, opener=opener, bond_wei=bond_wei)
        self.log("Taken", account=opener, pot=self.pots["bonds"], wei_=bond_wei)
        self.begin()
        self.log("StepRootsPosted", **said, roots=[make_word("state", index, at) for at in range(steps + 1)])
        self.begin()
        self.log("StepNamed", **said, step=steps // 2)
        self.begin()
        self.log("TracePosted", **said, trace_root=make_word("trace", index), start=state, end=state)
        self.begin()

    def _convict(self, index: int) -> None:
        """The primary of a draw, which said ACCEPT."""
        seat, finder = compute_seat_id(SeatRole.VERIFIER, 12), make_address(SeatRole.WHISTLEBLOWER.name, 0)
        statement, stake_wei = (
            SimpleNamespace(round=index, slot=5, draw=0, rank=0),
            self.terms.amounts.auditor_stake,
        )
        self._move(index, seat, statement)
        proven = {"seat": seat, "proof": ProofKind.DISPUTED, "finder": finder}
        self.log("DisputeEnded", dispute=make_word("dispute", index), outcome=DisputeStage.CONVICTED)
        self.log("SeatConvicted", **proven, stake_wei=stake_wei)
        self.log("StatementConvicted", **proven, statement=statement)
        self.log("Given", pot=self.pots["stakes"], account=finder, wei_=stake_wei // 4)
        self.log("Discarded", pot=self.pots["stakes"], wei_=stake_wei - stake_wei // 4)

    def _convict_solver(self, index: int) -> None:
        """The solver of slot CHEAT, by one number of its claim."""
        seat, finder = (
            self.game.rounds[index].pool.solvers[CHEAT],
            make_address(SeatRole.WHISTLEBLOWER.name, 0),
        )
        statement, stake_wei = (
            SimpleNamespace(round=index, slot=CHEAT, draw=NO_DRAW, rank=0),
            self.terms.amounts.solver_stake,
        )
        self._move(index, seat, statement)
        proven = {"seat": seat, "proof": ProofKind.DISPUTED, "finder": finder}
        self.log("DisputeEnded", dispute=make_word("dispute", index), outcome=DisputeStage.CONVICTED)
        self.log("SeatConvicted", **proven, stake_wei=stake_wei)
        self.log("StatementConvicted", **proven, statement=statement)
        for account, share in (
            (finder, min(stake_wei // 4, self.terms.amounts.finder_cap)),
            (SUBMITTER, stake_wei // 4),
        ):
            self.log("Given", pot=self.pots["stakes"], account=account, wei_=share)

    def _settle(self, epoch: int) -> None:
        """All seats that are still there, then the epoch is freed."""
        until, amounts = EPOCH_ROUNDS * (epoch + 1) - 1, self.terms.amounts
        for seat in sorted(self.game.seats):
            if self.game.seats[seat].settled <= until:
                self.begin()
                is_solver = self.game.seats[seat].role == SeatRole.SOLVER
                pay_wei = EPOCH_ROUNDS * amounts.solver_pay if is_solver else amounts.audit_pay
                paid = {"paid_wei": pay_wei, "burned_wei": 0, "fee_wei": 0}
                self.log("SeatSettled", seat=seat, until_round=until, **paid)
                account = self.game.seats[seat].account
                self.log("Given", pot=self.pots["escrow"], account=account, wei_=pay_wei)
        self.begin()
        self.log("EpochFreed", epoch=epoch)


def fill(path: Path, batches: Iterator[LogBatch]) -> int:
    """An explorer's index with these blocks; how many events it has."""
    index, count = EventIndex(path, DEPLOYMENT), 0
    try:
        for batch in batches:
            index.take(batch)
            count += len(batch.events)
            for event in batch.events:
                if event.name == "SeatConvicted":
                    is_solver = int(event.arguments["seat"]) >> 16 == SeatRole.SOLVER
                    index.put_number(event.transaction_hash, NUMBER if is_solver else None)
    finally:
        index.close()
    return count


async def serve(index: Path, live: Path, pace_s: float) -> None:
    """An explorer until it is ended. It prints its address, and a line once all stored events are folded."""
    chain = cast(Any, make_chain(live, pace_s))
    async with open_explorer(chain, index, Names({})) as explorer:
        print(explorer.url, flush=True)
        while explorer.view.head is None and not explorer.following.done():
            await asyncio.sleep(0.05)
        print("folded", flush=True)
        await explorer.following


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("live", type=Path)
    parser.add_argument("pace_s", type=float)
    options = parser.parse_args()
    asyncio.run(serve(options.index, options.live, options.pace_s))
