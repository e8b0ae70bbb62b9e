"""What sends a node's upkeep, on the contracts of `chain.py`: of a real account, whose transactions the test
mines one by one."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from tests.kit.nodes import make_view
from tests.rounds.chain import RoundChain, Sent
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.view import View
from touchstone.node.upkeep.upkeep_duties import Upkeep
from touchstone.protocol.adapters.chain.abi import Entry, load_own_abi, to_snake_case
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.adapters.chain.answers import Head, read_logs
from touchstone.protocol.adapters.chain.contract_events import AbiRegistry, Event, decode_log, make_registry
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.spec.typed_data import SigningDomain


class SentContract:
    """A contract whose functions are sent by one account, encoded as a node encodes them. What came of each
    is in `sent`."""

    def __init__(self, chain: RoundChain, name: str, sender: str, sent: list[Sent]) -> None:
        self.address = chain.addresses[name]
        self._chain, self._name, self._sender, self._sent = chain, name, sender, sent
        self._functions = {to_snake_case(e.name): e for e in load_own_abi(name) if e.kind == "function"}

    def encode(self, name: str, *arguments: Any) -> bytes:
        """As `Contract.encode`."""
        return encode_call(self._functions[name], arguments)

    async def estimate_gas(self, name: str, *arguments: Any) -> int:
        """As `Contract.estimate_gas`; what a play sends too early is refused once it is sent."""
        data = "0x" + self.encode(name, *arguments).hex()
        try:
            call = {"from": self._sender, "to": self.address, "data": data}
            return int(self._chain.ask(("eth_estimateGas", [call]))[0], 16)
        except RuntimeError:
            return 0

    def __getattr__(self, name: str) -> Any:
        entry: Entry = self._functions[name]

        async def send(*arguments: Any) -> None:
            self._sent.append(self._chain.send_data(self._sender, self._name, encode_call(entry, arguments)))

        return send


@dataclass
class Watcher:
    """Folds what the chain logs into a state, batch after batch."""

    chain: RoundChain
    state: ChainState
    registry: AbiRegistry

    def catch_up(self) -> ChainState:
        """The state up to the latest block."""
        latest = self.chain.get_block()
        if latest == self.state.head_block:
            return self.state
        span = {"fromBlock": hex(self.state.head_block + 1), "toBlock": hex(latest)}
        logs = self.chain.ask(("eth_getLogs", [{"address": list(self.registry.contracts), **span}]))[0]
        events = tuple(self._read(log) for log in logs)
        self.state.take(LogBatch(Head(latest, b"", b"", 0, 0), events))
        return self.state

    def _read(self, log: dict[str, Any]) -> Event:
        one = decode_log(self.registry, read_logs([log])[0])
        assert one is not None
        place = (int(log["blockNumber"], 16), int(log["logIndex"], 16), b"")
        return Event(one.contract, one.name, one.arguments, *place, bytes.fromhex(log["transactionHash"][2:]))


def make_watcher(chain: RoundChain, account: str, signing: SigningDomain) -> Watcher:
    """One that has read nothing yet."""
    registry = make_registry({chain.addresses[name]: name for name in GAME_CONTRACTS.values()})
    return Watcher(chain, ChainState(account, chain.bounds, signing), registry)


def make_node(chain: RoundChain, account: str, state: ChainState, task: bytes) -> tuple[Upkeep, list[Sent]]:
    """What sends upkeep of a task as `account`, and what came of its transactions."""
    sent: list[Sent] = []
    contracts = {
        field: SentContract(chain, name, account, sent)
        for field, name in GAME_CONTRACTS.items()
        if name not in ("Referee", "BlockRandomness")
    }

    async def prove_header(block: int) -> bytes:
        """Nothing for a block that is still to come: plays send seals too early, which is refused."""
        return chain.get_header(block)[0] if block <= chain.get_block() else b""

    def get_view() -> View:
        return make_view(account=account, task=task, game=state.games[task], state=state)

    return Upkeep(get_view, cast(Any, SimpleNamespace(**contracts, prove_header=prove_header))), sent
