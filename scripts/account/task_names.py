"""Names tasks and seats in commands, and finds the one that is meant."""

from collections.abc import Sequence
from contextlib import suppress

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.game.state import Seat

OTHER_TASK = "Choose another task: `touchstone tasks` lists them."
DIGITS = 12
"""The number of hex digits of a task's id that are shown, enough to tell tasks apart."""
NUMBER_BITS = 16
"""The bits of a seat's id that hold its number within its role."""


def show_task(task: bytes) -> str:
    """Returns the first digits of a task's id."""
    return f"0x{task.hex()[:DIGITS]}"


def show_seat(seat: Seat) -> str:
    """Returns the seat as people say it: `verifier 3`."""
    return f"{seat.role.name.lower()} {get_number(seat.number)}"


def get_number(seat: int) -> int:
    """Returns the number of a seat within its role. `seat` is its id."""
    return seat & (1 << NUMBER_BITS) - 1


async def read_state(chain: GameChain, account: str = "", behind_blocks: int = 0) -> ChainState:
    """Returns the chain's state, folded up to its head, as `account` sees it. `behind_blocks` newest blocks
    are left out."""
    state, head = ChainState(account.lower(), chain.bounds, chain.signing), await chain.head()
    until = max(chain.deployment.deploy_block, head.number - behind_blocks)
    found = await chain.read_events(chain.deployment.deploy_block, until)
    state.take(LogBatch(head, tuple(found)))
    return state


def find_game(state: ChainState, name: str) -> tuple[bytes, LoggedGame]:
    """Returns the one task that `name` means. Raises InvalidInput if there is none or there are several, or
    if this version does not understand it."""
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


def find_own_game(state: ChainState, name: str) -> tuple[bytes, LoggedGame]:
    """Finds a task as `find_game` does; of several tasks it takes the one in which this account has a seat or
    a bond. Otherwise anybody could post a task whose id starts like another one's, and so keep a restarted
    node from its work."""
    own = [task for task, game in state.games.items() if has_duties(game, state.account)]
    with suppress(InvalidInput):
        name = pick_task(own, name).hex()
    return find_game(state, name)


def pick_task(known: Sequence[bytes], name: str) -> bytes:
    """Returns the one task whose id starts with the hex digits of `name`. Raises InvalidInput if there is
    none or there are several."""
    digits = name.lower().removeprefix("0x")
    found = [task for task in known if digits and task.hex().startswith(digits)]
    if not known:
        raise _no_task_posted(name)
    if len(found) != 1:
        raise _no_single_task(name, found, known)
    return found[0]


def _no_task_posted(name: str) -> InvalidInput:
    return InvalidInput(
        what="unknown task: none was ever posted",
        expected="the id of a posted task",
        actual=repr(name),
        remedy="Post one with `touchstone task create`, or correct rpc_url in the home's config.toml.",
    )


def _no_single_task(name: str, found: list[bytes], known: Sequence[bytes]) -> InvalidInput:
    return InvalidInput(
        what="unknown task" if not found else "several tasks start like that",
        expected=f"one of: {', '.join(map(show_task, known))}",
        actual=repr(name),
        remedy="Copy the id from `touchstone status` or from its submitter.",
    )
