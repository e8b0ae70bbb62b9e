"""A real Anvil on which a test says which transactions share a block, and reads what became of each.

Nobody signs here: Anvil is asked to impersonate the senders. Requests go in batches, because a sequence of
the vectors is hundreds of blocks long.
"""

import asyncio
import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from protocol.adapters.chain.abi import Entry, find_function, load_abi
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.deployment import Deployment
from protocol.adapters.chain.erc20 import ERC20_ABI
from protocol.adapters.chain.headers import encode_header
from protocol.adapters.chain.logs import EventReader
from protocol.adapters.chain.refusals import explain_revert
from protocol.adapters.chain.values import decode_values, encode_call
from protocol.spec.events import Event
from scripts.creation import DEV_TOKEN
from tests.e2e.first_devnet import UNBONDING_BLOCKS, DevnetOptions, run_devnet

GAS = 16_000_000
"""of every transaction: below the cap of one (EIP-7825), far above what any call of the tiny world takes."""
GAS_PRICE_WEI = 10**11
"""Equal for all: Anvil then keeps the order in which transactions of one block were sent."""
BLOCK_GAS = 10**9
COIN_WEI = 10**24

Request = tuple[str, list[Any]]


class JsonRpc:
    """JSON-RPC over one kept connection. A batch is answered in its order."""

    def __init__(self, url: str) -> None:
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


@dataclass(frozen=True)
class Sending:
    """One transaction: `function` of the contract called `contract` (Solidity names)."""

    sender: str
    contract: str
    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a transaction: the refusal's name (None: accepted) with its values, or the events;
    and the gas that it took."""

    error: str | None
    values: dict[str, Any]
    events: tuple[Event, ...]
    gas: int = 0


class TwinChain:
    """The contracts on Anvil. Blocks are made by `mine` and `mine_to` only."""

    def __init__(self, rpc: JsonRpc, deployment: Deployment, rpc_url: str = "") -> None:
        """rpc_url: where others find the same Anvil."""
        self.deployment, self.rpc_url = deployment, rpc_url
        self._rpc = rpc
        # It decodes only; nothing is read through it.
        self._reader = EventReader(cast(Connection, None), deployment)
        self._rpc.ask(
            ("evm_setAutomine", [False]),
            ("anvil_autoImpersonateAccount", [True]),
            ("evm_setBlockGasLimit", [hex(BLOCK_GAS)]),
        )
        self.head = 0
        self.read_head()

    # Blocks -------------------------------------------------------------------------------------------------
    def read_head(self) -> int:
        """Asks for the latest block's number, which is then kept in `head`."""
        self.head = int(self._rpc.ask(("eth_blockNumber", []))[0], 16)
        return self.head

    def mine_to(self, block: int) -> None:
        """Empty blocks up to and with `block`."""
        missing = block - self.head
        assert missing >= 0, f"block {block} is behind the head"
        if missing:
            self._rpc.ask(("anvil_mine", [hex(missing)]))
            self.head = block

    @contextmanager
    def mining_at_once(self) -> Iterator[None]:
        """Until the block ends each transaction gets a block of its own as soon as it is sent, by others
        too."""
        self._rpc.ask(("evm_setAutomine", [True]))
        try:
            yield
        finally:
            self._rpc.ask(("evm_setAutomine", [False]))
            self.read_head()

    def fix_randomness(self, is_wanted: Callable[[bytes], bool], attempts: int) -> None:
        """From now on every block's randomness is the same word, the first that is wanted. Anvil deals one to
        each block number, which cannot be changed, so the contract that reads it is replaced."""
        for attempt in range(attempts):
            word = sha256(b"randomness %d" % attempt).digest()
            if is_wanted(word):
                self._rpc.ask(
                    ("anvil_setCode", [self.deployment.randomness, "0x" + answer_always(word).hex()])
                )
                return
        raise RuntimeError(f"no wanted word among {attempts}")

    def mine(self, sendings: Sequence[Sending]) -> list[Outcome]:
        """All of `sendings`, in their order, in the next block."""
        hashes = self._rpc.ask(*(("eth_sendTransaction", [self._to_transaction(one)]) for one in sendings))
        self._rpc.ask(("evm_mine", []))
        self.head += 1
        receipts = self._rpc.ask(*(("eth_getTransactionReceipt", [one]) for one in hashes))
        places = [(int(one["blockNumber"], 16), int(one["transactionIndex"], 16)) for one in receipts]
        assert places == [(self.head, index) for index in range(len(sendings))], places
        return [self._to_outcome(*pair) for pair in zip(sendings, receipts, strict=True)]

    def _to_transaction(self, sending: Sending) -> dict[str, str]:
        entry, address = self._find(sending.contract, sending.function)
        return {
            "from": sending.sender,
            "to": address,
            "data": "0x" + encode_call(entry, sending.arguments).hex(),
            "gas": hex(GAS),
            "gasPrice": hex(GAS_PRICE_WEI),
        }

    def _to_outcome(self, sending: Sending, receipt: dict[str, Any]) -> Outcome:
        where = f"{sending.contract}.{sending.function}"
        gas = int(receipt["gasUsed"], 16)
        if int(receipt["status"], 16):
            logs = [_to_log(log) for log in receipt["logs"]]
            return Outcome(None, {}, tuple(event.typed for event in self._reader.decode(logs)), gas)
        request = ("debug_traceTransaction", [receipt["transactionHash"], {"tracer": "callTracer"}])
        data = self._rpc.ask(request)[0].get("output", "0x")
        refusal = explain_revert(_to_bytes(data), where)
        return Outcome(refusal.name, refusal.values, (), gas)

    # Reading ------------------------------------------------------------------------------------------------
    def read(self, contract: str, function: str, *arguments: Any) -> Any:
        """What a view answers: one value, or a list of them."""
        return self.read_all([(contract, function, arguments)])[0]

    def read_all(self, questions: Sequence[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
        """What several views answer, as of the latest block."""
        entries = [self._find(contract, function) for contract, function, _ in questions]
        calls = [
            {"to": address, "data": "0x" + encode_call(entry, arguments).hex()}
            for (entry, address), (_, _, arguments) in zip(entries, questions, strict=True)
        ]
        answers = self._rpc.ask(*(("eth_call", [call, "latest"]) for call in calls))
        decoded = [
            decode_values(entry.outputs, _to_bytes(answer))
            for (entry, _), answer in zip(entries, answers, strict=True)
        ]
        return [values[0] if len(values) == 1 else values for values in decoded]

    def _find(self, contract: str, function: str) -> tuple[Entry, str]:
        if contract in ("IERC20", DEV_TOKEN):
            entries = ERC20_ABI if contract == "IERC20" else load_abi(DEV_TOKEN)
            return find_function(entries, function), self.deployment.token
        return find_function(load_abi(f"I{contract}"), function), self.deployment.address_of(contract)

    def count_sent(self, account: str) -> int:
        """Transactions of an account that are mined."""
        return int(self._rpc.ask(("eth_getTransactionCount", [account, "latest"]))[0], 16)

    def read_header(self, number: int) -> bytes:
        """The header of a block, empty above the head."""
        block = self._rpc.ask(("eth_getBlockByNumber", [hex(number), False]))[0]
        return encode_header(block) if block else b""

    # Money and time travel ----------------------------------------------------------------------------------
    def fund(self, accounts: Sequence[str], wealth_wei: int) -> None:
        """Coin, `wealth_wei` DevTokens and an allowance of them to the vault, for each account."""
        self._rpc.ask(*(("anvil_setBalance", [one, hex(COIN_WEI)]) for one in accounts))
        vault = self.deployment.vault
        sendings = [Sending(one, DEV_TOKEN, "mint", (one, wealth_wei)) for one in accounts]
        sendings += [Sending(one, "IERC20", "approve", (vault, wealth_wei)) for one in accounts]
        assert not any(one.error for one in self.mine(sendings))

    def snapshot(self) -> str:
        """A name for the state as it is now."""
        return str(self._rpc.ask(("evm_snapshot", []))[0])

    def revert(self, snapshot: str) -> None:
        """Back to that state; the name is used up."""
        assert self._rpc.ask(("evm_revert", [snapshot]))[0] is True
        self.read_head()


@contextmanager
def open_twin_chain(folder: Path, unbonding_blocks: int = UNBONDING_BLOCKS) -> Iterator[TwinChain]:
    """A fresh Anvil with the contracts on it, until the block ends; its files go to `folder`."""
    path, log = folder / "deployment.json", folder / "anvil.log"
    options = DevnetOptions(path=path, log=log, unbonding_blocks=unbonding_blocks)
    with asyncio.Runner() as runner:
        devnet = run_devnet(options, report=lambda line: None)
        running = runner.run(devnet.__aenter__())
        rpc = JsonRpc(running.rpc_url)
        try:
            yield TwinChain(rpc, running.deployment, running.rpc_url)
        finally:
            rpc.close()
            runner.run(devnet.__aexit__(None, None, None))


def answer_always(word: bytes) -> bytes:
    """Code that returns `word` (32 bytes) to every call: PUSH32, MSTORE at 0, RETURN of 32 bytes."""
    return b"\x7f" + word + bytes.fromhex("5f5260205ff3")


def _to_log(log: dict[str, Any]) -> dict[str, Any]:
    return {
        "address": log["address"],
        "topics": [_to_bytes(topic) for topic in log["topics"]],
        "data": _to_bytes(log["data"]),
        "blockNumber": int(log["blockNumber"], 16),
        "logIndex": int(log["logIndex"], 16),
        "blockHash": _to_bytes(log["blockHash"]),
        "transactionHash": _to_bytes(log["transactionHash"]),
    }


def _to_bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
