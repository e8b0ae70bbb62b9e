"""Describes a task: what keeps it open, what it waits for, what a seat in it means."""

from collections.abc import Iterator

from touchstone.explorer.task_documents import count_active, describe_phase, list_missing
from touchstone.protocol.adapters.chain.pace import Pace, spell_duration
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.task_closing import is_closable
from touchstone.protocol.spec.game.terms import GameTerms, compute_release_blocks
from touchstone.protocol.spec.game.timing import find_first_round, get_live_round, is_over
from touchstone.protocol.spec.params import LATE_RATE_ONE
from touchstone.protocol.spec.tokens import format_tokens


def list_open(game: GameState, block: int) -> Iterator[str]:
    """Yields lines on what keeps a task from being over. `block` is the next one."""
    now, terms = get_state_at(game, block), game.terms
    live, left = get_live_round(now), terms.rounds - now.next_round
    if live is not None:
        yield f"round {live.index}: {describe_phase(game, block)}"
    if left and not is_over(now, block):
        yield f"rounds still to open: {left}"
    for count, what in (
        (len(now.contests), "contests"),
        (len(now.disputes), "disputes"),
        (len(now.queries), "queries"),
        (len(now.seats), "seats still to be paid out"),
    ):
        if count:
            yield f"{what}: {count}"


def is_task_closable(game: GameState, block: int) -> bool:
    """Returns whether `closeTask` passes in `block`."""
    now = get_state_at(game, block)
    return not now.is_closed and is_closable(now, block)


def describe_missing(game: GameState) -> str:
    """Describes the seats that a task lacks to begin; empty if it lacks none."""
    missing = [
        f"{count} more {role.name.lower()}{'s' if count > 1 else ''}" for role, count in list_missing(game)
    ]
    return ", ".join(missing)


def describe_first_round(game: GameState) -> Iterator[str]:
    """Describes from which round on a new seat works; while a round runs, the pools of later rounds are
    frozen already."""
    first, rounds = find_first_round(game), game.terms.rounds
    if first is None:
        return
    if first < rounds:
        yield f"a seat that is taken now works from round {first} on; the task ends with round {rounds - 1}"
    else:
        yield (
            "WARNING: the members of all remaining rounds are fixed already. A seat that "
            "is taken now earns nothing, unless the task pauses and starts again"
        )


def describe_solver(terms: GameTerms, disk_bytes: int) -> Iterator[str]:
    """Yields lines on what a solver needs: disk, and speed if `respond` is short."""
    yield f"a solver takes up to {disk_bytes / 1e6:,.0f} MB of disk"
    respond, train_min = terms.windows.respond, terms.windows.train_min
    if respond < train_min:
        yield (
            "WARNING: an answer in a dispute on an older round may take the training of that round again. It "
            f"has {respond} blocks (respond), a round {train_min} (train_min): join only with a machine that "
            f"trains a whole round in less than {respond} blocks, or silence can cost the stake"
        )


def describe_format(terms: GameTerms) -> Iterator[str]:
    """Yields lines on what a member of an exact task must know before it stakes."""
    if terms.is_exact:
        yield (
            "an exact task: a result counts only with the bits that every other machine gets. Such tasks are "
            "new: lock only what you can lose"
        )


def describe_seat(game: GameState, role: SeatRole, stake_wei: int, pace: Pace) -> Iterator[str]:
    """Yields lines on what a new seat locks, until when, and what it earns in a round."""
    blocks, amounts = compute_release_blocks(game.terms.windows), game.terms.amounts
    when = f"{blocks:,} blocks" if pace.block_s is None else spell_duration(blocks * pace.block_s)
    yield (
        f"Joining as a {role.name.lower()} locks {format_tokens(stake_wei)}. You get them back {when} after "
        "you leave or the task ends. If you are proven wrong you lose all of them."
    )
    if role is SeatRole.SOLVER:
        earns = f"a round earns {format_tokens(amounts.solver_pay)} if your claim is accepted"
    else:
        wei = amounts.audit_pay if role is SeatRole.VERIFIER else amounts.late_pay
        earns = (
            f"an audit earns {format_tokens(wei)}, and you have about {count_audits(game, role):.1f} a round"
        )
    yield f"{earns}. It is paid about as long after its round (`touchstone status`)"


def count_audits(game: GameState, role: SeatRole) -> float:
    """Returns the average number of audits in a round for one more seat beside the present ones."""
    terms = game.terms
    solvers = max(count_active(game, SeatRole.SOLVER), terms.least_solvers)
    draws = terms.draws if role is SeatRole.VERIFIER else terms.late_chance / LATE_RATE_ONE
    least = terms.least_verifiers if role is SeatRole.VERIFIER else terms.least_whistleblowers
    return solvers * draws / max(count_active(game, role) + 1, least)
