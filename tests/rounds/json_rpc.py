"""JSON-RPC in batches: a play is hundreds of blocks long."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

Request = tuple[str, list[Any]]


class JsonRpc:
    """JSON-RPC over one kept connection. A batch is answered in its order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)

    def ask(self, *requests: Request) -> list[Any]:
        """The results of all requests. Raises RuntimeError where one has none."""
        if not requests:
            return []
        body = [
            {"jsonrpc": "2.0", "id": index, "method": method, "params": parameters}
            for index, (method, parameters) in enumerate(requests)
        ]
        self._connection.request("POST", "/", json.dumps(body), {"Content-Type": "application/json"})
        answers = {one["id"]: one for one in json.loads(self._connection.getresponse().read())}
        for index, (method, _) in enumerate(requests):
            if "error" in answers[index]:
                raise RuntimeError(f"{method}: {answers[index]['error']}")
        return [answers[index]["result"] for index in range(len(requests))]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
