"""Sends JSON-RPC to one endpoint: one request out, its result or one of three failures back.

The three failures are `ProviderError` (the provider answers with an error), `NoAnswer` (the answer is
invalid) and what aiohttp raises (no answer). Any other error on an odd answer becomes `NoAnswer` too. If an
endpoint asks for a pause, requests wait until it is over.

An answer is refused by its size and its number of parts before it is decoded, because while JSON is decoded
the process answers nothing else.

aiohttp is used directly. web3's own transport takes a thread lock in a helper thread for each request, and a
request that is cancelled at that moment never releases it (docs/decisions/0009-http-below-web3.md).
"""

import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from itertools import accumulate
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from touchstone.protocol.adapters.chain.endpoint_health import NoAnswer
from touchstone.protocol.adapters.chain.provider_errors import Kind, ProviderError, find_wait_s, read_error

HEADERS = {"Content-Type": "application/json"}


MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of one result. A head has 2 kB, one with the hashes of 10,000 transactions 700 kB."""


MOST_LONG_BYTES = 64 * 1024 * 1024
"""The most bytes of logs, or of a block with its transactions. Any account can write many logs; then the
caller asks for less."""


MOST_PARTS = 2_000_000
"""The most strings, fields and brackets of one answer: enough for 30,000 logs, which take some tenths of a
second to decode."""


MAX_DEPTH = 64
"""The deepest nesting of lists and objects. Parsers recurse, and a library raises Python's recursion limit so
far that deeper JSON could crash the process."""


REFUSE_BATCH = (400, 404, 405, 413, 415, 422)
"""The HTTP statuses of a server that takes no batches."""


MAX_WAIT_S = 600.0
"""The longest pause in seconds that a provider can ask for."""


REST_TIMEOUTS = 1.5
"""A silent endpoint is skipped for this many times the timeout of a request, if there are others."""


FIRST_WAIT_S, LONGEST_GUESS_S = 1.0, 32.0
"""Seconds of the first and the longest pause for a busy provider that names no time. Each pause doubles the
last."""


_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as signed bytes: +1 for one level down, -1 for one level up."""


class Endpoint:
    """One URL of a provider. Requests may be cancelled at any time."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Prepares an endpoint. `timeout_s` is the time of one request."""
        self.url = url
        self.place = name_place(url)
        """Names the endpoint in errors and logs."""
        self.lacks: set[str] = set()
        """What this provider says that it does not support: methods, or the tag `pending`."""
        self.free_s = 0.0
        """Until when the provider asks for a pause (monotonic seconds)."""
        self.head: int | None = None
        """The newest block that the endpoint has reported, None before the first."""
        self._rests_until_s = 0.0
        self._rest_s = REST_TIMEOUTS * timeout_s
        self._refusals = 0
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._count = 0

    async def close(self) -> None:
        """Closes the session; a later request opens another."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def away_s(self) -> float:
        """Seconds for which this endpoint is skipped if another one answers; 0 if it is not."""
        return max(0.0, max(self.free_s, self._rests_until_s) - time.monotonic())

    def rest(self) -> None:
        """Skips the endpoint for a while, because it was silent or far slower than the others."""
        self._rests_until_s = time.monotonic() + self._rest_s

    async def ask(self, method: str, parameters: Sequence[object]) -> Any:
        """Returns the result of one request, any JSON. Raises ProviderError, NoAnswer (a ClientError), other
        aiohttp.ClientError, TimeoutError and OSError."""
        [found] = await self.ask_together([(method, parameters)])
        return found

    async def ask_together(self, calls: Sequence[tuple[str, Sequence[object]]]) -> list[Any]:
        """Returns the results of several requests, sent as one batch so that one backend answers all. Raises
        as `ask` does; of several ProviderErrors, the first."""
        found = await self.ask_each(calls)
        for one in found:
            if isinstance(one, ProviderError):
                raise one
        return found

    async def ask_each(self, calls: Sequence[tuple[str, Sequence[object]]]) -> list[Any]:
        """Returns the results of several requests as `ask_together` does, with a ProviderError in place of
        each failed result. Raises as `ask` does."""
        try:
            return await self._ask_each(calls)
        except (ProviderError, aiohttp.ClientError, TimeoutError, OSError):
            raise
        except Exception as error:
            # An unexpected form must not end the node.
            raise NoAnswer(f"the answer cannot be read: {type(error).__name__}") from error

    async def _ask_each(self, calls: Sequence[tuple[str, Sequence[object]]]) -> list[Any]:
        numbers = range(self._count, self._count + len(calls))
        self._count += len(calls)
        sent = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": list(parameters)}
            for number, (method, parameters) in zip(numbers, calls, strict=True)
        ]
        is_batch = len(sent) > 1
        body, most_bytes = msgspec.json.encode(sent if is_batch else sent[0]), sum(map(_limit_bytes, calls))
        answer = await self._post(body, most_bytes, is_batch=is_batch)
        found = [self._read(one) for one in self._match(answer, numbers)]
        self._refusals = 0
        return found

    def _match(self, answer: object, numbers: range) -> list[object]:
        """Returns the answers in the order of the requests. The id of a single answer is ignored."""
        if len(numbers) == 1:
            return [answer]
        if not isinstance(answer, list):
            # A server that takes no batches says so in a single answer, as an error or in its own words.
            is_error = isinstance(answer, dict) and answer.get("error") is not None
            return [answer if is_error else {"error": {"message": "batches are not supported"}}]
        told = [one for one in answer if isinstance(one, dict)]
        by_number = {one["id"]: one for one in told if isinstance(one.get("id"), int)}
        return [by_number.get(number) for number in numbers]

    def _read(self, answer: object) -> Any:
        """Returns the result, or the ProviderError in its place."""
        if not isinstance(answer, dict):
            raise NoAnswer("the answer is not JSON-RPC")
        if answer.get("error") is not None:
            error = read_error(answer["error"])
            if error.kind is Kind.BUSY:
                self._leave_alone(error.wait_s)
            return error
        if "result" not in answer:
            raise NoAnswer("the answer has neither a result nor an error")
        return answer["result"]

    async def _post(self, body: bytes, most_bytes: int, *, is_batch: bool) -> object:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, headers=HEADERS)
        async with self._session.post(self.url, data=body) as response:
            text = await _read_body(response, most_bytes)
            try:
                answer = decode_json(text)
            except ValueError:
                answer = None
            if not (response.ok or _is_error(answer)):
                self._note_status(response, text)
                if is_batch and response.status in REFUSE_BATCH:
                    raise ProviderError(Kind.UNSUPPORTED, f"status {response.status}")
                response.raise_for_status()
            if response.status == 429 and not isinstance(answer, list):
                self._note_status(response, text)
        if not isinstance(answer, dict | list):
            raise NoAnswer("the answer is not JSON-RPC")
        return answer

    def _note_status(self, response: aiohttp.ClientResponse, text: bytes) -> None:
        """Raises ProviderError for a status that asks for a pause, and notes the pause."""
        told_s = read_retry_after(response.headers.get("Retry-After", ""))
        if response.status == 429 or (response.status == 503 and told_s is not None):
            words = text[:300].decode(errors="replace")
            self._leave_alone(told_s if told_s is not None else find_wait_s(words))
            raise ProviderError(Kind.BUSY, f"status {response.status}", wait_s=told_s)

    def _leave_alone(self, told_s: float | None) -> None:
        guess_s = min(FIRST_WAIT_S * 2**self._refusals, LONGEST_GUESS_S)
        wait_s = min(guess_s if told_s is None else told_s, MAX_WAIT_S)
        self._refusals = min(self._refusals + 1, 10)
        self.free_s = max(self.free_s, time.monotonic() + wait_s)


def _limit_bytes(call: tuple[str, Sequence[object]]) -> int:
    """Returns the most bytes that the result of a request may have."""
    method, parameters = call
    is_long = method == "eth_getLogs" or (method.startswith("eth_getBlock") and parameters[-1:] == (True,))
    return MOST_LONG_BYTES if is_long else MOST_BYTES


async def _read_body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Returns the body, unpacked. Raises ProviderError as soon as it is too long."""
    parts, size_bytes = list[bytes](), 0
    async for part in response.content.iter_any():
        size_bytes += len(part)
        if size_bytes > most_bytes:
            raise ProviderError(Kind.TOO_MUCH, f"an answer of more than {most_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


def _is_error(answer: object) -> bool:
    """Returns whether an answer contains an error, whatever its HTTP status."""
    one = answer[0] if isinstance(answer, list) and answer else answer
    return isinstance(one, dict) and one.get("error") is not None


def decode_json(text: bytes) -> object:
    """Decodes JSON. Raises ValueError for text that is not JSON, nests deeper than `MAX_DEPTH`, or has more
    than `MOST_PARTS` parts. Its time grows linearly with the text's length."""
    if sum(map(text.count, (b'"', b",", b"[", b"{", b"\\"))) > MOST_PARTS:
        raise ValueError("too many parts")
    between = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    steps = b"".join(between).translate(_STEPS, _NO_BRACKETS)
    if max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH:
        raise ValueError("too deep, or no JSON")
    return msgspec.json.decode(text)


def read_retry_after(text: str) -> float | None:
    """Returns the seconds in a `Retry-After` header, given as a number or a date (RFC 9110, section 10.2.3);
    None if it is neither."""
    number = text.strip()
    if number.isascii() and number.isdigit():
        return float(number[:10])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, LookupError, ArithmeticError, OSError):
        return None


def name_place(rpc_url: str) -> str:
    """Returns the URL of a chain's node for display: scheme, host and port. The rest is left out, because it
    may hold a provider's key, and logs are shown to others."""
    try:
        url = URL(rpc_url)
        origin = str(url.origin())
    except ValueError:
        return "an invalid address (not shown)"
    is_bare = url.path in ("", "/") and not (url.query_string or url.fragment or url.user or url.password)
    return origin if is_bare else f"{origin}/..."
