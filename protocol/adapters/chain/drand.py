"""Fetches signatures of drand's quicknet over HTTPS.

The contract checks a drand server's answers; nothing here trusts them.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

import aiohttp
import msgspec

from touchstone.protocol.adapters.messages import Form
from touchstone.protocol.adapters.wire.peer_faults import describe_reason, read_at_most
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.quicknet import CHAIN_HASH, SIGNATURE_BYTES, compute_due_s

SERVERS = (
    "https://api.drand.sh",
    "https://api2.drand.sh",
    "https://api3.drand.sh",
    "https://drand.cloudflare.com",
)
"""The public servers. Each serves every past round."""
TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 4_096
GRACE_S = 1.0
"""Seconds from a round's due time until the servers have its signature."""
MOST_WAIT_S = 600.0
"""The most seconds to wait for a round. A draw is recorded after its block, whose round is due within
seconds."""


class Answer(msgspec.Struct, frozen=True):
    """The used part of a drand server's answer about a round."""

    signature: Annotated[str, msgspec.Meta(pattern=rf"\A[0-9a-f]{{{2 * SIGNATURE_BYTES}}}\Z")]


ANSWER = Form(Answer, MAX_ANSWER_BYTES, "no signature of drand")


async def fetch_signature(round_number: int, servers: Sequence[str] = SERVERS) -> bytes:
    """Returns the signature (48 bytes) of a round, once it is due, from the first server that has it. Raises
    EnvironmentFault if no server has it, or if the round is far in the future, because then the endpoint or
    the clock is wrong."""
    wait_s = compute_due_s(round_number) + GRACE_S - time.time()
    if wait_s > MOST_WAIT_S:
        raise _round_far_ahead(round_number, wait_s)
    await asyncio.sleep(max(0.0, wait_s))
    failures = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
        for server in servers:
            try:
                return await _fetch(session, f"{server}/{CHAIN_HASH}/public/{round_number}")
            except (aiohttp.ClientError, TimeoutError, ProtocolFault) as error:
                failures.append(f"{server}: {type(error).__name__} {describe_reason(error)}")
    raise _no_signature(round_number, failures)


def _no_signature(round_number: int, failures: list[str]) -> EnvironmentFault:
    return EnvironmentFault(
        what="no server of drand gives the round's signature",
        expected=f"round {round_number} of quicknet",
        actual="; ".join(failures) or "no server named",
        remedy="Let this machine reach one of the servers. The node tries again until the draw's window is "
        "over.",
    )


def _round_far_ahead(round_number: int, wait_s: float) -> EnvironmentFault:
    return EnvironmentFault(
        what="the round of drand that a draw needs is far in the future",
        expected=f"a round that is due within {MOST_WAIT_S / 60:.0f} min",
        actual=f"round {round_number}, due in {wait_s / 60:.0f} min by this machine's clock",
        remedy="The node tries again. Check `rpc_url`, and the clock of this machine.",
    )


async def _fetch(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.get(url) as answer:
        answer.raise_for_status()
        body = await read_at_most(answer, MAX_ANSWER_BYTES)
    return bytes.fromhex(ANSWER.decode(body).signature)
