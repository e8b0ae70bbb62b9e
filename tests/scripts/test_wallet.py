"""What commands that move tokens share: what is due is sent once and in order, no token too much moves, and
the operator is asked first."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.protocol.spec.game.simulation import (
    SUBMITTER,
    Simulation,
    is_posted,
    make_quiet_world,
    make_world,
    post,
)
from tests.protocol.spec.game.test_posting import make_judged
from touchstone.explorer.task_documents import count_active, describe_phase
from touchstone.node.records.record_kinds import RECORDS
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.contract import Receipt
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.journal import FILE_NAME, Journal
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.timing import get_duty_until
from touchstone.protocol.spec.game.vault import credit_of
from touchstone.scripts.account import sending
from touchstone.scripts.account.requirements import require_agreement, require_coin, require_tokens
from touchstone.scripts.account.sending import is_node_running, send, send_dues
from touchstone.scripts.account.task_names import pick_task
from touchstone.scripts.account.task_words import (
    describe_first_round,
    describe_missing,
    is_task_closable,
    list_open,
)
from touchstone.scripts.command_line.console import Console

TASK = b"t" * 32


@dataclass
class WorldChain:
    """The contracts of one task, played on the pure machine: it stands for each of them. rivals: calls that
    another node sends just before the same call of this account."""

    world: Simulation
    address: str = "operator"
    rivals: set[GameCall] = field(default_factory=set)
    sent: list[GameCall] = field(default_factory=list)

    def __getattr__(self, contract: str) -> "WorldChain":
        return self

    def read(self) -> Any:
        """What `read_state` reads."""
        return SimpleNamespace(games={TASK: self.world.state}, refused={}, head_block=self.world.block - 1)

    async def settle(self, task: bytes, seats: list[int], until_round: int) -> Any:
        (seat,) = seats
        return self._send(calls.SettleSeat(seat, until_round))

    async def pay_out(self, task: bytes, seat: int) -> Any:
        return self._send(calls.PayOut(seat))

    async def free_epoch(self, task: bytes) -> Any:
        return self._send(calls.FreeEpoch())

    async def halt(self, task: bytes) -> Any:
        return self._send(calls.HaltTask())

    async def close_task(self, task: bytes) -> Any:
        before = self._get_credit()
        self._send(calls.CloseTask())
        closed = SimpleNamespace(arguments={"refund_wei": self._get_credit() - before})
        return SimpleNamespace(find=lambda name: closed if name == "TaskClosed" else None)

    def _get_credit(self) -> int:
        return self.world.state.vault.wei.get(credit_of(SUBMITTER), 0)

    def _send(self, call: GameCall) -> Any:
        self.sent.append(call)
        if call in self.rivals:
            self.world.send(call, "rival")
        try:
            self.world.send(call, self.address)
        except GameRefusal as refusal:
            words: dict[str, Any] = {"what": "refused", "expected": "", "actual": "", "remedy": ""}
            raise ContractRefused(name=refusal.name, values={}, **words) from refusal
        return None


def play_over() -> Simulation:
    """A task of one round that is over: each seat can be settled, and none is."""
    world = make_world(rounds=1, late_chance=0).play(is_posted)
    until = get_duty_until(world.state, world.state.rounds[0])
    assert until is not None
    world.jump(until + 1)
    return world


def use(chain: WorldChain, monkeypatch: pytest.MonkeyPatch, *modules: Any) -> GameChain:
    """Have commands read this chain."""

    async def read_state(_: GameChain, account: str) -> Any:
        return chain.read()

    for module in modules:
        monkeypatch.setattr(module, "read_state", read_state)
    return cast(GameChain, chain)


# Dues
async def test_all_that_is_due_is_sent_settlements_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a seat that has settled is paid out."""
    chain = WorldChain(play_over())
    seats = set(chain.world.state.seats)
    await send_dues(use(chain, monkeypatch, sending), TASK)
    kinds = [type(call) for call in chain.sent]
    assert set(kinds[: len(seats)]) == {calls.SettleSeat} and calls.SettleSeat not in kinds[len(seats) :]
    assert {one.seat for one in chain.sent if isinstance(one, calls.PayOut)} == seats
    assert not chain.world.state.seats


async def test_for_one_account_only_its_own_seat_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """`touchstone withdraw` pays gas for the seats of no other account."""
    chain = WorldChain(play_over(), "verifier1")
    own = chain.world.get_seat("verifier1").number
    await send_dues(use(chain, monkeypatch, sending), TASK, "verifier1")
    assert [type(one) for one in chain.sent] == [calls.SettleSeat, calls.PayOut]
    assert {one.seat for one in chain.sent} == {own}  # type: ignore[attr-defined]
    assert own not in chain.world.state.seats and len(chain.world.state.seats) > 5


async def test_what_a_running_node_sends_first_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its calls comes just before that of the command, whose own is refused."""
    chain = WorldChain(play_over())
    quiet = WorldChain(play_over())
    await send_dues(use(quiet, monkeypatch, sending), TASK)
    chain.rivals = set(quiet.sent)
    await send_dues(use(chain, monkeypatch, sending), TASK)
    assert chain.sent == quiet.sent and not chain.world.state.seats


# Sending
@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_lost_answer_tells_to_look_before_anything_is_repeated(is_lost: bool) -> None:
    """A chain that has answered has taken nothing: then its own remedy stands alone."""

    async def fail() -> Receipt:
        remedy = "Start a node."
        raise EnvironmentFault(what="no answer", expected="", actual="", remedy=remedy, retryable=is_lost)

    with pytest.raises(EnvironmentFault) as told:
        await send(fail())
    assert told.value.remedy.startswith("Start a node.")
    assert ("look at `touchstone status` first" in told.value.remedy) == is_lost
    assert told.value.retryable == is_lost


class Vault:
    """Credit and tokens of an account."""

    address = "vault"

    def __init__(self, credit_wei: int, wallet_wei: int) -> None:
        self.credit_wei, self.wallet_wei = credit_wei, wallet_wei

    async def credit_of(self, account: str) -> int:
        return self.credit_wei

    async def balance_of(self, account: str) -> int:
        return self.wallet_wei


async def test_credit_and_wallet_together_have_to_hold_the_tokens() -> None:
    for credit_wei in (4, 10):
        vault = Vault(credit_wei, 6)
        where = SimpleNamespace(chain_id=1, token="0xt")
        chain: Any = SimpleNamespace(vault=vault, token=vault, address="operator", deployment=where)
        await require_tokens(chain, "operator", credit_wei + 6)
        for chain_id in (1, 31_337):
            where.chain_id = chain_id
            with pytest.raises(InvalidInput, match="too few tokens") as refusal:
                await require_tokens(chain, "operator", credit_wei + 7)
            assert ("devnet" in refusal.value.remedy) == (chain_id == 31_337), "only there some are given"


@pytest.mark.parametrize("coin_wei", [0, 1])
async def test_who_has_no_coin_for_gas_is_refused(coin_wei: int) -> None:
    async def balance_of(account: str) -> int:
        return coin_wei

    chain: Any = SimpleNamespace(connection=SimpleNamespace(balance_of=balance_of))
    if coin_wei:
        return await require_coin(chain, "operator")
    with pytest.raises(InvalidInput, match="no coin for gas"):
        await require_coin(chain, "operator")


# Asking
def test_nothing_is_done_against_the_will_of_the_operator_or_beside_its_node(tmp_path: Path) -> None:
    """A home whose journal is open has a node: what is stuck of its calls is left to it."""
    said, asked = list[str](), list[str]()

    def refuse(question: str) -> bool:
        asked.append(question)
        return False

    console: Any = SimpleNamespace(notify=said.append, confirm=refuse)
    with pytest.raises(InvalidInput, match="nothing was done"):
        require_agreement(cast(Console, console), ["WARNING"], "Do it?", is_agreed=False)
    require_agreement(cast(Console, console), ["WARNING"], "Do it?", is_agreed=True)
    assert (said, asked) == (["WARNING", "WARNING"], ["Do it?"]), "--yes is shown the warning, not asked"
    assert not is_node_running(tmp_path)
    with Journal(tmp_path / FILE_NAME, RECORDS):
        assert is_node_running(tmp_path)
    assert not is_node_running(tmp_path)


TASKS = [bytes.fromhex("3fa9" + 60 * "0"), bytes.fromhex("3fb0" + 60 * "0")]


def tell(world: Simulation) -> str:
    return describe_phase(world.state, world.block + 1)


def test_a_task_is_named_by_its_first_digits() -> None:
    assert pick_task(TASKS, "0x3fa") == TASKS[0] and pick_task(TASKS, "3FB0") == TASKS[1]
    for name, what in (("3f", "several"), ("", "unknown"), ("0x", "unknown"), ("4", "unknown")):
        with pytest.raises(InvalidInput, match=what) as refusal:
            pick_task(TASKS, name)
        assert "0x3fa900000000" in str(refusal.value.expected)
    with pytest.raises(InvalidInput) as refusal:
        pick_task([], "3fa9")
    assert refusal.value.what == "unknown task: none was ever posted"
    assert "rpc_url" in refusal.value.remedy and "one of" not in str(refusal.value.expected)


def test_a_task_says_what_it_does() -> None:
    world = make_quiet_world(rounds=1)
    assert tell(world) == "training" and "round 0: training" in list_open(world.state, world.block + 1)
    judged = make_judged(rounds=1)
    assert tell(judged) == "audits"
    post(judged, (0, 1), (0, 1, 2))
    assert tell(judged) == "over", "no round is to come"
    assert not is_task_closable(judged.state, judged.block + 1)
    assert list(list_open(judged.state, judged.block + 1)) == [
        f"seats still to be paid out: {len(judged.state.seats)}"
    ]


def test_a_halted_task_is_over_after_its_round() -> None:
    world = make_judged(rounds=2)
    world.send(calls.HaltTask(), SUBMITTER)
    assert tell(world) == "audits"
    post(world, (0, 1), (0, 1, 2))
    assert tell(world) == "halted"


def test_who_is_missing_is_counted_by_role() -> None:
    world = make_world(solvers=0, verifiers=1, whistleblowers=3)
    assert tell(world) == "paused"
    assert describe_missing(world.state) == "1 more solver, 2 more verifiers"
    assert [count_active(world.state, role) for role in SeatRole] == [0, 1, 3]


def test_a_late_seat_is_told_from_which_round_on_it_works() -> None:
    """The pool that is frozen next has it, and the last pool of two rounds is frozen with the start."""
    long, short = make_quiet_world(rounds=4), make_quiet_world(rounds=2)
    (said,) = describe_first_round(long.state)
    assert said == "a seat that is taken now works from round 2 on; the task ends with round 3"
    (said,) = describe_first_round(short.state)
    assert said.startswith("WARNING: the members of all remaining rounds are fixed")
    assert not list(describe_first_round(make_world(solvers=0).state)), "before the start each round has it"


def test_a_task_that_was_played_to_its_end_is_closed() -> None:
    world = make_world(rounds=1)
    world.play()
    assert world.state.is_closed and tell(world) == "closed"
    assert not list(list_open(world.state, world.block + 1))
