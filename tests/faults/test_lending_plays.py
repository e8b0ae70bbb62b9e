"""Plays against nodes of lent machines: what is killed, refused, or late between two seats, and whose word a
`leave` is. No stake is locked that nobody asked for, and no node forgets to come back."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import rich.console

from protocol.actions.runtime import playing, watching
from protocol.actions.runtime.joining import SeatWish
from protocol.actions.runtime.watching import list_duties, play_while_idle
from protocol.adapters.chain.refusal_words import ContractRefused
from protocol.adapters.machine import MachineUse
from protocol.adapters.reports import read_node_state
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.state import Seat, SeatRole, SeatStatus, create_game
from protocol.spec.game.terms import LIMITS_LOCAL
from scripts import role_commands
from scripts.console import Console, NotNeeded
from scripts.home import list_left, note_left
from scripts.role_commands import Offer, Sitting
from tests.protocol.actions.runtime.test_lending import SEAT, lend, read_state
from tests.protocol.actions.runtime.test_watching import ACCOUNT
from tests.protocol.spec.game.world import START_BLOCK, make_terms

TASK = b"t" * 32


def silence() -> EnvironmentFault:
    return EnvironmentFault(what="the chain is silent", expected="an answer", actual="none", remedy="Wait.")


# --- A leave that is under way ------------------------------------------------------------------------------
async def test_a_leave_that_waits_longer_than_somebody_uses_the_machine_is_still_the_nodes_own(
    tmp_path: Path,
) -> None:
    """Gas was dear for a while. The node forgot why it leaves, and did not come back."""
    party, use = lend(tmp_path)
    is_mined = asyncio.Event()

    async def leave(task: bytes, seat: int) -> None:
        await is_mined.wait()

    party.chain.tasks = SimpleNamespace(leave=leave)
    use.note("somebody types in a terminal", 0.0)
    (duty,) = list_duties(party, 10)
    leaving = asyncio.create_task(duty.perform(party))
    while not (known := read_node_state(tmp_path)) or not known.is_leaving:
        await asyncio.sleep(0.01)
    use.is_used, use.is_idle = False, True
    assert not list(list_duties(party, 11)) and use.is_leaving
    is_mined.set()
    await leaving
    assert not list(list_duties(party, 12)) and use.is_leaving, "the block with it is not read yet"
    party.game = SimpleNamespace(seats={SEAT.number: replace(SEAT, status=SeatStatus.LEAVING)})
    assert not list(list_duties(party, 13)) and use.is_leaving


async def test_a_leave_that_the_chain_refuses_is_none(tmp_path: Path) -> None:
    party, use = lend(tmp_path)

    async def refuse(task: bytes, seat: int) -> None:
        raise ContractRefused(what="no", expected="", actual="", remedy="", name="No", values={})

    party.chain.tasks = SimpleNamespace(leave=refuse)
    use.note("somebody types in a terminal", 0.0)
    (duty,) = list_duties(party, 10)
    with pytest.raises(ContractRefused):
        await duty.perform(party)
    assert list(list_duties(party, 11)) == [duty], "it is tried again while the machine is used"
    use.is_used = False
    assert not list(list_duties(party, 12)) and not use.is_leaving


# --- A seat that is gone before it is played ----------------------------------------------------------------
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_seat_that_was_paid_out_since_the_command_began_is_not_taken_again(
    monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """`touchstone solve` said: going on as solver 0. It asked nothing, since the seat was leaving."""
    taken = list[SeatWish]()

    async def do_nothing(*_: object) -> None:
        pass

    async def take(party: object, wish: SeatWish) -> None:
        taken.append(wish)
        raise silence()

    for name in ("catch_up", "open_task", "check_bits"):
        monkeypatch.setattr(playing, name, do_nothing)
    monkeypatch.setattr(playing, "take_seat", take)
    game = replace(create_game(make_terms(), LIMITS_LOCAL, START_BLOCK), former={7: SEAT} if is_known else {})
    joined = SimpleNamespace(
        **{name: SimpleNamespace(close=lambda: None) for name in ("audits", "cases", "retraining", "team")}
    )
    party = SimpleNamespace(
        task=joined, game=game, account=ACCOUNT, say=print, batches=endless(), woken=asyncio.Event(),
        state=SimpleNamespace(head_block=START_BLOCK), is_task_known=True,
    )  # fmt: skip
    play = partial(playing.play, cast(Any, party), TASK, ())
    assert await play(SeatWish(SeatRole.SOLVER, is_held=True)) is False and not taken
    with pytest.raises(EnvironmentFault):
        await play(SeatWish(SeatRole.SOLVER))
    assert len(taken) == 1, "who asks for a new one gets it"


async def endless() -> Any:
    await asyncio.Event().wait()
    yield


# --- Between two seats --------------------------------------------------------------------------------------
@dataclass
class Between:
    """A node of a lent machine between two seats, and the chain that it asks. seat: the account's; agreed:
    what was agreed on; is_silent: the chain does not answer; is_late: it does not tell events yet; mined:
    transactions of the account."""

    home: Path
    use: MachineUse = field(default_factory=lambda: MachineUse(idle_s=600, cores=0.5))
    seat: Seat | None = None
    agreed: list[SeatWish] = field(default_factory=list)
    is_silent: bool = False
    is_late: bool = False
    mined: int = 0

    def sit(
        self, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Awaitable[bool]], *, is_agreed: bool = True
    ) -> Sitting:
        """The state machine of the command. run: the role."""

        async def read(chain: object, account: str) -> Any:
            if self.is_silent:
                raise silence()
            return SimpleNamespace(head_block=START_BLOCK, is_convicted=lambda *_: False)

        async def find_room(*_: object) -> Any:
            return SimpleNamespace(who="a solver", memory_bytes=1, disk_bytes=1)

        async def agree(*_: object) -> SeatWish:
            self.agreed.append(SeatWish(SeatRole.SOLVER, 5, is_held=self.seat is not None))
            return self.agreed[-1]

        async def seat_of(task: bytes, account: str) -> int:
            await asyncio.sleep(0.01)
            return 0 if self.seat is None else 1 + self.seat.number

        async def show_nothing(*_: object) -> None:
            pass

        for name, made in (
            ("read_state", read), ("find_room", find_room), ("agree_on_seat", agree),
            ("find_own_game", lambda *_: (TASK, self.get_game())), ("refuse_seat", lambda *_: None),
            ("resolve_name", lambda _: run), ("show_progress", show_nothing), ("SEAT_S", 0.01),
            ("get_stake", lambda *_: 5), ("get_required_stake", lambda *_: 5),
            ("require_no_seat", show_nothing),
        ):  # fmt: skip
            monkeypatch.setattr(role_commands, name, made)
        party, _ = lend(self.home)
        config = replace(party.config, use=self.use)
        console = Console(rich.console.Console(file=StringIO(), width=400))

        async def count(account: str, block: str) -> int:
            return self.mined

        connection = SimpleNamespace(transaction_count=count)
        chain: Any = SimpleNamespace(tasks=SimpleNamespace(seat_of=seat_of), connection=connection)
        home: Any = SimpleNamespace()
        return Sitting(chain, config, home, TASK.hex(), Offer(SeatRole.SOLVER, 0, is_agreed), console)

    def get_game(self) -> Any:
        known = [] if self.seat is None or self.is_late else [replace(self.seat, account=self.get_account())]
        game = create_game(make_terms(), LIMITS_LOCAL, START_BLOCK)
        return replace(game, seats={seat.number: seat for seat in known})

    def get_account(self) -> str:
        party, _ = lend(self.home)
        return str(party.config.key.address.lower())


async def run_nothing(*_: object) -> bool:
    return False


async def test_a_join_that_the_chain_takes_after_a_kill_is_played_though_somebody_uses_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node was killed in the seconds between sending it and its block, and started again. It waited for
    an idle machine, while rounds held its seat: a fee for each."""
    between = Between(tmp_path)
    sitting = between.sit(monkeypatch, run_nothing)
    await sitting.agree()
    between.use.note("somebody types in a terminal", 0.0)
    waiting = asyncio.create_task(sitting.wait())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    between.seat, between.is_late = SEAT, True
    await asyncio.sleep(0.1)
    assert not waiting.done(), "its event has not come yet"
    between.is_late = False
    assert await asyncio.wait_for(waiting, 30) and between.agreed[-1].is_held
    assert sitting.is_seated and not between.use.is_idle


async def test_a_node_that_failed_while_its_seat_leaves_goes_on_with_it_at_once_and_still_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain was silent for minutes. Without that the process ended: nobody was there to start it, and a
    dispute would have cost the stake."""
    monkeypatch.setattr(watching, "RETRY_S", 0.01)
    between, plays = Between(tmp_path, seat=SEAT), list[bool]()

    async def run(*_: object) -> bool:
        plays.append(between.use.is_leaving)
        if len(plays) == 1:
            between.use.is_leaving = between.is_silent = True
            asyncio.get_running_loop().call_later(0.1, setattr, between, "is_silent", False)
            raise silence()
        return len(plays) == 3

    sitting, said = between.sit(monkeypatch, run), list[str]()
    await sitting.agree()
    between.use.is_idle = True
    play = play_while_idle(between.use, sitting.is_seated, sitting.wait, sitting.play, said.append)
    assert await asyncio.wait_for(play, 30)
    assert plays == [False, True, True] and any("silent" in line for line in said)


async def test_what_stays_wrong_ends_the_node(tmp_path: Path) -> None:
    async def refuse() -> bool:
        raise EnvironmentFault(what="no disk", expected="", actual="", remedy="", retryable=False)

    use = MachineUse(idle_s=600, cores=0.5)
    with pytest.raises(EnvironmentFault, match="no disk"):
        await asyncio.wait_for(play_while_idle(use, False, refuse, refuse, print), 30)


# --- Whose word it is ---------------------------------------------------------------------------------------
async def test_who_leaves_for_good_on_a_machine_that_it_types_at_finds_no_stake_locked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To type `touchstone leave` there is use of the machine: the node sends the same first."""
    between = Between(tmp_path, seat=SEAT)

    async def run(*_: object) -> bool:
        between.use.is_leaving = True
        note_left(tmp_path, TASK)
        between.seat = None
        return False

    sitting = between.sit(monkeypatch, run)
    await sitting.agree()
    between.use.is_idle = True
    work = play_while_idle(between.use, sitting.is_seated, sitting.wait, sitting.play, print)
    assert await asyncio.wait_for(work, 30) is False
    assert [one.is_held for one in between.agreed] == [True], "nothing more was agreed on"


async def test_who_asks_for_a_seat_anew_has_not_left_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of the node alone asks for none: what was typed before counts."""
    between = Between(tmp_path, seat=SEAT)
    note_left(tmp_path, TASK)
    note_left(tmp_path, b"o" * 32)
    await between.sit(monkeypatch, run_nothing).agree()
    assert list_left(tmp_path) == {TASK.hex(), (b"o" * 32).hex()}
    between.seat = None
    with pytest.raises(NotNeeded, match="left the task for good"):
        await between.sit(monkeypatch, run_nothing).agree()
    sitting = between.sit(monkeypatch, run_nothing, is_agreed=False)
    await sitting.agree()
    assert sitting.wish is not None and sitting.wish.require_wanted is not None
    assert TASK.hex() in list_left(tmp_path), "it is asked once the machine was checked"
    sitting.wish.require_wanted()
    assert list_left(tmp_path) == {(b"o" * 32).hex()}


def test_a_damaged_note_of_what_was_left_is_none(tmp_path: Path) -> None:
    (tmp_path / "left-for-good").write_bytes(b"\xff\xfe\x00")
    assert list_left(tmp_path) == set()
    note_left(tmp_path, TASK)
    assert list_left(tmp_path) == {TASK.hex()}


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[" * 100_000, b'{"account":7}', b"\xff" * 70_000, b'{"is_leaving":true}'],
    ids=["empty", "torn", "deep", "a number", "long", "too little"],
)
def test_a_damaged_state_of_the_node_is_as_none(tmp_path: Path, damage: bytes) -> None:
    """No stake is locked again that way, and the next look writes it anew."""
    party, use = lend(tmp_path)
    (tmp_path / "node-state.json").write_bytes(damage)
    assert watching.take_over(tmp_path, use) == watching.Past() and not use.is_leaving
    watching.note_state(party.config, is_leaving=True)
    assert read_state(tmp_path).is_leaving
