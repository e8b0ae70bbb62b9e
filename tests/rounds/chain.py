"""The contracts of the round on Anvil: deployed with their bounds, called and read by name."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eth_abi.abi import decode, encode

from tests.rounds.json_rpc import JsonRpc
from touchstone.protocol.adapters.chain.abi import Entry, find_function, load_abi, load_bytecode
from touchstone.protocol.adapters.chain.creation import compute_creation_address, compute_game_code
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, find_receiver
from touchstone.protocol.adapters.chain.headers import encode_header
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.scripts.network.devnet import run_anvil

GAS = 16_700_000
"""of every transaction: just below what one may ask for (EIP-7825)."""
BLOCK_GAS = 600_000_000
MODULES = tuple(GAME_CONTRACTS.values())
"""In the order of their creation: each is told where the others will be."""


@dataclass(frozen=True)
class Sent:
    """A transaction: gas, size of its data in bytes, the least gas that EIP-7623 charges for them, its events
    as (contract, event, values), or the name of the error that refused it."""

    gas: int
    size: int
    floor: int
    events: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    error: str | None = None


class RoundChain:
    """One deployment. Senders are impersonated; each transaction is mined in a block of its own unless
    `gather` is used."""

    def __init__(self, rpc: JsonRpc, bounds: DeploymentBounds) -> None:
        self.ask, self.bounds, self.url = rpc.ask, bounds, rpc.url
        self.ask(
            ("anvil_autoImpersonateAccount", [True]),
            ("evm_setAutomine", [False]),
            ("evm_setBlockGasLimit", [hex(BLOCK_GAS)]),
        )
        self.entries = {name: load_abi(name) for name in ("DevToken", *MODULES)}
        self.owner = str(self.ask(("eth_accounts", []))[0][0])
        self.addresses = self._deploy()
        self._names = {address: name for name, address in self.addresses.items()}
        self._errors = {
            e.selector: e.name for some in self.entries.values() for e in some if e.kind == "error"
        }
        self._events = {e.digest: e for some in self.entries.values() for e in some if e.kind == "event"}

    # Deploying
    def _deploy(self) -> dict[str, str]:
        token = self._create(load_bytecode("DevToken"))
        nonce = int(self.ask(("eth_getTransactionCount", [self.owner, "latest"]))[0], 16)
        where = {name: compute_creation_address(self.owner, nonce + i) for i, name in enumerate(MODULES)}
        where["DevToken"] = where["token"] = token
        for name in MODULES:
            actual = self._create(compute_game_code(name, where, self.bounds))
            if actual != where[name]:
                raise RuntimeError(f"{name}: expected at {where[name]}, created at {actual}")
        return where

    def _create(self, code: bytes) -> str:
        return str(self._mine({"from": self.owner, "data": "0x" + code.hex()})["contractAddress"])

    # Calling
    def _mine(self, transaction: dict[str, str]) -> dict[str, Any]:
        name = self.ask(("eth_sendTransaction", [{"gas": hex(GAS), **transaction}]))[0]
        self.ask(("evm_mine", []))
        receipt: dict[str, Any] = self.ask(("eth_getTransactionReceipt", [name]))[0]
        return receipt

    def find_place(self, contract: str) -> str:
        """Where a contract takes its calls."""
        return self.addresses[find_receiver(contract)]

    def encode(self, contract: str, function: str, *arguments: Any) -> bytes:
        """A call's data."""
        entry = find_function(self.entries[contract], function)
        return entry.selector + encode([parameter.kind for parameter in entry.inputs], arguments)

    def send(self, sender: str, contract: str, function: str, *arguments: Any) -> Sent:
        """The call in a block of its own. A refused one gives the error's name."""
        return self.send_data(sender, contract, self.encode(contract, function, *arguments))

    def send_data(self, sender: str, contract: str, data: bytes) -> Sent:
        """The same of a call that is encoded already."""
        call = {"from": sender, "to": self.find_place(contract), "data": "0x" + data.hex()}
        receipt = self._mine(call)
        floor = 21_000 + 10 * (4 * len(data) - 3 * data.count(0))
        gas, error = int(receipt["gasUsed"], 16), None
        if receipt["status"] != "0x1":
            error = self._find_error(call, receipt["blockNumber"])
        return Sent(gas, len(data), floor, tuple(map(self._decode, receipt["logs"])), error)

    def _find_error(self, call: dict[str, str], block: str) -> str:
        self.ask(("anvil_rollback", [1]))
        try:
            self.ask(("eth_call", [call, "pending"]))
        except RuntimeError as refusal:
            return self._read_error(str(refusal))
        finally:
            self.ask(("evm_mine", []))
        return "OutOfGas"

    def _read_error(self, refusal: str) -> str:
        for selector, name in self._errors.items():
            if selector.hex() in refusal:
                return name
        return refusal

    def _decode(self, log: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        entry = self._events[bytes.fromhex(log["topics"][0][2:])]
        topics = iter(log["topics"][1:])
        data = iter(
            decode([p.kind for p in entry.inputs if not p.is_indexed], bytes.fromhex(log["data"][2:]))
        )
        values = {
            p.name: decode([p.kind], bytes.fromhex(next(topics)[2:]))[0] if p.is_indexed else next(data)
            for p in entry.inputs
        }
        return self._names.get(log["address"], log["address"]), entry.name, values

    def read(self, contract: str, function: str, *arguments: Any) -> Any:
        """What a view answers: one value, or a tuple of several."""
        return self.read_many([(contract, function, *arguments)])[0]

    def read_many(self, views: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What views answer, (contract, function, arguments) each, all asked at once."""
        asked = [
            {
                "to": self.addresses[find_receiver(one[0])],
                "data": "0x" + self.encode(*one).hex(),
                "gas": hex(10**9),
            }
            for one in views
        ]
        answers = self.ask(*(("eth_call", [call, "latest"]) for call in asked))
        return [self._read_answer(*pair) for pair in zip(views, answers, strict=True)]

    def _read_answer(self, view: tuple[Any, ...], answer: str) -> Any:
        outputs = find_function(self.entries[view[0]], view[1]).outputs
        values = decode([parameter.kind for parameter in outputs], bytes.fromhex(answer[2:]))
        return values[0] if len(values) == 1 else values

    # Blocks
    def get_block(self) -> int:
        """The latest block's number: the next transaction is in the one after it."""
        return int(self.ask(("eth_blockNumber", []))[0], 16)

    def mine_to(self, block: int) -> None:
        """Mines until the latest block is `block`."""
        missing = block - self.get_block()
        if missing > 0:
            self.ask(("anvil_mine", [hex(missing)]))

    def get_header(self, block: int) -> tuple[bytes, bytes]:
        """The header of a block as `IRandomness.read` takes it, and the randomness in it."""
        found = self.ask(("eth_getBlockByNumber", [hex(block), False]))[0]
        return encode_header(found), bytes.fromhex(found["mixHash"][2:])

    @contextmanager
    def undone(self) -> Iterator[None]:
        """What happens inside did not happen."""
        before = self.ask(("evm_snapshot", []))[0]
        yield
        self.ask(("evm_revert", [before]))


@contextmanager
def open_round_chain(folder: Path, bounds: DeploymentBounds, hardfork: str = "osaka") -> Iterator[RoundChain]:
    """An Anvil of its own, with the newest rules that it has, until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--enable-tx-gas-limit", "--gas-limit", str(BLOCK_GAS))
    with asyncio.Runner() as runner:
        anvil = run_anvil(0, folder / "anvil.log", options=options, hardfork=hardfork)
        rpc = JsonRpc(runner.run(anvil.__aenter__()))
        try:
            yield RoundChain(rpc, bounds)
        finally:
            rpc.close()
            runner.run(anvil.__aexit__(None, None, None))


def list_functions(entries: Sequence[Entry]) -> list[str]:
    """Names of all functions."""
    return [entry.name for entry in entries if entry.kind == "function"]
