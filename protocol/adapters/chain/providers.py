"""The endpoints of one chain as one: who is asked, how often, and what stands in for no answer.

One endpoint answers for another that is silent, busy, or behind. An answer of another form than its own
counts as none, and is asked for again. A transaction goes to all endpoints.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import aiohttp

from protocol.adapters.chain import answers
from protocol.adapters.chain.answers import MalformedAnswer
from protocol.adapters.chain.provider_errors import Kind, ProviderError
from protocol.adapters.chain.refusal_words import explain_revert
from protocol.adapters.chain.rpc import Endpoint, NoAnswer, RpcHealth
from protocol.adapters.wire.session import show, tell_reason
from protocol.spec.errors import EnvironmentFault

Answer = TypeVar("Answer")

ATTEMPTS = 3
"""Of a request that changes nothing when it is sent twice, at each endpoint."""
FRESH_ATTEMPTS = 8
"""Of a request that only a backend may answer that has a certain block."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.125, 0.5
REPEATABLE = ("eth_", "net_", "web3_", "debug_")
"""Requests that change nothing when they are sent twice. A signed transaction is one: its hash is its own."""


class Providers:
    """Questions to the endpoints of one chain. Close them in the end."""

    def __init__(self, rpc_urls: Sequence[str], timeout_s: float) -> None:
        """rpc_urls: at least one; timeout_s: of one attempt."""
        self.endpoints = [Endpoint(url, timeout_s) for url in dict.fromkeys(rpc_urls)]
        self.health = RpcHealth()
        self.lacks: set[str] = set()
        """What the provider has refused as unsupported: methods, `pending`, `batches`."""
        self._timeout_s = timeout_s

    @property
    def place(self) -> str:
        """Where the endpoints are, as errors and logs name them."""
        return ", ".join(endpoint.place for endpoint in self.endpoints)

    async def close(self) -> None:
        """Close the HTTP sessions."""
        for endpoint in self.endpoints:
            await endpoint.close()

    async def ask(
        self,
        method: str,
        parameters: Sequence[object],
        read: Callable[[Any], Answer],
        where: str = "",
        floor: int = 0,
    ) -> Answer:
        """As `_try`. Raises EnvironmentFault, and ContractRefused where the contract reverts."""
        try:
            return await self._try(method, parameters, read, self._order(), floor=floor)
        except ProviderError as error:
            if error.kind is Kind.REVERTED:
                raise explain_revert(error.data, where) from None
            is_hopeful = error.kind in (Kind.BUSY, Kind.BEHIND)
            expected = "a result" if method.startswith("eth_") else f"an answer to {method}"
            raise chain_fault(self.place, expected, error.message, retryable=is_hopeful) from error

    async def ask_everywhere(
        self, method: str, parameters: Sequence[object], read: Callable[[Any], Answer]
    ) -> list[Answer | None]:
        """Returns what each endpoint answers that does. An error in its own words is None. Raises
        EnvironmentFault where none answers."""
        asking = (self._try(method, parameters, read, [endpoint]) for endpoint in list(self.endpoints))
        found = await asyncio.gather(*asking, return_exceptions=True)
        silent = [one for one in found if isinstance(one, EnvironmentFault)]
        if len(silent) == len(found):
            raise silent[0]
        for one in found:
            if isinstance(one, BaseException) and not isinstance(one, ProviderError | EnvironmentFault):
                raise one
        answered = [one for one in found if not isinstance(one, EnvironmentFault)]
        return [None if isinstance(one, BaseException) else one for one in answered]

    async def ask_together(
        self, calls: Sequence[tuple[str, Sequence[object]]], read: Callable[[Any], Answer]
    ) -> Answer:
        """As `_ask` for requests that one backend answers; one after the other where the provider takes no
        several at once."""
        if "batches" not in self.lacks:
            try:
                return await self._try("eth_", calls, read, self._order(), is_batch=True)
            except ProviderError as error:
                if error.kind in (Kind.BUSY, Kind.BEHIND, Kind.TOO_MUCH):
                    is_hopeful = error.kind is not Kind.TOO_MUCH
                    raise chain_fault(self.place, "a result", error.message, retryable=is_hopeful) from error
                if error.kind is Kind.UNSUPPORTED:
                    self.lacks.add("batches")
        found = [await self.ask(method, asked, lambda one: one) for method, asked in calls]
        try:
            return read(found)
        except MalformedAnswer as error:
            raise chain_fault(self.place, "a result", str(error)) from None

    async def ask_pending(self, method: str, what: object, where: str = "", floor: int = 0) -> int:
        """The answer as of the pending block; as of the latest where the provider has no pending one."""
        if "pending" not in self.lacks:
            try:
                asked = (method, (what, "pending"), answers.read_quantity)
                return await self._try(*asked, self._order(), floor=floor)
            except ProviderError as error:
                if error.kind is Kind.REVERTED:
                    raise explain_revert(error.data, where) from None
                if error.kind is Kind.UNSUPPORTED:
                    self.lacks.add("pending")
        return await self.ask(method, (what, "latest"), answers.read_quantity, where, floor)

    async def ask_if_known(
        self, method: str, parameters: Sequence[object], read: Callable[[Any], Answer]
    ) -> Answer | None:
        """The answer; None where the provider does not have the method."""
        if method in self.lacks:
            return None
        try:
            return await self._try(method, parameters, read, self._order())
        except ProviderError as error:
            if error.kind in (Kind.BUSY, Kind.BEHIND):
                raise chain_fault(self.place, f"an answer to {method}", error.message) from error
            self.lacks.add(method)
            return None

    async def ask_if_there(
        self, method: str, parameters: Sequence[object], read: Callable[[Any], Answer]
    ) -> Answer | None:
        """The answer; None where it is null, or the provider has not indexed it yet."""
        try:
            return await self.ask(method, parameters, or_none(read))
        except EnvironmentFault as fault:
            if isinstance(fault.__cause__, ProviderError) and fault.__cause__.kind is Kind.BEHIND:
                return None
            raise

    def _order(self) -> list[Endpoint]:
        """The endpoints in the order in which to ask: those that want to be left alone come last."""
        now = time.monotonic()
        return sorted(self.endpoints, key=lambda one: max(0.0, one.free_s - now))

    async def _try(
        self,
        method: str,
        parameters: Sequence[Any],
        read: Callable[[Any], Answer],
        endpoints: Sequence[Endpoint],
        *,
        is_batch: bool = False,
        floor: int = 0,
    ) -> Answer:
        """The first answer of the form that `read` takes. floor: of a backend that has this block. Raises
        ProviderError for the words of a provider, and EnvironmentFault where nothing came that is an
        answer."""
        is_repeatable = method.startswith(REPEATABLE)
        attempts = 1 if not is_repeatable else FRESH_ATTEMPTS if floor else ATTEMPTS
        last: Exception = NoAnswer("no endpoint is named")
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))
            for endpoint in endpoints if is_repeatable else endpoints[:1]:
                try:
                    await self._wait_until_free(endpoint)
                    if is_batch:
                        found = read(await endpoint.ask_together(parameters))
                    else:
                        found = read(await self._ask_one(endpoint, method, parameters, floor))
                except ProviderError as error:
                    if error.kind not in (Kind.BUSY, Kind.BEHIND):
                        self._note(error)
                        raise
                    last = error
                except MalformedAnswer as error:
                    last = NoAnswer(str(error))
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    last = error
                else:
                    self.health.note_answer()
                    self._prefer(endpoint)
                    return found
                self.health.note_error(last)
        if isinstance(last, ProviderError):
            raise last
        raise chain_fault(self.place, "a chain that answers", _tell_silence(last)) from None

    async def _ask_one(self, endpoint: Endpoint, method: str, parameters: Sequence[Any], floor: int) -> Any:
        """The result of a request. A backend that tells how far it is with it is asked again where it lacks
        block `floor`: it would answer, or refuse, for a state before what this node has read or sent."""
        if not floor or "batches" in self.lacks:
            return await endpoint.ask(method, parameters)
        try:
            number, found = await endpoint.ask_each([("eth_blockNumber", ()), (method, parameters)])
        except ProviderError as error:
            if error.kind is not Kind.UNSUPPORTED:
                raise
            self.lacks.add("batches")
            return await endpoint.ask(method, parameters)
        if isinstance(number, ProviderError):
            raise number
        if answers.read_quantity(number) < floor:
            raise ProviderError(Kind.BEHIND, f"the head is {int(number, 16)}, and block {floor} is known")
        if isinstance(found, ProviderError):
            raise found
        return found

    def _note(self, error: ProviderError) -> None:
        """A revert is an answer of the chain; any other error is none."""
        if error.kind is Kind.REVERTED:
            self.health.note_answer()
        else:
            self.health.note_error(error)

    def _prefer(self, endpoint: Endpoint) -> None:
        """Ask the one that answers first from now on."""
        if self.endpoints[0] is not endpoint and len(self.endpoints) > 1:
            self.endpoints.remove(endpoint)
            self.endpoints.insert(0, endpoint)

    async def _wait_until_free(self, endpoint: Endpoint) -> None:
        """Wait while the provider wants to be left alone. Raises ProviderError where that is longer than one
        request may take."""
        wait_s = endpoint.free_s - time.monotonic()
        if wait_s > self._timeout_s:
            raise ProviderError(Kind.BUSY, f"the provider wants to be left alone for {wait_s:.0f} s more")
        await asyncio.sleep(max(0.0, wait_s))

    async def broadcast(self, raw: bytes) -> None:
        """Hand in a signed transaction at every endpoint. Raises ProviderError where all that answer refuse
        it, with `may_have_arrived` where one was silent, and EnvironmentFault where none answers: it may have
        arrived nevertheless."""
        sending = (self._hand_in(endpoint, raw) for endpoint in self.endpoints)
        found = await asyncio.gather(*sending, return_exceptions=True)
        if None in found:
            return
        for error in found:
            if not isinstance(error, ProviderError | EnvironmentFault) and error is not None:
                raise error
        refusals = [one for one in found if isinstance(one, ProviderError)]
        # An endpoint that has it already outweighs one that does not want it.
        refusals.sort(key=lambda one: one.kind not in (Kind.KNOWN, Kind.NONCE_TOO_LOW))
        silent = [one for one in found if isinstance(one, EnvironmentFault)]
        if refusals and silent:
            raise replace(refusals[0], may_have_arrived=True)
        raise (refusals or silent)[0]

    async def _hand_in(self, endpoint: Endpoint, raw: bytes) -> None:
        try:
            await self._try("eth_sendRawTransaction", ("0x" + raw.hex(),), answers.read_data, [endpoint])
        except ProviderError as error:
            if error.kind in (Kind.BUSY, Kind.BEHIND):
                raise chain_fault(self.place, "a transaction that is taken", error.message) from error
            raise


def or_none(read: Callable[[Any], Answer]) -> Callable[[Any], Answer | None]:
    """Returns what reads an answer that may be null."""
    return lambda found: None if found is None else read(found)


def _tell_silence(error: Exception) -> str:
    """Why no answer came. The text of some errors has the URL in it, and with it a key."""
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{kind}: status {error.status} {show(error.message)}"
    is_url = isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError)
    return kind if is_url else f"{kind}: {tell_reason(error)}"


def chain_fault(place: str, expected: str, actual: str, retryable: bool = True) -> EnvironmentFault:
    """Returns the fault of a chain whose answer is not what it should be."""
    return EnvironmentFault(
        what="the chain does not answer as it should",
        expected=expected,
        actual=actual,
        where=place,
        remedy="Start a chain (`touchstone devnet`), or set `rpc_url` in this home's config.toml to one that "
        "runs (`touchstone init --rpc-url` for a new home).",
        retryable=retryable,
    )
