"""Lists the other nodes in the order in which to ask them, and asks them."""

from dataclasses import dataclass
from typing import TypeVar

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.messages import Form, Message
from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Peers:
    """All reachable nodes except this one. Members of `task` are asked first. `account` is this node's own;
    `chain_state` says where each account serves."""

    client: BlobClient
    chain_state: ChainState
    account: str
    task: bytes

    def list(self, first: str = "") -> list[Peer]:
        """Lists all other reachable peers in the order in which to ask: members of the task and `first`, then
        strangers.

        Members go first because an endpoint costs nothing, and a hundred strangers could announce one first.
        In each group, peers that were silent come last, in the order of their last silence. Among equals
        `first` leads."""

        def rank(peer: Peer) -> tuple[bool, float, bool]:
            """Returns the sort key of a peer: members first, then those whose silence is longest ago."""
            is_stranger = peer.account != first and not self.chain_state.is_member(peer.account, self.task)
            return is_stranger, self.client.get_silence(peer), peer.account != first

        return sorted(self.chain_state.network.others(self.account), key=rank)

    async def fetch(self, ref: BlobRef, first: str = "") -> None:
        """Fetches a blob into the store, from the first peer that has it. Raises as
        `BlobClient.fetch_from_any` does."""
        await self.client.fetch_from_any(self.list(first), ref)

    async def ask(self, peer: Peer, handler: str, question: Message, form: Form[Answer]) -> Answer:
        """Returns a peer's answer. Raises ProtocolFault if no honest node would give it, EnvironmentFault if
        the peer does not answer now."""
        return await self.client.ask(peer, handler, question, form)
