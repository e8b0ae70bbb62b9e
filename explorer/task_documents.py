"""Makes the JSON of one task: its state and its training.

Pure: the fold of a task's events goes in, a document comes out. Hashes and accounts are `0x` strings, amounts
are texts with their unit; text of strangers stays text.
"""

from typing import Any

from touchstone.explorer.names import Names, make_person, show_wei
from touchstone.protocol.economics.duty_ends import estimate_end
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.timing import get_live_round, is_over, is_start_alive
from touchstone.protocol.spec.game.vault import ESCROW
from touchstone.protocol.spec.training_codec import decode_training

NAME_DIGITS = 6
"""The digits of an id in the name of a task."""
FLOPS_PER_WEIGHT_AND_TOKEN = 6
"""Kaplan et al., arXiv 2001.08361, section 2.1: forward and backward, without attention."""


def to_hex(value: bytes | None) -> str | None:
    """Returns a hash as the pages name it."""
    return None if value is None else "0x" + value.hex()


def describe_phase(game: GameState, block: int) -> str:
    """Describes a task's phase in a few words. `block` is the next one."""
    now = get_state_at(game, block)
    if now.is_closed:
        return "closed"
    live = get_live_round(now)
    if live is not None:
        if live.phase == RoundPhase.FALLEN:
            return "its root fell"
        return "training" if live.closed is None else "audits"
    if is_over(now, block):
        return "halted" if now.is_halted else "over"
    if is_start_alive(now, block):
        return "starting"
    return "paused"


def count_active(game: GameState, role: SeatRole) -> int:
    """Returns the number of open seats of a role."""
    return sum(seat.role == role and seat.status == SeatStatus.ACTIVE for seat in game.seats.values())


def list_missing(game: GameState) -> list[tuple[SeatRole, int]]:
    """Returns how many seats of which role a task lacks to begin."""
    least = (game.terms.least_solvers, game.terms.least_verifiers, game.terms.least_whistleblowers)
    counts = [(role, need - count_active(game, role)) for role, need in zip(SeatRole, least, strict=True)]
    return [(role, missing) for role, missing in counts if missing > 0]


def describe_seats(game: GameState, block: int) -> str:
    """Describes how many seats are taken and which are missing: `2 of 3 seats, 1 verifier missing`. `block`
    is the next one."""
    taken = sum(count_active(game, role) for role in SeatRole)
    missing = [] if game.is_closed or is_over(get_state_at(game, block), block) else list_missing(game)
    if not missing:
        return f"{taken} seat{'' if taken == 1 else 's'}"
    needed = game.terms.least_solvers + game.terms.least_verifiers + game.terms.least_whistleblowers
    have = needed - sum(count for _, count in missing)
    lacks = ", ".join(f"{count} {role.name.lower()}{'s' if count > 1 else ''}" for role, count in missing)
    return f"{have} of {needed} seats, {lacks} missing"


def count_done(game: GameState) -> int:
    """Returns how many rounds have ended."""
    return game.next_round - (get_live_round(game) is not None)


def find_end(game: GameState, block: int) -> int | None:
    """Estimates the block in which the last round ends; None if no round is to come."""
    now = get_state_at(game, block)
    return None if is_over(now, block) else estimate_end(now, block)


def name_task(task: bytes, parameters: int) -> str:
    """Names a task by the size of its model and the first digits of its id: `134K-parameter model 3f2a91`."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters >= size:
            return f"{parameters / size:.3g}{unit}-parameter model {task.hex()[:NAME_DIGITS]}"
    return f"{parameters}-parameter model {task.hex()[:NAME_DIGITS]}"


def make_row(task: bytes, game: LoggedGame, block: int, names: Names, parameters: int = 0) -> dict[str, Any]:
    """Returns a task as a row of a table. `parameters` are those of its model."""
    return {
        "task": to_hex(task),
        "name": name_task(task, parameters),
        "seats_taken": describe_seats(game, block),
        "phase": describe_phase(game, block),
        "submitter": make_person(game.terms.submitter, names),
        "rounds_opened": game.next_round,
        "rounds": game.terms.rounds,
        "seats": {role.name.lower(): count_active(game, role) for role in SeatRole},
        "open_disputes": len(game.disputes),
        "open_contests": len(game.contests),
        "escrow": show_wei(game.vault.get_wei(ESCROW)),
    }


def make_training(terms: Any, text: bytes) -> dict[str, Any]:
    """Returns what is trained; only `error` if the submitter's text is no valid description. `terms` are
    those of TaskPosted."""
    try:
        training = decode_training(text)
    except TouchstoneError as error:
        return {"error": str(error)}
    tokens = training.sequences_per_step * training.sequence_tokens
    return {
        "program_root": to_hex(training.program_root),
        "vocabulary": training.vocabulary_size,
        "numeric_format": training.numeric_format,
        "parameters": terms.parameter_count,
        "inner_steps": terms.inner_steps,
        "segment_steps": terms.segment_steps,
        "tokens_per_step": tokens,
        "dataset_root": to_hex(training.dataset_root),
        "dataset_tokens": training.token_count,
    }
