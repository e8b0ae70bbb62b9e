"""Signatures of drand's quicknet over HTTPS. What a server answers is checked by the contract, not
believed."""

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

import aiohttp
import msgspec

from protocol.adapters.messages import Form
from protocol.adapters.wire.session import read_at_most
from protocol.spec.drand import CHAIN_HASH, SIGNATURE_BYTES, compute_due_s
from protocol.spec.errors import EnvironmentFault, ProtocolFault

SERVERS = (
    "https://api.drand.sh",
    "https://api2.drand.sh",
    "https://api3.drand.sh",
    "https://drand.cloudflare.com",
)
"""The public ones; each serves every round that ever was."""
TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 4_096
GRACE_S = 1.0
"""From a round's due time to its signature at the servers."""


class Answer(msgspec.Struct, frozen=True):
    """What a server of drand says of a round, as far as it is of use; servers say more."""

    signature: Annotated[str, msgspec.Meta(pattern=rf"\A[0-9a-f]{{{2 * SIGNATURE_BYTES}}}\Z")]


ANSWER = Form(Answer, MAX_ANSWER_BYTES, "no signature of drand")


async def fetch_signature(round_number: int, servers: Sequence[str] = SERVERS) -> bytes:
    """The signature (48 bytes) of a round, once it is due; the first server that has it.

    Raises EnvironmentFault when none answers with one.
    """
    await asyncio.sleep(max(0.0, compute_due_s(round_number) + GRACE_S - time.time()))
    failures = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
        for server in servers:
            try:
                return await _fetch(session, f"{server}/{CHAIN_HASH}/public/{round_number}")
            except (aiohttp.ClientError, TimeoutError, ProtocolFault) as error:
                failures.append(f"{server}: {type(error).__name__} {error}")
    raise EnvironmentFault(
        what="no server of drand gives the round's signature",
        expected=f"round {round_number} of quicknet",
        actual="; ".join(failures) or "no server named",
        remedy="Let this machine reach one of them; the seal is tried again until its window closes.",
    )


async def _fetch(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.get(url) as answer:
        answer.raise_for_status()
        body = await read_at_most(answer, MAX_ANSWER_BYTES)
    return bytes.fromhex(ANSWER.decode(body).signature)
