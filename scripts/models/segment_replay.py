"""`touchstone replay`: checks without a seat whether a segment of a claim was trained correctly."""

from collections.abc import Iterator
from math import isfinite

from touchstone.node.kit.config import NodeConfig
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.spec.statements import VoteWord
from touchstone.scripts.account.task_names import find_game, read_state
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.documents.model_documents import (
    DistanceDocument,
    Quantity,
    ReplayDocument,
    ReplayResult,
)
from touchstone.verifier import seatless_audit


def is_accepted(found: ReplayDocument) -> bool:
    """Returns whether a replay's document says that the claimed end is inside the limits."""
    return found.result == ReplayResult.ACCEPT


async def replay_segment(
    config: NodeConfig, name: str, index: int, solver: str, segment: int, console: Console
) -> ReplayDocument:
    """Replays a segment of the task called `name`, and tells the result. `solver` is the slot of the claim,
    or its solver's account. Raises as `verifier.replay` does."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        task, game = find_game(await read_state(chain), name)
    claims = game.rounds[index].claims if index in game.rounds else {}
    slots = {claim.account: slot for slot, claim in claims.items()}
    slot = int(solver) if solver.isascii() and solver.isdigit() else slots.get(solver.lower(), -1)
    found = await seatless_audit.replay(config, seatless_audit.Place(task, index, slot, segment))
    for line in describe_replayed(found):
        console.notify(line)
    return ReplayDocument(
        task=format_id(task),
        round=index,
        slot=slot,
        solver=found.solver,
        segment=segment,
        result=ReplayResult(found.word.name),
        claimed_end=format_id(found.claimed_end),
        own_end=None if found.own_end is None else format_id(found.own_end),
        distances=[
            DistanceDocument(Quantity(quantity), distance if isfinite(distance) else None, limit)
            for quantity, distance, limit in found.distances
        ],
    )


def describe_replayed(found: seatless_audit.Replayed) -> Iterator[str]:
    """Yields lines on the result of a replay."""
    if found.own_end == found.claimed_end and found.word == VoteWord.ACCEPT:
        yield f"{found.word.name}: this machine's end has the claimed root, {format_id(found.claimed_end)}"
        return
    for quantity, distance, limit in found.distances:
        yield f"largest distance of the {quantity}: {distance:.3g}, limit {limit:.3g}"
    meaning = {
        VoteWord.ACCEPT: "the claimed end lies inside the limits of the task",
        VoteWord.REJECT_START: "the claim does not start from what the round began with: its weights, "
        "moments or step numbers differ",
        VoteWord.REJECT_STATE: "the claimed end differs from what this machine computed. A dispute would "
        "show who is wrong, by computing one number of the segment",
    }
    yield f"{found.word.name}: {meaning[found.word]}"
