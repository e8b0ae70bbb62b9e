"""How a call that anybody may send is written for the contracts."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.actions.runtime.party import Party
from protocol.actions.runtime.questions import get_question
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game import calls
from protocol.spec.game.calls import GameCall
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.turns import get_seal_window


@dataclass(frozen=True)
class SettleSeats(GameCall):
    """settle: several seats up to one round. Those that cannot settle are left out by the contract."""

    seats: tuple[int, ...]
    until_round: int

    @property
    def seat(self) -> int:
        """Names the page."""
        return self.seats[0]


async def send_upkeep(party: Party, call: GameCall) -> None:
    """Send a call of `list_upkeep`, or SettleSeats. Raises ContractRefused where it is not due any more."""
    await _WRITERS[type(call)](party, party.task.task, call)


async def _prove(party: Party, call: GameCall) -> bytes:
    """The header of the block whose randomness a seal takes."""
    block = party.state.head_block + 1
    window = get_seal_window(get_state_at(party.game, block), call, block)
    if window is None:
        raise EnvironmentFault(
            what="there is nothing to seal any more",
            expected="a seal that is due",
            actual=call,
            remedy="Nothing is to be done: somebody was faster.",
        )
    return await party.chain.prove_header(window[0] - 1)


def _find_name(party: Party, number: int) -> bytes:
    """What the chain calls an open contest, ask or dispute."""
    name = party.state.games[party.task.task].find_name(number)
    if name is None:
        raise EnvironmentFault(
            what="what is to be ended has ended",
            expected="an open contest, ask or dispute",
            actual=number,
            remedy="Nothing is to be done: somebody was faster.",
        )
    return name


async def _seal_start(party: Party, task: bytes, call: calls.SealStart) -> None:
    await party.chain.rounds.seal_start(task, await _prove(party, call))


async def _seal_round(party: Party, task: bytes, call: calls.SealRound) -> None:
    await party.chain.rounds.seal_round(task, call.round, await _prove(party, call))


async def _seal_audits(party: Party, task: bytes, call: calls.SealAudits) -> None:
    await party.chain.rounds.seal_audits(task, call.round, await _prove(party, call))


async def _seal_closing(party: Party, task: bytes, call: calls.SealClosing) -> None:
    await party.chain.rounds.seal_closing(task, await _prove(party, call))


async def _mark_silent(party: Party, task: bytes, call: calls.MarkSilent) -> None:
    missed = [(one.round, one.slot, one.draw) for one in call.missed]
    await party.chain.settlement.mark_silent(task, call.seat, missed)


async def _end_contest(party: Party, task: bytes, call: calls.EndRootContest) -> None:
    await party.chain.contests.end_contest(task, _find_name(party, call.contest))


async def _end_ask(party: Party, task: bytes, call: calls.EndAsk) -> None:
    opened = party.state.inner[task].asks[_find_name(party, call.ask)]
    await party.chain.asks.end_ask(task, get_question(opened))


async def _end_dispute(party: Party, task: bytes, call: calls.EndDispute) -> None:
    await party.chain.disputes.end(task, _find_name(party, call.dispute))


Writer = Callable[[Party, bytes, Any], Awaitable[Any]]
_WRITERS: Mapping[type[GameCall], Writer] = {
    calls.StartRounds: lambda party, task, call: party.chain.rounds.start(task),
    calls.SealStart: _seal_start,
    calls.SealRound: _seal_round,
    calls.SealAudits: _seal_audits,
    calls.SealClosing: _seal_closing,
    calls.LetStand: lambda party, task, call: party.chain.rounds.stand(task, call.round),
    calls.FreeEpoch: lambda party, task, call: party.chain.rounds.free_epoch(task),
    calls.CloseGame: lambda party, task, call: party.chain.tasks.close_task(task),
    calls.PayOut: lambda party, task, call: party.chain.tasks.pay_out(task, call.seat),
    SettleSeats: lambda party, task, call: party.chain.settlement.settle(
        task, list(call.seats), call.until_round
    ),
    calls.MarkSilent: _mark_silent,
    calls.EndRootContest: _end_contest,
    calls.EndAsk: _end_ask,
    calls.EndDispute: _end_dispute,
}
