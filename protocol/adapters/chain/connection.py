"""One chain over JSON-RPC: transport, requests, and its failures in our words.

The transport below web3 is one aiohttp session. web3's own AsyncHTTPProvider takes a thread lock in a helper
thread for each request. A request that is cancelled at that moment leaves the lock taken, and every later one
of the process waits for ever (docs/decisions/0009-http-below-web3.md).

Requests are plain HTTP, and polled: there is no subscription that can be lost, and a restart of the chain's
node is only a few failed requests. Every answer says which block it belongs to, so `contract.py` sees gaps
and reorgs.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import aiohttp
from eth_utils.address import to_checksum_address
from web3 import AsyncWeb3
from web3.exceptions import (
    BlockNotFound,
    ContractLogicError,
    TransactionNotFound,
    Web3Exception,
    Web3RPCError,
)
from web3.providers.async_base import AsyncJSONBaseProvider
from web3.providers.rpc.utils import check_if_retry_on_failure
from web3.types import RPCEndpoint, RPCResponse
from yarl import URL

from protocol.adapters.chain.deployment import Addresses
from protocol.adapters.chain.refusal_words import explain_revert
from protocol.adapters.wire.session import show, tell_reason
from protocol.spec.errors import EnvironmentFault, InvalidInput

MOST_CALLS = 10_000
"""Inside of each other. A library below web3 sets 100,000 when it is loaded. The stack does not hold so many:
JSON that nests as deep would end the process, and not with an error."""
sys.setrecursionlimit(min(sys.getrecursionlimit(), MOST_CALLS))
ATTEMPTS = 3
"""Of a request that changes nothing when it is sent twice."""
FIRST_PAUSE_S = 0.125
HEADERS = {"Content-Type": "application/json"}


class NoAnswer(aiohttp.ClientError):
    """Something other than an answer came: the page of a proxy that stands before the chain's node, for
    example."""


class HttpProvider(AsyncJSONBaseProvider):
    """Requests to one URL. May be cancelled at any time. Raises aiohttp.ClientError and TimeoutError."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """timeout_s: of one attempt."""
        super().__init__()
        self._url = url
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """The node's answer, an error of its own included."""
        body = self.encode_rpc_request(method, params)
        attempts = ATTEMPTS if check_if_retry_on_failure(method) else 1
        for failures in range(1, attempts):
            try:
                return await self._post(body)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(FIRST_PAUSE_S * 2 ** (failures - 1))
        return await self._post(body)

    async def _post(self, body: bytes) -> RPCResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, headers=HEADERS)
        async with self._session.post(self._url, data=body) as response:
            response.raise_for_status()
            text = await response.read()
        try:
            answer: object = self.decode_rpc_response(text)
        except (ValueError, RecursionError):
            raise NoAnswer("what came is no JSON") from None
        if not isinstance(answer, dict):
            raise NoAnswer("what came is no JSON-RPC")
        return cast(RPCResponse, answer)

    async def disconnect(self) -> None:
        """Close the session; a later request opens another."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


Answer = TypeVar("Answer")

REQUEST_TIMEOUT_S = 20.0
POLL_S = 0.1
PATIENCE_S = 120.0
"""How long a silent chain is asked again before a long-running command gives up."""


@dataclass(frozen=True)
class Head:
    """One block as far as roles care. Hashes are 32 bytes; `timestamp_s` is Unix time."""

    number: int
    block_hash: bytes
    parent_hash: bytes
    timestamp_s: int
    base_fee_wei: int


ERROR_KINDS: dict[type[Exception], str] = {
    TimeoutError: "timeout",
    aiohttp.ClientResponseError: "http",
    Web3Exception: "refused",
    Exception: "connection",
}
"""What a request failed by, the first that fits."""


@dataclass
class RpcHealth:
    """How the chain's node answers. answered_s: when it last did (monotonic seconds; at first, when it was
    first to be asked); errors: how often it did not, by `timeout`, `connection`, `http` (a status that is no
    success) and `refused` (an error in its own words); head: the newest block that it told of."""

    answered_s: float = field(default_factory=time.monotonic)
    errors: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(ERROR_KINDS.values(), 0)))
    head: Head | None = None

    def note_answer(self) -> None:
        """It has answered."""
        self.answered_s = time.monotonic()

    def note_error(self, error: Exception) -> None:
        """A request has failed."""
        self.errors[next(kind for known, kind in ERROR_KINDS.items() if isinstance(error, known))] += 1


class Connection:
    """JSON-RPC calls to one node of the chain. Make one with `connect`; close it in the end."""

    def __init__(self, rpc_url: str, poll_s: float = POLL_S, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """poll_s: pause between two looks at the head; timeout_s: of one attempt."""
        self.rpc_url = rpc_url
        self.place = name_place(rpc_url)
        """Where that node is, as errors and logs name it."""
        self.poll_s = poll_s
        self.health = RpcHealth()
        self._provider = HttpProvider(rpc_url, timeout_s)
        self._web3 = AsyncWeb3(self._provider, middleware=[])

    async def close(self) -> None:
        """Close the HTTP session."""
        await self._provider.disconnect()

    async def request(self, method: str, *parameters: Any) -> Any:
        """A bare JSON-RPC request, for what is not part of every chain (`anvil_mine`). Raises
        EnvironmentFault."""
        answer = await self._ask(self._provider.make_request(RPCEndpoint(method), list(parameters)))
        if "error" in answer:
            raise _fault(self.place, f"an answer to {method}", str(answer["error"]), retryable=False)
        return answer["result"]

    async def chain_id(self) -> int:
        """The chain's id (EIP-155)."""
        return await self._ask(self._web3.eth.chain_id)

    async def code_at(self, address: str) -> bytes:
        """The code at `address`, empty where there is none."""
        return bytes(await self._ask(self._web3.eth.get_code(to_checksum_address(address))))

    async def balance_of(self, address: str) -> int:
        """The chain's own coin of `address`, in wei, as of the latest block."""
        return await self._ask(self._web3.eth.get_balance(to_checksum_address(address)))

    async def head(self) -> Head:
        """The latest block."""
        try:
            self.health.head = _to_head(await self._ask(self._web3.eth.get_block("latest")))
        except BlockNotFound:
            raise _fault(self.place, "its latest block", "none") from None
        return self.health.head

    async def block(self, number: int) -> Head | None:
        """The block of that number on the chain as it stands, None above its head."""
        try:
            return _to_head(await self._ask(self._web3.eth.get_block(number)))
        except BlockNotFound:
            return None

    async def raw_block(self, number: int) -> dict[str, Any]:
        """The block as JSON-RPC has it, values as `0x` strings. Raises EnvironmentFault above the head."""
        block = await self.request("eth_getBlockByNumber", hex(number), False)
        if block is None:
            raise _fault(self.place, f"block {number}", "none yet")
        return dict(block)

    async def call(
        self, to: str, data: bytes, where: str, *, sender: str = "", block: int | str = "latest"
    ) -> bytes:
        """Result of a read-only call. Raises ContractRefused where the contract reverts."""
        transaction = _to_transaction(to, data, sender)
        return bytes(await self._ask(self._web3.eth.call(transaction, block), where))  # type: ignore[arg-type]

    async def estimate_gas(self, sender: str, to: str, data: bytes, where: str) -> int:
        """Gas that the call (a creation where `to` is empty) would take in the next block. Raises
        ContractRefused where it would revert."""
        transaction = {**_to_transaction(to, data, sender), "value": 0}
        return await self._ask(self._web3.eth.estimate_gas(transaction, "pending"), where)  # type: ignore[arg-type]

    async def transaction_count(self, address: str, block: str) -> int:
        """Transactions sent by `address`: mined ones (`latest`), or with those that wait to be
        (`pending`)."""
        return await self._ask(self._web3.eth.get_transaction_count(to_checksum_address(address), block))  # type: ignore[arg-type]

    async def priority_fee(self) -> int:
        """A tip per gas, in wei, that the node thinks right."""
        return await self._ask(self._web3.eth.max_priority_fee)

    async def broadcast(self, raw: bytes) -> None:
        """Hand in a signed transaction. Raises Web3RPCError with the node's words where it does not take
        it."""
        await self._ask(self._web3.eth.send_raw_transaction(raw), refusal=Web3RPCError)

    async def receipt(self, transaction_hash: bytes) -> dict[str, Any] | None:
        """The receipt as the chain has it, None while it is not mined."""
        try:
            return dict(await self._ask(self._web3.eth.get_transaction_receipt(transaction_hash)))  # type: ignore[arg-type]
        except TransactionNotFound:
            return None

    async def has_transaction(self, transaction_hash: bytes) -> bool:
        """Whether the node knows the transaction, mined or waiting."""
        try:
            await self._ask(self._web3.eth.get_transaction(transaction_hash))  # type: ignore[arg-type]
        except TransactionNotFound:
            return False
        return True

    async def sent_data(self, transaction_hash: bytes) -> bytes:
        """The data of a transaction. Raises EnvironmentFault where the node does not know it."""
        return (await self.sent_call(transaction_hash))[1]

    async def sent_call(self, transaction_hash: bytes) -> tuple[str, bytes]:
        """Whom a transaction calls, lower-case `0x`, empty where it creates a contract; and its data. Raises
        EnvironmentFault where the node does not know it."""
        found = await self.request("eth_getTransactionByHash", "0x" + transaction_hash.hex())
        if found is None:
            raise _fault(self.place, f"transaction 0x{transaction_hash.hex()}", "none")
        return str(found["to"] or "").lower(), bytes.fromhex(str(found["input"])[2:])

    async def logs(self, addresses: list[str], from_block: int, to_block: int) -> list[dict[str, Any]]:
        """Logs of the contracts in [from_block, to_block], in the chain's order."""
        parameters: dict[str, Any] = {
            "address": [to_checksum_address(address) for address in addresses],
            "fromBlock": from_block,
            "toBlock": to_block,
        }
        found = await self._ask(self._web3.eth.get_logs(parameters))  # type: ignore[arg-type]
        return [dict(log) for log in found]

    async def heads(self) -> AsyncIterator[Head]:
        """The latest block now and whenever it changes, reorgs at the same height included; blocks in between
        are skipped. A silent chain is asked again for PATIENCE_S, then raises EnvironmentFault."""
        last: Head | None = None
        silent_since: float | None = None
        while True:
            try:
                head, silent_since = await self.head(), None
            except EnvironmentFault:
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > PATIENCE_S:
                    raise
            else:
                if head != last:
                    last = head
                    yield head
            await asyncio.sleep(self.poll_s)

    async def wait_for_block(self, number: int) -> Head:
        """Wait until the head is at block `number` or later; return the head."""
        async for head in self.heads():
            if head.number >= number:
                return head
        raise AssertionError("heads() never ends")

    async def _ask(
        self, answer: Awaitable[Answer], where: str = "", refusal: type[Exception] | None = None
    ) -> Answer:
        try:
            found = await answer
        except ContractLogicError as error:
            self.health.note_answer()
            raise explain_revert(_revert_data(error), where) from None
        except (BlockNotFound, TransactionNotFound):
            self.health.note_answer()
            raise
        except Web3Exception as error:
            self.health.note_error(error)
            if refusal is not None and isinstance(error, refusal):
                raise
            raise _fault(self.place, "a result", str(error), retryable=False) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.health.note_error(error)
            raise _fault(self.place, "a chain that answers", _tell_silence(error)) from None
        self.health.note_answer()
        return found


async def check_deployment(connection: Connection, deployment: Addresses) -> None:
    """Raises InvalidInput unless the chain is the deployment's and has code at all its addresses."""
    chain_id = await connection.chain_id()
    if chain_id != deployment.chain_id:
        raise InvalidInput(
            what="this is another chain than the deployment's",
            expected=f"chain id {deployment.chain_id}",
            actual=f"chain id {chain_id}",
            where=connection.place,
            remedy="Pass the --rpc-url of the right chain, or the --deployment of this one.",
        )
    for name, address in {**deployment.contracts(), "token": deployment.token}.items():
        if not await connection.code_at(address):
            raise InvalidInput(
                what=f"no contract at the address of {name}",
                expected=f"code at {address}",
                actual="none",
                where=connection.place,
                remedy="The chain is fresh or the file is stale: deploy again (`touchstone devnet`).",
            )


def name_place(rpc_url: str) -> str:
    """A URL of a chain's node for people: its scheme, host and port. A provider's key may stand in all the
    rest, and what is told goes into logs and into questions to others."""
    try:
        url = URL(rpc_url)
        origin = str(url.origin())
    except ValueError:
        return "an address that is none (not shown)"
    is_bare = url.path in ("", "/") and not (url.query_string or url.fragment or url.user or url.password)
    return origin if is_bare else f"{origin}/..."


def _tell_silence(error: Exception) -> str:
    """Why no answer came. The text of some errors has the URL in it, and with it a key."""
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{kind}: status {error.status} {show(error.message)}"
    is_url = isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError)
    return kind if is_url else f"{kind}: {tell_reason(error)}"


def _to_transaction(to: str, data: bytes, sender: str) -> dict[str, Any]:
    parties = {"to": to, "from": sender}
    return {"data": data, **{key: to_checksum_address(value) for key, value in parties.items() if value}}


def _to_head(block: Any) -> Head:
    return Head(
        int(block["number"]),
        bytes(block["hash"]),
        bytes(block["parentHash"]),
        int(block["timestamp"]),
        int(block.get("baseFeePerGas", 0)),
    )


def _revert_data(error: ContractLogicError) -> bytes:
    data = error.data if isinstance(error.data, str) else ""
    return bytes.fromhex(data.removeprefix("0x"))


def _fault(place: str, expected: str, actual: str, retryable: bool = True) -> EnvironmentFault:
    return EnvironmentFault(
        what="the chain does not answer as it should",
        expected=expected,
        actual=actual,
        where=place,
        remedy="Start a chain (`touchstone devnet`), or set `rpc_url` in this home's config.toml to one that "
        "runs (`touchstone init --rpc-url` for a new home).",
        retryable=retryable,
    )
