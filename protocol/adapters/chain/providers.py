"""Treats the endpoints of one chain as one: whom to ask, how often, and what to do without an answer.

If an endpoint is silent, busy, behind, or refuses in its own words, another one is asked; only a revert comes
from the contract. A silent endpoint is skipped for a while. An answer in a wrong form counts as none, and the
question is repeated. Logs are asked of two endpoints, and a transaction goes to all.
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
"""Attempts at each endpoint, for a request that may be sent twice without harm."""
FRESH_ATTEMPTS = 8
"""Attempts of a request that only a backend with a certain block can answer."""
GRACE_SHARE, LONG_GRACE_SHARE = 0.05, 0.25
"""After the first answer the other endpoints get this share of a request's time to answer: GRACE_SHARE, for
logs LONG_GRACE_SHARE."""
BATCH_REFUSALS, NO_BATCHES_S = 3, 300.0
"""After BATCH_REFUSALS refused batches in a row, no batch is sent for NO_BATCHES_S seconds. Fewer may come
from a gateway that restarts."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.125, 0.5
REVERTING = ("eth_call", "eth_estimateGas", "eth_sendRawTransaction")
"""Requests that a contract itself may refuse, by a revert."""
REPEATABLE = ("eth_", "net_", "web3_", "debug_")
"""Requests that may be sent twice without harm. A signed transaction is one of them, because its hash
identifies it."""


class Providers:
    """Asks the endpoints of one chain. Close it at the end."""

    def __init__(self, rpc_urls: Sequence[str], timeout_s: float) -> None:
        """Opens the endpoints. `rpc_urls` is at least one; `timeout_s` is the time of one attempt."""
        self.endpoints = [Endpoint(url, timeout_s) for url in dict.fromkeys(rpc_urls)]
        self.health = RpcHealth()
        self.lacks: set[str] = set()
        """What the provider says that it does not support: methods, `pending`, `batches`."""
        self._timeout_s = timeout_s
        self._batch_refusals = 0
        self._no_batches_until_s = 0.0

    @property
    def place(self) -> str:
        """Names the endpoints in errors and logs."""
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
        """Asks as `_try`, by default all endpoints. Raises EnvironmentFault, and ContractRefused if the
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
        """Asks all endpoints at once, and returns each answer; None from one that lacks the block. Endpoints
        that refuse, or are much slower than the first, are left out. Raises EnvironmentFault if none
        answers."""
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
        """Returns the answers that come within `grace_s` after the first. Endpoints without an answer by then
        are skipped for a while. Raises EnvironmentFault if none answers."""
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
        """Asks two endpoints as `ask_together` does, or one if no second one answers and has `block`. Raises
        AnswersDiffer if their answers differ, because nobody can tell which one is right."""
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
        """Asks several requests of one backend, as `ask` does; one after the other if the provider takes no
        batches."""
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
        """Notes whether the provider takes batches."""
        self._batch_refusals = 0 if is_taken else self._batch_refusals + 1
        if is_taken:
            self.lacks.discard("batches")
        elif self._batch_refusals >= BATCH_REFUSALS:
            self.lacks.add("batches")
            self._no_batches_until_s = time.monotonic() + NO_BATCHES_S

    async def ask_pending(
        self, method: str, what: object, read: Callable[[Any], int], where: str = "", floor: int = 0
    ) -> int:
        """Returns the answer as of the pending block, or of the latest block if the provider has no pending
        one."""
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
        """Returns the answer; None if the provider does not know the method."""
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
        """Returns the endpoints in the order in which to ask. Those that were silent, ask for a pause, or are
        behind the followed block come last."""
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
        """Returns the first answer that `read` accepts. `floor` is a block that the backend must have. Raises
        ProviderError for a revert, or if all endpoints refuse; raises EnvironmentFault if no valid answer
        came."""
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
                        # Asking this one again does not help, but another one may know the method, or accept
                        # the key.
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
        # If the question can be asked otherwise, the caller does; else one may still answer that has not
        # refused.
        refusals.sort(key=lambda one: one.kind not in (Kind.TOO_MUCH, Kind.UNSUPPORTED))
        if refusals and (not asked or refusals[0].kind in (Kind.TOO_MUCH, Kind.UNSUPPORTED)):
            raise refusals[0]
        if isinstance(last, ProviderError):
            raise last
        raise chain_fault(self.place, "a chain that answers", _describe_silence(last)) from None

    async def _ask_one(self, endpoint: Endpoint, method: str, parameters: Sequence[Any], floor: int) -> Any:
        """Returns the result of a request. If the backend reports a head below `floor`, it is asked again,
        because it would answer for a state that is too old."""
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
            raise ProviderError(Kind.BEHIND, f"its head is {head}, but block {floor} is known to exist")
        if isinstance(found, ProviderError):
            raise found
        return found

    def _prefer(self, endpoint: Endpoint) -> None:
        """Asks this endpoint first from now on."""
        if self.endpoints[0] is not endpoint and len(self.endpoints) > 1:
            self.endpoints.remove(endpoint)
            self.endpoints.insert(0, endpoint)

    async def _wait_until_free(self, endpoint: Endpoint) -> None:
        """Waits while the provider asks for a pause. Raises ProviderError if the pause is longer than one
        request may take."""
        wait_s = endpoint.free_s - time.monotonic()
        if wait_s > self._timeout_s:
            raise ProviderError(Kind.BUSY, f"the provider asks for a pause of {wait_s:.0f} s more")
        await asyncio.sleep(max(0.0, wait_s))

    async def broadcast(self, raw: bytes) -> None:
        """Sends a signed transaction to every endpoint. Raises ProviderError if every endpoint that answers
        refuses it, with `may_have_arrived` if one was silent. Raises EnvironmentFault if none answers; it may
        have arrived nevertheless."""
        sending = (self._hand_in(endpoint, raw) for endpoint in self.endpoints)
        found = await asyncio.gather(*sending, return_exceptions=True)
        if None in found:
            return
        for error in found:
            if not isinstance(error, ProviderError | EnvironmentFault) and error is not None:
                raise error
        refusals = [one for one in found if isinstance(one, ProviderError)]
        # If one endpoint already has the transaction, refusals of others do not count.
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
                raise chain_fault(self.place, "a transaction that is accepted", error.message) from error
            raise


class AnswersDiffer(EnvironmentFault):
    """Two endpoints answer differently. The node waits, because it cannot tell which one is right."""


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
    """Returns the answer as read by `read`. Any error of `read` becomes MalformedAnswer, because no answer
    may end a node."""
    try:
        return read(found)
    except MalformedAnswer:
        raise
    except EnvironmentFault as fault:
        raise MalformedAnswer(f"{fault.what}: {fault.where}") from fault
    except Exception as error:
        raise MalformedAnswer(f"the answer cannot be read: {type(error).__name__}") from error


def or_none(read: Callable[[Any], Answer]) -> Callable[[Any], Answer | None]:
    """Returns a reader for answers that may be null."""
    return lambda found: None if found is None else read(found)


def _describe_silence(error: Exception) -> str:
    """Returns why no answer came. It hides the text of some errors, because the URL in it may hold a key."""
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{kind}: status {error.status} {show(error.message)}"
    is_url = isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError)
    return kind if is_url else f"{kind}: {describe_reason(error)}"


def chain_fault(place: str, expected: str, actual: str, retryable: bool = True) -> EnvironmentFault:
    """Returns the error for a chain whose answer is wrong."""
    return EnvironmentFault(
        what="the chain does not answer as it should",
        expected=expected,
        actual=actual,
        where=place,
        remedy="Set `rpc_url` in this home's config.toml to an endpoint that answers (`touchstone init "
        "--rpc-url` for a new home). `touchstone devnet` runs a test network.",
        retryable=retryable,
    )
