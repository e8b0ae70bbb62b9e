"""`touchstone tasks`: shows what the tasks of a deployment offer, without a home and without a key."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.deployment import GameDeployment, read_game_deployment
from touchstone.protocol.adapters.chain.pace import Pace, read_pace, show_duration
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.scripts.account.task_names import DIGITS, read_state
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.fitting_table import FittingTable
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.documents.offer_documents import SeatOffer, TaskOffer, TasksDocument
from touchstone.scripts.documents.overview_documents import RefusedTask
from touchstone.scripts.home.home_config import read_config
from touchstone.scripts.status.task_offers import list_offers

MILLION = 10**6


def report_tasks(home: Path | None, rpc_url: str, deployment: Path) -> TasksDocument:
    """Shows the tasks of the home's deployment, or without a home of the one in the file `deployment`, and
    returns them. Raises InvalidInput as `read_config` and `read_game_deployment` do."""
    if home is None:
        return asyncio.run(_show_tasks([rpc_url], read_game_deployment(deployment), Console()))
    config = read_config(home)
    return asyncio.run(_show_tasks(config.endpoints, config.read_deployment(), Console()))


async def _show_tasks(urls: Sequence[str], deployment: GameDeployment, console: Console) -> TasksDocument:
    async with open_game_chain(urls, deployment) as chain:
        pace, state = await read_pace(chain), await read_state(chain)
    found = TasksDocument(
        chain_id=deployment.chain_id,
        block=state.head_block,
        block_s=pace.block_s,
        tasks=list_offers(state),
        refused=[RefusedTask(format_id(task), why) for task, why in state.refused.items()],
    )
    show_tasks(found, pace, console)
    return found


def show_tasks(found: TasksDocument, pace: Pace, console: Console) -> None:
    """Shows the offers: of a task that takes seats all, of another one its state."""
    show = console.rich.print
    offered = [offer for offer in found.tasks if offer.takes_seats]
    others = [offer for offer in found.tasks if not offer.takes_seats]
    show(f"Tasks that take seats at block {found.block}: {len(offered)}", markup=False)
    for offer in offered:
        show()
        for line in describe_task(offer, pace):
            show(line, markup=False, highlight=False)
        show(_make_seat_table(offer.seats))
    if offered:
        show(
            "\nJoin with touchstone solve TASK, touchstone verify TASK or touchstone watch TASK.",
            markup=False,
        )
    if others or found.refused:
        show("\nThese take no seat any more:", markup=False)
    for offer in others:
        show(f"{offer.task[: DIGITS + 2]}: {_describe_state(offer)}", markup=False)
    for task in found.refused:
        show(f"{task.task[: DIGITS + 2]}: cannot be understood: {task.reason}", markup=False)


def describe_task(offer: TaskOffer, pace: Pace) -> Iterator[str]:
    """Yields lines on a task: its state, and what a seat needs of memory and time."""
    yield f"{offer.task[: DIGITS + 2]}: {_describe_state(offer)}"
    if not offer.seats[0].free:
        yield "All solver seats are taken: a stake larger than the smallest one takes its place."
    if offer.lacks:
        yield f"It waits for {offer.lacks}."
    kind = "exact" if offer.is_exact else "with limits"
    yield (
        f"{_show_count(offer.parameters)} parameters, {kind}; "
        f"{offer.least_memory_bytes / 1e9:,.1f} GB of memory and more."
    )
    tokens = "" if offer.step_tokens is None else f" of {offer.step_tokens:,} tokens"
    rounds, replays = _show_blocks(offer.round_blocks, pace), _show_blocks(offer.replay_blocks, pace)
    yield f"A solver trains {offer.steps} steps{tokens} in less than {rounds}."
    yield f"An auditor replays {offer.segment_steps} of them in less than {replays}."


def _describe_state(offer: TaskOffer) -> str:
    first = "" if offer.first_round is None else f"; a seat taken now works from round {offer.first_round} on"
    more = first if offer.takes_seats else ""
    return f"{offer.status}, {offer.rounds_opened} of {offer.rounds} rounds opened{more}"


def _show_blocks(blocks: int, pace: Pace) -> str:
    time = "" if pace.block_s is None else f" ({show_duration(blocks * pace.block_s)})"
    return f"{blocks:,} blocks{time}"


def _make_seat_table(seats: Sequence[SeatOffer]) -> FittingTable:
    table = FittingTable("", ("role", "pays a round", "locks", "taken", "free"))
    for seat in seats:
        pay = _show_amount(round(int(seat.pay_wei) * seat.per_round))
        pay = pay if seat.paid_for == "claim" else f"about {pay}"
        table.add_row(seat.role, pay, _show_amount(int(seat.locks_wei)), str(seat.taken), str(seat.free))
    return table


def _show_amount(wei: int) -> str:
    """Returns whole tokens with three decimals at most."""
    if 0 < wei < TOKEN_WEI // 1000:
        return "<0.001"
    whole, _, decimals = f"{wei / TOKEN_WEI:,.3f}".partition(".")
    return f"{whole}.{decimals}".rstrip("0").rstrip(".")


def _show_count(number: int) -> str:
    return f"{number:,}" if number < MILLION else f"{number / MILLION:,.1f} million"
