"""The machine: which rule a call follows. `apply` is the contract, `fold` (in `folding.py`) is a node."""

from collections.abc import Callable
from typing import Any

from protocol.spec.game import calls, contests, deciding, disputes, rounds, seats, settling
from protocol.spec.game.calls import GameCall
from protocol.spec.game.events import GameEvent
from protocol.spec.game.folding import Draft, fold
from protocol.spec.game.refusals import require
from protocol.spec.game.state import GameState

_RULES: dict[type[GameCall], Callable[[Draft, Any, str], None]] = {
    calls.Deposit: seats.apply_deposit,
    calls.JoinSeat: seats.apply_join,
    calls.TopUp: seats.apply_top_up,
    calls.LeaveSeat: seats.apply_leave,
    calls.MarkSilent: seats.apply_mark_silent,
    calls.PayOut: seats.apply_pay_out,
    calls.WithdrawCredit: seats.apply_withdraw,
    calls.HaltTask: rounds.apply_halt,
    calls.StartRounds: rounds.apply_start,
    calls.SealStart: rounds.apply_seal_start,
    calls.SealRound: rounds.apply_seal_round,
    calls.SealAudits: rounds.apply_seal_audits,
    calls.SealClosing: rounds.apply_seal_closing,
    calls.CommitRound: rounds.apply_commit,
    calls.JudgeVotes: deciding.apply_judge,
    calls.PostRoot: deciding.apply_post,
    calls.LetStand: deciding.apply_stand,
    calls.OpenContest: contests.apply_open_contest,
    calls.AnswerContest: contests.apply_answer_contest,
    calls.NameChild: contests.apply_name_child,
    calls.BringLeaf: contests.apply_bring_leaf,
    calls.EndRootContest: contests.apply_end_contest,
    calls.AskSigner: disputes.apply_ask,
    calls.AnswerAsk: disputes.apply_answer_ask,
    calls.EndAsk: disputes.apply_end_ask,
    calls.DisputeStatement: disputes.apply_dispute,
    calls.EndDispute: disputes.apply_end_dispute,
    calls.SealProof: disputes.apply_seal_proof,
    calls.ConvictSeat: disputes.apply_convict,
    calls.SettleSeat: settling.apply_settle,
    calls.FreeEpoch: settling.apply_free_epoch,
    calls.CloseGame: settling.apply_close,
}
_MEMBERS = (calls.JoinSeat, calls.TopUp, calls.LeaveSeat, calls.PayOut, calls.CloseGame)
"""Refused once the task is closed. Every other rule needs a seat, a round that is not over or an open window,
and a task closes only where there is none: what still passes then moves no money (`halt`, votes and openings
that do not count, `freeEpoch`)."""


def apply(state: GameState, call: GameCall, sender: str, block: int) -> tuple[GameEvent, ...]:
    """The events of a call that is made in `block`, those first that the clock made due. Raises GameRefusal,
    by the name that the contract reverts with; then nothing has changed."""
    draft = Draft(state, block)
    require(not state.is_closed or not isinstance(call, _MEMBERS), "GameOver")
    rounds.sync(draft)
    _RULES[type(call)](draft, call, sender)
    return tuple(draft.events)


def fold_all(state: GameState, logged: tuple[GameEvent, ...], block: int) -> GameState:
    """The state after the events of one block, in their order."""
    for event in logged:
        state = fold(state, event, block)
    return state


def get_state_at(state: GameState, block: int) -> GameState:
    """The state as a call of `block` finds it: closed where the clock has closed it."""
    draft = Draft(state, block)
    rounds.sync(draft)
    return draft.state
