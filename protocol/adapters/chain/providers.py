"""The endpoints of one chain as one: who is asked, how often, and what stands in for no answer.

One endpoint answers for another that is silent, busy, behind, or refuses in its own words; only a revert is
the contract's own. One that was silent is left out for a while. An answer of another form than its own counts
as none, and is asked for again. Logs are asked of two endpoints, and a transaction goes to all.
"""

import asyncio
import math
import time
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import aiohttp

from touchstone.protocol.adapters.chain import answers
from touchstone.protocol.adapters.chain.answers import MalformedAnswer
from touchstone.protocol.adapters.chain.endpoint_health import NoAnswer, RpcHealth
from touchstone.protocol.adapters.chain.provider_errors import Kind, ProviderError
from touchstone.protocol.adapters.chain.refusals import explain_revert
from touchstone.protocol.adapters.chain.rpc import Endpoint
from touchstone.protocol.adapters.wire.peer import show
from touchstone.protocol.adapters.wire.peer_faults import describe_reason
from touchstone.protocol.spec.errors import EnvironmentFault

Answer = TypeVar("Answer")

ATTEMPTS = 3
"""Of a request that changes nothing when it is sent twice, at each endpoint."""
FRESH_ATTEMPTS = 8
"""Of a request that only a backend may answer that has a certain block."""
GRACE_SHARE, LONG_GRACE_SHARE = 0.05, 0.25
"""Of the time of one request: so long the others are waited for once one endpoint has answered; for logs the
second."""
BATCH_REFUSALS, NO_BATCHES_S = 3, 300.0
"""A gateway that restarts refuses several requests at once too: only so many refusals in a row count, and for
so long."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.125, 0.5
REVERTING = ("eth_call", "eth_estimateGas", "eth_sendRawTransaction")
"""Requests that a contract itself may refuse."""
REPEATABLE = ("eth_", "net_", "web3_", "debug_")
"""Requests that change nothing when they are sent twice. A signed transaction is one: its hash is its own."""


class Providers:
    """Asks the endpoints of one chain. Close it in the end."""

    def __init__(self, rpc_urls: Sequence[str], timeout_s: float) -> None:
        """rpc_urls: at least one; timeout_s: of one attempt."""
        self.endpoints = [Endpoint(url, timeout_s) for url in dict.fromkeys(rpc_urls)]
        self.health = RpcHealth()
        self.lacks: set[str] = set()
        """What the provider has refused as unsupported: methods, `pending`, `batches`."""
        self._timeout_s = timeout_s
        self._batch_refusals = 0
        self._no_batches_until_s = 0.0

    @property
    def place(self) -> str:
        """Where the endpoints are, as errors and logs name them."""
        return ", ".join(endpoint.place for endpoint in self.endpoints)

    async def close(self) -> None:
        """Closes the HTTP sessions."""
        for endpoint in self.endpoints:
            await endpoint.close()

    async def ask(
        self,
        method: str,
        parameters: Sequence[object],
        read: Callable[[Any], Answer],
        where: str = "",
        floor: int = 0,
        endpoints: Sequence[Endpoint] = (),
    ) -> Answer:
        """As `_try`, of all endpoints if none are named. Raises EnvironmentFault, and ContractRefused if the
        contract reverts."""
        try:
            return await self._try(method, parameters, read, endpoints or self._order(), floor=floor)
        except ProviderError as error:
            if error.kind is Kind.REVERTED:
                raise explain_revert(error.data, where) from None
            is_hopeful = error.kind in (Kind.BUSY, Kind.BEHIND)
            expected = "a result" if method.startswith("eth_") else f"an answer to {method}"
            raise chain_fault(self.place, expected, error.message, retryable=is_hopeful) from error

    async def ask_everywhere(
        self, method: str, parameters: Sequence[object], read: Callable[[Any], Answer]
    ) -> list[tuple[Endpoint, Answer | None]]:
        """Returns what each endpoint answers that does, all asked at once; None if it lacks the block. One
        that does not answer soon after another one has, or refuses, is left out. Raises EnvironmentFault
        if none answers."""
        asked = [one for one in self.endpoints if not one.away_s] or self.endpoints
        asking = {one: self._find_at(one, method, parameters, read) for one in asked}
        found = await self._gather(asking, self._timeout_s * GRACE_SHARE)
        return [(one, answer) for one, (answer,) in found.items()]

    async def _find_at(
        self, endpoint: Endpoint, method: str, parameters: Sequence[object], read: Callable[[Any], Answer]
    ) -> tuple[Answer | None]:
        try:
            return (await self._try(method, parameters, read, [endpoint]),)
        except ProviderError as error:
            if error.kind is Kind.BEHIND:
                return (None,)
            raise chain_fault(endpoint.place, "an answer", error.message) from error

    async def _gather(
        self, asking: Mapping[Endpoint, Coroutine[Any, Any, Answer]], grace_s: float
    ) -> dict[Endpoint, Answer]:
        """Returns the answers that come, at the latest `grace_s` after the first. An endpoint that says
        nothing until then rests. Raises EnvironmentFault if none answers."""
        tasks = {asyncio.ensure_future(one): endpoint for endpoint, one in asking.items()}
        found, silent, pending = dict[Endpoint, Answer](), list[Endpoint](), set(tasks)
        last: EnvironmentFault | None = None
        end_s = math.inf
        try:
            while pending and (left_s := end_s - time.monotonic()) > 0:
                timeout_s = None if left_s == math.inf else left_s
                done, pending = await asyncio.wait(pending, timeout=timeout_s, return_when=FIRST_COMPLETED)
                for task in done:
                    try:
                        found[tasks[task]] = task.result()
                    except EnvironmentFault as fault:
                        last = fault
                        if not isinstance(fault.__cause__, ProviderError):
                            silent.append(tasks[task])
                if found and end_s == math.inf:
                    end_s = time.monotonic() + grace_s
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in pending:
            self.health.note_error(TimeoutError())
            silent.append(tasks[task])
        if not found:
            assert last is not None, "each endpoint has answered or failed"
            raise last
        for endpoint in silent:
            endpoint.rest()
        return {endpoint: found[endpoint] for endpoint in asking if endpoint in found}

    async def ask_two(
        self, calls: Sequence[tuple[str, Sequence[object]]], read: Callable[[Any], Answer], block: int
    ) -> Answer:
        """Asks two endpoints as `ask_together` does, if two answer and have `block`. Raises AnswersDiffer if
        they answer differently: nobody can tell which one is right."""
        able = [one for one in self._order() if not one.away_s and (one.head is None or one.head >= block)]
        if len(able) < 2:
            return await self.ask_together(calls, read)
        asking = {one: self.ask_together(calls, read, [one]) for one in able[:2]}
        try:
            found = await self._gather(asking, self._timeout_s * LONG_GRACE_SHARE)
        except EnvironmentFault:
            return await self.ask_together(calls, read)
        if len(found) == 2:
            (first, one), (second, other) = found.items()
            if one != other:
                raise _different_logs(block, first, second)
        return next(iter(found.values()))

    async def ask_together(
        self,
        calls: Sequence[tuple[str, Sequence[object]]],
        read: Callable[[Any], Answer],
        endpoints: Sequence[Endpoint] = (),
    ) -> Answer:
        """As `ask` for requests that one backend answers; one after the other if the provider takes no
        several at once."""
        if self._takes_batches():
            try:
                found = await self._try("eth_", calls, read, endpoints or self._order(), is_batch=True)
                self._note_batch(is_taken=True)
                return found
            except ProviderError as error:
                if error.kind in (Kind.BUSY, Kind.BEHIND, Kind.TOO_MUCH):
                    is_hopeful = error.kind is not Kind.TOO_MUCH
                    raise chain_fault(self.place, "a result", error.message, retryable=is_hopeful) from error
                if error.kind is Kind.UNSUPPORTED:
                    self._note_batch(is_taken=False)
        single = [
            await self.ask(method, asked, lambda one: one, endpoints=endpoints) for method, asked in calls
        ]
        try:
            return _read(read, single)
        except MalformedAnswer as error:
            raise chain_fault(self.place, "a result", str(error)) from None

    def _takes_batches(self) -> bool:
        return time.monotonic() >= self._no_batches_until_s

    def _note_batch(self, *, is_taken: bool) -> None:
        """Notes whether the provider takes several requests at once."""
        self._batch_refusals = 0 if is_taken else self._batch_refusals + 1
        if is_taken:
            self.lacks.discard("batches")
        elif self._batch_refusals >= BATCH_REFUSALS:
            self.lacks.add("batches")
            self._no_batches_until_s = time.monotonic() + NO_BATCHES_S

    async def ask_pending(
        self, method: str, what: object, read: Callable[[Any], int], where: str = "", floor: int = 0
    ) -> int:
        """Returns the answer as of the pending block; as of the latest if the provider has no pending one."""
        if "pending" not in self.lacks:
            try:
                return await self._try(method, (what, "pending"), read, self._order(), floor=floor)
            except ProviderError as error:
                if error.kind is Kind.REVERTED:
                    raise explain_revert(error.data, where) from None
                if error.kind is Kind.UNSUPPORTED:
                    self.lacks.add("pending")
        return await self.ask(method, (what, "latest"), read, where, floor)

    async def ask_if_known(
        self, method: str, parameters: Sequence[object], read: Callable[[Any], Answer]
    ) -> Answer | None:
        """Returns the answer; None if the provider does not have the method."""
        if method in self.lacks:
            return None
        try:
            return await self._try(method, parameters, read, self._order())
        except ProviderError as error:
            if error.kind in (Kind.BUSY, Kind.BEHIND):
                raise chain_fault(self.place, f"an answer to {method}", error.message) from error
            if error.kind is Kind.UNSUPPORTED:
                self.lacks.add(method)
            return None

    async def ask_if_there(
        self, method: str, parameters: Sequence[object], read: Callable[[Any], Answer]
    ) -> Answer | None:
        """Returns the answer; None if it is null, or the provider has not indexed it yet."""
        try:
            return await self.ask(method, parameters, or_none(read))
        except EnvironmentFault as fault:
            if isinstance(fault.__cause__, ProviderError) and fault.__cause__.kind is Kind.BEHIND:
                return None
            raise

    def _order(self) -> list[Endpoint]:
        """Returns the endpoints in the order in which to ask. Last come those that were silent, want to be
        left alone, or are behind the block that is followed."""
        followed = self.health.head.number if self.health.head else 0
        return sorted(
            self.endpoints, key=lambda one: (one.away_s, one.head is not None and one.head < followed)
        )

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
        """Returns the first answer of the form that `read` takes. floor: of a backend that has this block.
        Raises ProviderError for a revert, and for the words of a provider if no endpoint answers; raises
        EnvironmentFault if nothing came that is an answer."""
        is_repeatable = method.startswith(REPEATABLE)
        attempts = 1 if not is_repeatable else FRESH_ATTEMPTS if floor else ATTEMPTS
        asked = list(endpoints if is_repeatable else endpoints[:1])
        refusals = list[ProviderError]()
        last: Exception = NoAnswer("no endpoint is named")
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))
            for endpoint in list(asked):
                try:
                    await self._wait_until_free(endpoint)
                    if is_batch:
                        found = _read(read, await endpoint.ask_together(parameters))
                    else:
                        found = _read(read, await self._ask_one(endpoint, method, parameters, floor))
                except ProviderError as error:
                    if error.kind is Kind.REVERTED and method in REVERTING:
                        self.health.note_answer()
                        raise
                    last = error
                    if error.kind not in (Kind.BUSY, Kind.BEHIND):
                        # Asking this one again does not help; another one may know the method, or the key.
                        is_odd = error.kind is Kind.REVERTED
                        refusals.append(replace(error, kind=Kind.REFUSED) if is_odd else error)
                        asked.remove(endpoint)
                except MalformedAnswer as error:
                    last = NoAnswer(str(error))
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    last = error
                    if isinstance(error, TimeoutError):
                        endpoint.rest()
                else:
                    self.health.note_answer()
                    if len(endpoints) > 1:
                        self._prefer(endpoint)
                    return found
                self.health.note_error(last)
            if not asked:
                break
        # What can be asked otherwise is; else there is hope while one has not refused.
        refusals.sort(key=lambda one: one.kind not in (Kind.TOO_MUCH, Kind.UNSUPPORTED))
        if refusals and (not asked or refusals[0].kind in (Kind.TOO_MUCH, Kind.UNSUPPORTED)):
            raise refusals[0]
        if isinstance(last, ProviderError):
            raise last
        raise chain_fault(self.place, "a chain that answers", _describe_silence(last)) from None

    async def _ask_one(self, endpoint: Endpoint, method: str, parameters: Sequence[Any], floor: int) -> Any:
        """Returns the result of a request. A backend that tells how far it is with it is asked again if it
        lacks block `floor`: it would answer, or refuse, for a state before what this node has read or
        sent."""
        if not floor or not self._takes_batches():
            return await endpoint.ask(method, parameters)
        try:
            number, found = await endpoint.ask_each([("eth_blockNumber", ()), (method, parameters)])
        except ProviderError as error:
            if error.kind is not Kind.UNSUPPORTED:
                raise
            self._note_batch(is_taken=False)
            return await endpoint.ask(method, parameters)
        self._note_batch(is_taken=True)
        if isinstance(number, ProviderError):
            raise number
        if (head := answers.read_number(number)) < floor:
            raise ProviderError(Kind.BEHIND, f"the head is {head}, and block {floor} is known")
        if isinstance(found, ProviderError):
            raise found
        return found

    def _prefer(self, endpoint: Endpoint) -> None:
        """Asks the one that answers first from now on."""
        if self.endpoints[0] is not endpoint and len(self.endpoints) > 1:
            self.endpoints.remove(endpoint)
            self.endpoints.insert(0, endpoint)

    async def _wait_until_free(self, endpoint: Endpoint) -> None:
        """Waits while the provider wants to be left alone. Raises ProviderError if that is longer than one
        request may take."""
        wait_s = endpoint.free_s - time.monotonic()
        if wait_s > self._timeout_s:
            raise ProviderError(Kind.BUSY, f"the provider wants to be left alone for {wait_s:.0f} s more")
        await asyncio.sleep(max(0.0, wait_s))

    async def broadcast(self, raw: bytes) -> None:
        """Hands in a signed transaction at every endpoint. Raises ProviderError if all that answer refuse it,
        with `may_have_arrived` if one was silent, and EnvironmentFault if none answers: it may have arrived
        nevertheless."""
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


class AnswersDiffer(EnvironmentFault):
    """Two endpoints answer differently. The node waits: nobody can tell which one is right."""


def _different_logs(block: int, first: Endpoint, second: Endpoint) -> AnswersDiffer:
    return AnswersDiffer(
        what="two endpoints show different logs of the same blocks",
        expected=f"the same logs up to block {block}",
        actual="different ones",
        where=f"{first.place} and {second.place}",
        remedy="The node waits until both show the same. Find out which one is wrong, by a third "
        "one, and take it out of `rpc_urls` in this home's config.toml.",
    )


def _read(read: Callable[[Any], Answer], found: Any) -> Answer:
    """Returns what `read` makes of an answer. Raises MalformedAnswer, whatever it raises: no answer may end a
    node."""
    try:
        return read(found)
    except MalformedAnswer:
        raise
    except EnvironmentFault as fault:
        raise MalformedAnswer(f"{fault.what}: {fault.where}") from fault
    except Exception as error:
        raise MalformedAnswer(f"what came cannot be read: {type(error).__name__}") from error


def or_none(read: Callable[[Any], Answer]) -> Callable[[Any], Answer | None]:
    """Returns what reads an answer that may be null."""
    return lambda found: None if found is None else read(found)


def _describe_silence(error: Exception) -> str:
    """Returns why no answer came. The text of some errors has the URL in it, and with it a key."""
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{kind}: status {error.status} {show(error.message)}"
    is_url = isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError)
    return kind if is_url else f"{kind}: {describe_reason(error)}"


def chain_fault(place: str, expected: str, actual: str, retryable: bool = True) -> EnvironmentFault:
    """Returns the fault of a chain whose answer is not what it should be."""
    return EnvironmentFault(
        what="the chain does not answer as it should",
        expected=expected,
        actual=actual,
        where=place,
        remedy="Set `rpc_url` in this home's config.toml to an endpoint that answers (`touchstone init "
        "--rpc-url` for a new home). `touchstone devnet` runs a test network.",
        retryable=retryable,
    )
