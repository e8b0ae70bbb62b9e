"""What the chain tells of its tasks: which one a name means, what is open, whether it can be closed."""

from collections.abc import Iterator, Sequence

from explorer.task_documents import count_sitting, tell_phase
from protocol.actions.runtime.chain_state import ChainState
from protocol.adapters.chain.chain_client import GameChain
from protocol.adapters.chain.contract import LogBatch
from protocol.spec.errors import InvalidInput
from protocol.spec.game.ledger import get_state_at
from protocol.spec.game.logs import LoggedGame
from protocol.spec.game.settling import is_closable
from protocol.spec.game.state import GameState, Seat, SeatRole
from protocol.spec.game.timing import get_live_round, is_over

DIGITS = 12
"""Hexadecimal digits of a task's id that are shown: enough to tell tasks apart."""
NUMBER_BITS = 16
"""of a seat's id: its number among the seats of its role."""


def show_task(task: bytes) -> str:
    """The first digits of a task's id."""
    return f"0x{task.hex()[:DIGITS]}"


def show_seat(seat: Seat) -> str:
    """The seat as people say it: `verifier 3`."""
    return f"{seat.role.name.lower()} {seat.number & (1 << NUMBER_BITS) - 1}"


async def read_state(chain: GameChain, account: str = "") -> ChainState:
    """Everything that the chain tells, folded up to its head, as `account` sees it."""
    state, head = ChainState(account.lower(), chain.limits, chain.signing), await chain.head()
    found = await chain.read_events(chain.deployment.deploy_block, head.number)
    state.take(LogBatch(head, tuple(found)))
    return state


def find_game(state: ChainState, name: str) -> tuple[bytes, LoggedGame]:
    """The one task that `name` means. Raises InvalidInput for none or several, and for one that this version
    does not understand."""
    task = pick_task([*state.games, *state.refused], name)
    if task in state.refused:
        raise InvalidInput(
            what="the task cannot be understood",
            expected="a task that this version can fold",
            actual=state.refused[task],
            where=show_task(task),
            remedy="Do not stake on it; its submitter has to post a corrected one.",
        )
    return task, state.games[task]


def pick_task(known: Sequence[bytes], name: str) -> bytes:
    """The one task whose id starts with the hexadecimal digits of `name`. Raises InvalidInput for none or
    several."""
    digits = name.lower().removeprefix("0x")
    found = [task for task in known if digits and task.hex().startswith(digits)]
    if not known:
        raise InvalidInput(
            what="unknown task: none was ever posted",
            expected="the id of a posted task",
            actual=repr(name),
            remedy="Post one with `touchstone task create`, or correct rpc_url in the home's config.toml.",
        )
    if len(found) != 1:
        raise InvalidInput(
            what="unknown task" if not found else "several tasks start like that",
            expected=f"one of: {', '.join(map(show_task, known))}",
            actual=repr(name),
            remedy="Copy the id from `touchstone status` or from its submitter.",
        )
    return found[0]


# --- Rounds -------------------------------------------------------------------------------------------------
def list_open(game: GameState, block: int) -> Iterator[str]:
    """What of a task is not over yet, in words. block: the next one."""
    now, terms = get_state_at(game, block), game.terms
    live, left = get_live_round(now), terms.rounds - now.next_round
    if live is not None:
        yield f"round {live.index}: {tell_phase(game, block)}"
    if left and not is_over(now, block):
        yield f"rounds still to open: {left}"
    for count, what in (
        (len(now.contests), "contests"),
        (len(now.disputes), "disputes"),
        (len(now.asks), "asks"),
        (len(now.seats), "seats that were not paid out"),
    ):
        if count:
            yield f"{what}: {count}"


def is_task_closable(game: GameState, block: int) -> bool:
    """Whether `closeTask` passes in `block`."""
    now = get_state_at(game, block)
    return not now.is_closed and is_closable(now, block)


def tell_missing(game: GameState) -> str:
    """Which seats a task lacks before it can play; empty where it lacks none."""
    pools = zip(
        SeatRole,
        (game.terms.least_solvers, game.terms.least_verifiers, game.terms.least_whistleblowers),
        strict=True,
    )
    missing = [
        f"{least - count} more {role.name.lower()}{'s' if least - count > 1 else ''}"
        for role, least in pools
        if (count := count_sitting(game, role)) < least
    ]
    return ", ".join(missing)
