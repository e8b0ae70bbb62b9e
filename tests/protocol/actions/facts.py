"""Events and rounds for the tests of what a node does with them: accounts, roots and events made by hand."""

from collections.abc import Callable
from typing import Any

from protocol.adapters.chain.connection import Head
from protocol.adapters.chain.logs import Batch
from protocol.adapters.chain.logs import Event as Log
from protocol.spec import events, game_events
from protocol.spec.containers import StateHeader
from protocol.spec.events import Event
from protocol.spec.round import RoundState, process_event
from protocol.spec.statuses import Role
from tests.protocol.spec.plots import play_plot
from tests.protocol.spec.simulator import make_account, make_header, make_round, make_terms, make_word

ALICE, BOB, MALLORY = (make_account(name) for name in ("alice", "bob", "mallory"))
TASK = make_word("task")
START, END, LAST = make_header(0, 0), make_header(0, 1), make_header(0, 2)
TOKEN = 10**18


def announce(account: str, port: int = 1, block: int = 1, url: str = "") -> events.Announced:
    """An endpoint."""
    url = url or f"https://127.0.0.1:{port}"
    return events.Announced(block_number=block, account=account, url=url, certificate_sha256=bytes(32))


def deposit(account: str, amount_wei: int = 100 * TOKEN, block: int = 1) -> game_events.Deposited:
    """A stake."""
    return game_events.Deposited(block_number=block, account=account, amount_wei=amount_wei)


def slash(account: str, amount_wei: int, block: int = 2) -> game_events.Slashed:
    """A slash."""
    return game_events.Slashed(
        block_number=block, exposure=bytes(32), account=account, finder=BOB, amount_wei=amount_wei,
        finder_wei=0, submitter_wei=0, reason=b"silent".ljust(32, b"\0"),
    )  # fmt: skip


def at(block: int = 5, slot: int = 0, **more: Any) -> dict[str, Any]:
    """Where an event of round 0 happened."""
    return {"block_number": block, "task": TASK, "round": 0, "slot": slot, **more}


def commit(solver: str, slot: int = 0, block: int = 5) -> events.Committed:
    """A claim."""
    claim_root, delta_root = make_word("claim", slot), make_word("delta", slot)
    return events.Committed(**at(block, slot), solver=solver, claim_root=claim_root, delta_root=delta_root)


def open_start(start: StateHeader = START, slot: int = 0, block: int = 6) -> events.StartOpened:
    """A start that a solver opened."""
    return events.StartOpened(**at(block, slot), draw=0, start=start)


def open_end(slot: int = 0, block: int = 7) -> events.EndOpened:
    """An end that a solver opened."""
    return events.EndOpened(**at(block, slot), draw=0, end=END, last=LAST)


def create_task(block: int = 1) -> events.TaskCreated:
    """The task of all these events."""
    terms = make_terms()
    return events.TaskCreated(
        block_number=block, task=TASK, submitter=terms.submitter, terms=terms, training=b""
    )


def start_round(block: int = 2, index: int = 0) -> events.RoundStarted:
    """The start of one of its rounds."""
    return events.RoundStarted(
        block_number=block,
        task=TASK,
        round=index,
        start_block=block,
        weights_root=make_word("weights"),
        momentum_root=make_word("zero"),
    )


def enrol(account: str, role: Role = Role.SOLVER, block: int = 3, index: int = 0) -> events.Enrolled:
    """An enrolment."""
    return events.Enrolled(block_number=block, task=TASK, round=0, role=role, account=account, index=index)


def make_batch(head: int, *found: Event, forget_from: int | None = None) -> Batch:
    """Events as the chain adapter delivers them."""
    logs = tuple(to_log(event, index) for index, event in enumerate(found))
    return Batch(Head(head, bytes(32), bytes(32), 0, 0), logs, forget_from)


def to_log(event: Event, index: int) -> Log:
    """The decoded log of an event."""
    arguments = {key: value for key, value in vars(event).items() if key != "block_number"}
    return Log("", type(event).__name__, arguments, event.block_number, index, bytes(32), bytes(32))


def fold_until(plot: str, is_last: Callable[[Event], bool]) -> RoundState:
    """The round of a played plot after the first event that `is_last` is true of."""
    state = make_round(make_terms())
    for event in play_plot(plot).sim.log:
        state = process_event(state, event)
        if is_last(event):
            return state
    raise AssertionError(f"no such event in {plot!r}")
