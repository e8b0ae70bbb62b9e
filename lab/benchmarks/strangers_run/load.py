"""Disturbs one node from a separate process: slow readers, half-open connections, malformed requests. Each
kind comes from network addresses of its own, as strangers would.
"""

import asyncio
import json
import os
import resource
import signal
import socket
import ssl
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import aiohttp
from eth_account import Account

from tools.vectors.fixed_values import MALFORMED_REQUESTS
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.spec.typed_data import SigningDomain

READERS = 24
STREAMS = 4
"""The streams of each reader."""
HALF_OPEN = 3_000
MALFORMED_S = 60.0
SPEAKERS = 8
PAUSE_S = 0.5
BATCH = 100
"""Connections that are opened between two pauses."""
NICE = 19
"""The nice level of the strangers: on one machine their processor time must not slow the node down."""


@dataclass(frozen=True)
class Target:
    """The disturbed node. `path` names a blob that any account may read."""

    account: str
    url: str
    fingerprint: str
    chain_id: int
    contract: str
    path: str

    @property
    def peer(self) -> Peer:
        """The node as its peers see it."""
        return Peer(self.account, self.url, bytes.fromhex(self.fingerprint))

    @property
    def domain(self) -> SigningDomain:
        """The domain that requests are signed for."""
        return SigningDomain(self.chain_id, self.contract)

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def to_json(self) -> str:
        """Returns the target for the command line of the process."""
        return json.dumps(asdict(self))


async def read_slowly(target: Target, number: int, seen: Counter[str]) -> None:
    """Opens streams and reads none of them. If it is refused or dropped, it connects again."""
    signer = RequestSigner(AccountKey(Account.create()), target.domain)
    peer, pin = target.peer, aiohttp.Fingerprint(bytes.fromhex(target.fingerprint))
    connector = aiohttp.TCPConnector(local_addr=(f"127.0.1.{1 + number}", 0), limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=1024) as session:

        async def hold() -> None:
            while True:
                try:
                    headers = signer.sign("GET", target.path, peer.account)
                    url = peer.format_url(target.path)
                    async with session.get(url, headers=headers, ssl=pin) as answer:
                        seen[f"reader {answer.status}"] += 1
                        await asyncio.sleep(20 * PAUSE_S if answer.status == 200 else PAUSE_S)
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    seen[f"reader {type(error).__name__}"] += 1
                    await asyncio.sleep(PAUSE_S)

        await asyncio.gather(*(hold() for _ in range(STREAMS)))


async def hold_half_open(target: Target, seen: Counter[str]) -> None:
    """Holds HALF_OPEN connections without a handshake; those that the node closes are opened again."""
    held: list[socket.socket] = []
    while True:
        held = [one for one in held if _is_open(one)]
        for _ in range(min(BATCH, HALF_OPEN - len(held))):
            one = socket.socket()
            one.setblocking(False)
            one.bind((f"127.0.2.{1 + len(held) % 250}", 0))
            with suppress(OSError):
                one.connect(target.place)
            held.append(one)
            seen["half-open made"] += 1
        seen["half-open held at most"] = max(seen["half-open held at most"], len(held))
        await asyncio.sleep(PAUSE_S / 5)


def _is_open(one: socket.socket) -> bool:
    try:
        if one.recv(1):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    one.close()
    return False


async def speak_garbage(target: Target, number: int, seen: Counter[str]) -> None:
    """Makes handshakes, then sends bytes that are no request, and unsigned requests, for a minute."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    end = asyncio.get_running_loop().time() + MALFORMED_S
    count = 0
    while asyncio.get_running_loop().time() < end:
        count += 1
        with suppress(OSError, ssl.SSLError, TimeoutError):
            async with asyncio.timeout(5):
                address = (f"127.0.3.{1 + number}", 0)
                reader, writer = await asyncio.open_connection(*target.place, ssl=context, local_addr=address)
                unsigned = f"GET {target.path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
                writer.write((*MALFORMED_REQUESTS, unsigned)[count % (1 + len(MALFORMED_REQUESTS))])
                status = (await reader.readline()).split(b" ")[1:2]
                seen[f"malformed {status[0].decode() if status else 'dropped'}"] += 1
                writer.close()
        await asyncio.sleep(PAUSE_S / 10)


async def work(target: Target) -> None:
    """Works until SIGTERM, then prints its counts."""
    seen, stopped = Counter[str](), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    tasks = [asyncio.create_task(read_slowly(target, number, seen)) for number in range(READERS)]
    tasks += [asyncio.create_task(speak_garbage(target, number, seen)) for number in range(SPEAKERS)]
    tasks.append(asyncio.create_task(hold_half_open(target, seen)))
    await stopped.wait()
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [repr(one) for one in results if isinstance(one, Exception)]
    print(json.dumps({"seen": dict(seen), "failed": failed}), flush=True)


def main() -> None:
    """Runs the process. Its argument is the target in JSON."""
    os.nice(NICE)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(work(Target(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
