"""JSON-RPC over one aiohttp session: the transport below web3.

web3's own AsyncHTTPProvider takes a thread lock in a helper thread for each request; a request that is
cancelled at that moment leaves it taken, and every later one of the process waits for ever
(docs/decisions/0009-http-below-web3.md).
"""

import asyncio
from typing import Any

import aiohttp
from web3.providers.async_base import AsyncJSONBaseProvider
from web3.providers.rpc.utils import check_if_retry_on_failure
from web3.types import RPCEndpoint, RPCResponse

ATTEMPTS = 3
"""Of a request that changes nothing when it is sent twice."""
FIRST_PAUSE_S = 0.125
HEADERS = {"Content-Type": "application/json"}


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
            return self.decode_rpc_response(await response.read())

    async def disconnect(self) -> None:
        """Close the session; a later request opens another."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
