"""What the chain tells of its tasks: which one a name means, what of it is still open, when it can be
closed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protocol.actions.view import View
from protocol.adapters.chain import Batch, Chain
from protocol.spec.errors import InvalidInput
from protocol.spec.guards import has_poster, is_merged
from protocol.spec.round import RoundState, get_merged_block, get_settle_block, is_empty
from protocol.spec.task import TaskState

DIGITS = 12
"""Hexadecimal digits of a task's id that are shown: enough to tell tasks apart."""


def show_task(task: bytes) -> str:
    """The first digits of a task's id."""
    return f"0x{task.hex()[:DIGITS]}"


def show_round(state: RoundState) -> str:
    """The round as people count: `round 1/4 of 0x3fa9...`."""
    return f"round {state.index + 1}/{state.terms.rounds} of {show_task(state.task)}"


async def read_view(chain: Chain) -> View:
    """Everything that the chain tells, folded up to its head."""
    head = await chain.head()
    found = await chain.read_events(chain.deployment.deploy_block, head.number)
    view = View("", chain.deployment.chain_id, chain.deployment.registry)
    view.take(Batch(head, tuple(found)))
    return view


async def find_task(chain: Chain, name: str) -> bytes:
    """The one task of the chain that `name` means. Raises InvalidInput for none or several."""
    events = await chain.read_events(chain.deployment.deploy_block, (await chain.head()).number)
    return pick_task([event.arguments["task"] for event in events if event.name == "TaskCreated"], name)


def pick_task(known: Sequence[bytes], name: str) -> bytes:
    """The one task whose id starts with the hexadecimal digits of `name`. Raises InvalidInput for none or
    several."""
    digits = name.lower().removeprefix("0x")
    found = [task for task in known if digits and task.hex().startswith(digits)]
    if len(found) != 1:
        raise InvalidInput(
            what="unknown task" if not found else "several tasks start like that",
            expected=f"one of: {', '.join(map(show_task, known)) or 'none was ever posted'}",
            actual=repr(name),
            remedy="Copy the id from `touchstone status` or from whoever posted it.",
        )
    return found[0]


# --- Closing ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Closing:
    """When `closeTask` of a task succeeds, as things stand. ready_block: from where it does, whatever stays
    open; is_ready: at once; open: what is not over yet, in words; is_all_paid: nobody waits for pay, which
    a closed task does not give."""

    ready_block: int
    is_ready: bool
    open: tuple[str, ...]
    is_all_paid: bool


async def read_closing(chain: Chain, state: TaskState) -> Closing:
    """When a task that is not closed can be."""
    expiry_block = await chain.registry.expiry_block(state.task)
    unbonding_blocks = await chain.vault.unbonding_blocks()
    return compute_closing(state, expiry_block, unbonding_blocks, (await chain.head()).number)


def compute_closing(state: TaskState, expiry_block: int, unbonding_blocks: int, block: int) -> Closing:
    """Twin of `TaskRegistry._closableBlock`, for a call after `block`."""
    last, unsettled = state.rounds[-1], [one for one in state.rounds if not is_settled(one)]
    is_played = is_over(last, block) and last.index + 1 == state.terms.rounds
    ready_block = expiry_block
    if is_played:
        over_block = last.deadlines.beacon_end if is_empty(last, block) else last.ready_block or block
        ready_block = min(expiry_block, over_block + unbonding_blocks)
        ready_block = ready_block if unsettled else block
    return Closing(
        ready_block,
        block >= ready_block,
        tuple(_list_open(state, block)),
        not unsettled,
    )


def is_over(state: RoundState, block: int) -> bool:
    """Whether a round has ended: empty, or its outer root stands."""
    return is_empty(state, block) or is_merged(state, block)


def is_settled(state: RoundState) -> bool:
    """Whether everybody has what a round owes: its claims and the bond and pay of its outer root."""
    has_merge_left = has_poster(state) and not state.is_merge_settled
    return len(state.settled_slots) == len(state.solvers) and not has_merge_left


def _list_open(state: TaskState, block: int) -> Iterator[str]:
    count, last = state.terms.rounds, state.rounds[-1]
    if not is_over(last, block):
        yield f"round {last.index + 1}/{count} runs"
    if last.index + 1 < count:
        yield f"rounds still to start: {count - last.index - 1}"
    for one in state.rounds:
        name, left = f"round {one.index + 1}/{count}", len(one.solvers) - len(one.settled_slots)
        if left:
            of_all = f"{left} of {len(one.solvers)}"
            yield f"{name}: claims not settled: {of_all} ({_tell_settling(one, block)})"
        elif not is_settled(one):
            yield f"{name}: the outer root is not settled (a running node can settle it now)"


def _tell_settling(state: RoundState, block: int) -> str:
    if state.open_disputes:
        return "a dispute goes first"
    settle_block = get_settle_block(state, block)
    if is_empty(state, block) or block >= settle_block:
        return "a running node can settle them now"
    latest = "" if get_merged_block(state, block) is not None else "at the latest "
    return f"{latest}from block {settle_block} on"
