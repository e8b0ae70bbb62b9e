"""The machine: finds the rule for a call. `apply` acts as the contract, `fold` (in `reducer.py`) as a
node."""

from collections.abc import Callable
from typing import Any

from touchstone.protocol.spec.game import (
    calls,
    contests,
    disputes,
    queries,
    root_posting,
    round_draws,
    round_opening,
    rounds,
    seat_payments,
    seats,
    settling,
    silence,
    task_closing,
    transaction_proofs,
    vote_judging,
)
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.events import GameEvent
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState

_RULES: dict[type[GameCall], Callable[[Draft, Any, str], None]] = {
    calls.Deposit: seat_payments.apply_deposit,
    calls.JoinSeat: seats.apply_join,
    calls.TopUp: seats.apply_top_up,
    calls.LeaveSeat: seats.apply_leave,
    calls.MarkSilent: silence.apply_mark_silent,
    calls.PayOut: seat_payments.apply_pay_out,
    calls.WithdrawCredit: seat_payments.apply_withdraw,
    calls.HaltTask: round_opening.apply_halt,
    calls.StartRounds: round_opening.apply_start,
    calls.DrawStart: round_opening.apply_draw_start,
    calls.DrawRound: round_draws.apply_draw_round,
    calls.DrawAudits: round_draws.apply_draw_audits,
    calls.DrawClosing: round_draws.apply_draw_closing,
    calls.CommitRound: rounds.apply_commit,
    calls.JudgeVotes: vote_judging.apply_judge,
    calls.PostRoot: root_posting.apply_post,
    calls.LetStand: root_posting.apply_stand,
    calls.OpenContest: contests.apply_open_contest,
    calls.AnswerContest: contests.apply_answer_contest,
    calls.NameChild: contests.apply_name_child,
    calls.BringLeaf: contests.apply_bring_leaf,
    calls.EndRootContest: contests.apply_end_contest,
    calls.QueryVote: queries.apply_query,
    calls.AnswerQuery: queries.apply_answer_query,
    calls.EndQuery: queries.apply_end_query,
    calls.DisputeStatement: disputes.apply_dispute,
    calls.EndDispute: disputes.apply_end_dispute,
    calls.CommitProof: transaction_proofs.apply_commit_proof,
    calls.ConvictSeat: transaction_proofs.apply_convict,
    calls.SettleSeat: settling.apply_settle,
    calls.FreeEpoch: task_closing.apply_free_epoch,
    calls.CloseTask: task_closing.apply_close,
}
_MEMBERS = (calls.JoinSeat, calls.TopUp, calls.LeaveSeat, calls.PayOut, calls.CloseTask)
"""Calls that are refused once the task is closed. All other rules need a seat, a round that is not over or an
open window, and a task closes only if there is none. What still passes then moves no money (`halt`, votes and
openings that do not count, `freeEpoch`)."""


def apply(state: GameState, call: GameCall, sender: str, block: int) -> tuple[GameEvent, ...]:
    """Returns the events of a call in `block`, after those that the clock made due. Raises GameRefusal with
    the name of the contract's error; then nothing has changed."""
    draft = Draft(state, block)
    require(not state.is_closed or not isinstance(call, _MEMBERS), "TaskIsClosed")
    rounds.sync(draft)
    _RULES[type(call)](draft, call, sender)
    return tuple(draft.events)


def fold_all(state: GameState, logged: tuple[GameEvent, ...], block: int) -> GameState:
    """Returns the state after the events of one block, in their order."""
    for event in logged:
        state = fold(state, event, block)
    return state


def get_state_at(state: GameState, block: int) -> GameState:
    """Returns the state as a call in `block` finds it: a round is closed if its time is over."""
    draft = Draft(state, block)
    rounds.sync(draft)
    return draft.state
