"""The other nodes: in which order to ask them, and what they answer."""

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
    """All reachable nodes except this one. task: members of this task are asked first; account: this node's
    own; chain_state: where each account serves, as the chain says now."""

    client: BlobClient
    chain_state: ChainState
    account: str
    task: bytes

    def list(self, first: str = "") -> list[Peer]:
        """Lists all other reachable peers, in the order in which to ask: members of the task and `first`,
        then strangers.

        Members go first because an endpoint costs nothing: otherwise the account that announced the first
        hundred would be asked first. In each group, peers that were silent come last, in the order of their
        last silence. Of equally silent ones `first` leads."""

        def rank(peer: Peer) -> tuple[bool, float, bool]:
            """Returns the sort key: members first, then the peer that was silent longest ago."""
            is_stranger = peer.account != first and not self.chain_state.is_member(peer.account, self.task)
            return is_stranger, self.client.get_silence(peer), peer.account != first

        return sorted(self.chain_state.network.others(self.account), key=rank)

    async def fetch(self, ref: BlobRef, first: str = "") -> None:
        """Fetches a blob into the store, from the first peer that has it. Raises as
        `BlobClient.fetch_from_any` does."""
        await self.client.fetch_from_any(self.list(first), ref)

    async def ask(self, peer: Peer, handler: str, question: Message, form: Form[Answer]) -> Answer:
        """Returns what a peer answers. Raises ProtocolFault for what no honest node says, EnvironmentFault if
        it does not answer now."""
        return await self.client.ask(peer, handler, question, form)
