"""The machine's calls, and a task as a chain's logs tell it: state, a log under way, terms.

The state is the machine's, but for two things that the contracts keep for all tasks together: credits, of
which a task's own logs do not tell (money that comes from one or goes to one is OUTSIDE here), and seals of
proofs. And it has names, what the chain calls an open contest, ask or dispute; and the book of the money.

The machine: which rule a call follows. `apply` is the contract, `fold` (in `reducer.py`) is a node.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, cast

from touchstone.protocol.spec.commitments import compute_domain, compute_outer_root
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.game import (
    asks,
    calls,
    contests,
    disputes,
    root_posting,
    round_opening,
    round_seals,
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
from touchstone.protocol.spec.game.convicting import take_stakes
from touchstone.protocol.spec.game.dispute_reducer import NO_DRAW
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.money_book import MoneyBook, note_event
from touchstone.protocol.spec.game.purse import (
    BURNED,
    OUTSIDE,
    SLASHED,
    Pot,
    PotKind,
)
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import (
    GameState,
    StatementRef,
    create_game,
)
from touchstone.protocol.spec.game.terms import DeploymentLimits, GameAmounts, GameTerms, GameWindows
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.merkle import compute_depth
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.typed_data import SigningDomain

# --- A task from logs ---------------------------------------------------------------------------------------
Values = Mapping[str, Any]
"""What a log says, by names in snake case, in the order of the declaration."""


@dataclass(frozen=True)
class LoggedGame(GameState):
    """The fold of a task's logs. names: numbers of what is open, by its name on the chain; money: what each
    account has won and lost; finder: who convicted last."""

    names: Mapping[bytes, int] = field(default_factory=dict)
    money: MoneyBook = field(default_factory=MoneyBook)
    finder: str = ""

    def find_name(self, number: int) -> bytes | None:
        """The chain's name of an open contest, ask or dispute."""
        return next((name for name, one in self.names.items() if one == number), None)


class Ledger(Draft):
    """One log. It emits the machine's events, and moves money that the log does not name one by one."""

    @property
    def game(self) -> LoggedGame:
        """The state so far."""
        return cast(LoggedGame, self.state)

    def emit(self, event: GameEvent) -> None:
        """Fold an event, and note what it means for the money."""
        self._note(event)
        super().emit(event)

    def move(self, source: Pot, target: Pot, wei: int) -> None:
        """Log a movement of money, and note whose it is; in the state a credit is outside."""
        if wei:
            self._note(WeiMoved(source, target, wei))
            super().emit(WeiMoved(_leave_credits(source), _leave_credits(target), wei))

    def _note(self, event: GameEvent) -> None:
        money = note_event(self.game.money, self.state, event, self.block)
        if money is not self.game.money:
            self.state = replace(self.game, money=money)

    def open(self, name: bytes) -> int:
        """The number of what is opened now."""
        number = self.state.next_number
        self.state = replace(self.game, names={**self.game.names, name: number})
        return number

    def close(self, name: bytes) -> int:
        """The number of what has ended. Raises KeyError where nothing of this name is open."""
        number = self.game.names[name]
        names = {one: held for one, held in self.game.names.items() if one != name}
        self.state = replace(self.game, names=names)
        return number

    def share_slash(self, held: Pot | None = None, wei: int = 0) -> None:
        """Of the stakes that were taken finder and submitter get their parts, `held` its wei; the rest is
        burned."""
        take_stakes(self, (), self.game.finder)
        if held is not None:
            self.move(SLASHED, held, wei)
        self.move(SLASHED, BURNED, self.state.purse.get_wei(SLASHED))


def _leave_credits(pot: Pot) -> Pot:
    return OUTSIDE if pot.kind == PotKind.CREDIT else pot


def read_statement(ref: Any) -> StatementRef:
    """A statement as a log names it."""
    draw = None if ref.draw == NO_DRAW else int(ref.draw)
    return StatementRef(int(ref.round), int(ref.slot), draw, int(ref.rank))


def list_bits(bitmap: int) -> tuple[int, ...]:
    """The places of a bitmap's ones, ascending."""
    return tuple(place for place in range(bitmap.bit_length()) if bitmap >> place & 1)


EXACT_FORMAT = 3
"""Number of the numeric format whose tasks need no limits."""
FANOUT_LEVELS = 4
"""Levels of a tensor's tree that one answer of a contest opens."""
Part = TypeVar("Part", GameWindows, GameAmounts)


def start_game(values: Values, block: int, limits: DeploymentLimits, signing: SigningDomain) -> LoggedGame:
    """The game of a task that was posted in `block` (the values of TaskPosted). Raises InvalidInput where its
    terms are none that the deployment allows."""
    terms = read_terms(values, signing)
    refusal = check_terms(terms, limits)
    if refusal is not None:
        raise refusal
    game = create_game(terms, limits, block)
    return LoggedGame(terms, limits, game.purse, game.root, block)


def read_terms(values: Values, signing: SigningDomain) -> GameTerms:
    """The terms in the values of TaskPosted."""
    said = values["terms"]
    return GameTerms(
        submitter=str(said.submitter).lower(),
        domain=compute_domain(signing.chain_id, signing.contract, bytes(values["task"])),
        root=compute_outer_root(OuterHeader(said.initial_weights_root, said.zero_root)),
        rounds=said.rounds,
        segment_count=said.inner_steps // max(1, said.segment_steps),
        draws=said.draws,
        late_chance=said.late_chance,
        solver_seats=said.solver_seats,
        least_solvers=said.least_solvers,
        least_verifiers=said.least_verifiers,
        least_whistleblowers=said.least_whistleblowers,
        contest_levels=count_contest_levels(said.parameter_count),
        is_exact=said.format == EXACT_FORMAT,
        windows=_read_part(GameWindows, said.windows),
        amounts=_read_part(GameAmounts, said.amounts),
    )


def count_contest_levels(parameter_count: int) -> int:
    """How often a contester names a child before a leaf is reached: one of the two tensors, then a node of
    each answer."""
    depth = compute_depth(max(1, count_tensor_leaves(parameter_count)))
    return 1 + (depth + FANOUT_LEVELS - 1) // FANOUT_LEVELS


def _read_part(kind: type[Part], said: Any) -> Part:
    return kind(**{one.name: getattr(said, one.name) for one in fields(kind)})


# --- The machine --------------------------------------------------------------------------------------------
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
    calls.SealStart: round_opening.apply_seal_start,
    calls.SealRound: round_seals.apply_seal_round,
    calls.SealAudits: round_seals.apply_seal_audits,
    calls.SealClosing: round_seals.apply_seal_closing,
    calls.CommitRound: rounds.apply_commit,
    calls.JudgeVotes: vote_judging.apply_judge,
    calls.PostRoot: root_posting.apply_post,
    calls.LetStand: root_posting.apply_stand,
    calls.OpenContest: contests.apply_open_contest,
    calls.AnswerContest: contests.apply_answer_contest,
    calls.NameChild: contests.apply_name_child,
    calls.BringLeaf: contests.apply_bring_leaf,
    calls.EndRootContest: contests.apply_end_contest,
    calls.AskSigner: asks.apply_ask,
    calls.AnswerAsk: asks.apply_answer_ask,
    calls.EndAsk: asks.apply_end_ask,
    calls.DisputeStatement: disputes.apply_dispute,
    calls.EndDispute: disputes.apply_end_dispute,
    calls.SealProof: transaction_proofs.apply_seal_proof,
    calls.ConvictSeat: transaction_proofs.apply_convict,
    calls.SettleSeat: settling.apply_settle,
    calls.FreeEpoch: task_closing.apply_free_epoch,
    calls.CloseGame: task_closing.apply_close,
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
