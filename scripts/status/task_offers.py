"""Tells what each task of a deployment offers to an operator who looks for work."""

from touchstone.explorer.task_documents import count_active, describe_phase
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import get_required_stake
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX
from touchstone.protocol.spec.game.timing import find_first_round, is_over
from touchstone.protocol.spec.training_codec import decode_training
from touchstone.scripts.account.task_words import count_audits
from touchstone.scripts.documents.document_fields import format_id, spell_role
from touchstone.scripts.documents.offer_documents import SeatOffer, TaskOffer
from touchstone.scripts.seats.least_needs import compute_least_memory_bytes
from touchstone.scripts.status.status_tables import describe_lack

REPLAYS_IN_WINDOW = 3
"""An auditor replays in much less than this part of `audit_max` (docs/operating.md)."""


def list_offers(state: ChainState) -> list[TaskOffer]:
    """Returns the offers of all tasks: first those that take seats, then by how many tokens a round pays."""
    found = [describe_offer(state, task, game) for task, game in state.games.items()]
    return sorted(found, key=lambda offer: (not offer.takes_seats, -int(offer.seats[0].pay_wei)))


def describe_offer(state: ChainState, task: bytes, game: LoggedGame) -> TaskOffer:
    """Returns what a task offers now."""
    block, terms, posted = state.head_block + 1, game.terms, state.task_terms[task]
    return TaskOffer(
        task=format_id(task),
        submitter=terms.submitter,
        status=describe_phase(game, block),
        takes_seats=takes_seats(game, block),
        rounds_opened=game.next_round,
        rounds=terms.rounds,
        first_round=find_first_round(game),
        lacks=describe_lack(game, block),
        parameters=posted.parameter_count,
        is_exact=terms.is_exact,
        steps=posted.inner_steps,
        segment_steps=posted.segment_steps,
        step_tokens=_count_step_tokens(state.texts[task]),
        round_blocks=terms.windows.train_min,
        replay_blocks=terms.windows.audit_max // REPLAYS_IN_WINDOW,
        least_memory_bytes=compute_least_memory_bytes(posted.parameter_count),
        seats=[describe_seat_offer(game, role) for role in SeatRole],
    )


def takes_seats(game: GameState, block: int) -> bool:
    """Returns whether a seat that is taken in `block` works in a round of the task."""
    first = find_first_round(game)
    is_late = first is not None and first >= game.terms.rounds
    is_ended = game.is_closed or game.is_halted or game.next_round >= game.terms.rounds
    return not (is_late or is_ended or is_over(game, block))


def describe_seat_offer(game: GameState, role: SeatRole) -> SeatOffer:
    """Returns what a seat of this role earns and locks, and how many are free."""
    amounts, taken, is_solver = game.terms.amounts, count_active(game, role), role is SeatRole.SOLVER
    pays = {
        SeatRole.SOLVER: amounts.solver_pay,
        SeatRole.VERIFIER: amounts.audit_pay,
        SeatRole.WHISTLEBLOWER: amounts.late_pay,
    }
    numbers = sum(seat.role == role for seat in game.seats.values())
    return SeatOffer(
        role=spell_role(role),
        locks_wei=str(get_required_stake(game, role)),
        pay_wei=str(pays[role]),
        paid_for="claim" if is_solver else "audit",
        per_round=1.0 if is_solver else count_audits(game, role),
        taken=taken,
        free=max(0, game.terms.solver_seats - taken) if is_solver else AUDITOR_SEATS_MAX - numbers,
    )


def _count_step_tokens(text: bytes) -> int | None:
    """Returns the tokens of a step; None if a stranger's text is no valid description."""
    try:
        training = decode_training(text)
    except TouchstoneError:
        return None
    return training.sequences_per_step * training.sequence_tokens
