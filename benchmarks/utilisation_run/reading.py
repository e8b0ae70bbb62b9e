"""What the counting needs of the chain: events, who sent the claims, when blocks were made."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.utilisation_run.counting import RoundTold
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.event_logs import Event
from protocol.spec.game.inner_dispute import DisputeStage


async def read_senders(connection: Connection, events: Sequence[Event]) -> dict[bytes, str]:
    """Lower-case sender of each transaction that claims."""
    hashes = {event.transaction_hash for event in events if event.name == "ClaimTaken"}
    found: dict[bytes, str] = {}
    for one in hashes:
        sent: Mapping[str, Any] = await connection.request("eth_getTransactionByHash", f"0x{one.hex()}")
        found[one] = str(sent["from"]).lower()
    return found


async def read_times(connection: Connection, rounds: Iterable[RoundTold]) -> dict[int, float]:
    """Seconds of the blocks in which rounds were opened, closed, drawn and ended. Raises EnvironmentFault."""
    wanted = {block for one in rounds for block in (*one.blocks, *one.claims.values())}
    heads = [await connection.block(block) for block in sorted(wanted)]
    return {head.number: float(head.timestamp_s) for head in heads if head is not None}


def list_disputes(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Each dispute: the blocks in which it was opened and ended, and how."""
    found: dict[bytes, dict[str, Any]] = {}
    for event in events:
        if event.name == "DisputeOpened":
            found[event.arguments["dispute"]] = {
                "seat": event.arguments["seat"], "opened": event.block_number, "ended": None, "outcome": None,
            }  # fmt: skip
        elif event.name == "DisputeEnded":
            found[event.arguments["dispute"]] |= {
                "ended": event.block_number,
                "outcome": DisputeStage(event.arguments["outcome"]).name,
            }
    return list(found.values())
