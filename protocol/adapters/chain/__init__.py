"""The chain: the contracts by their ABI, their events in order, and transactions that are mined once."""

from protocol.adapters.chain.client import Chain, open_chain
from protocol.adapters.chain.connection import Connection, Head
from protocol.adapters.chain.contract import Receipt
from protocol.adapters.chain.deployment import Deployment, read_deployment, write_deployment
from protocol.adapters.chain.logs import Batch, Event
from protocol.adapters.chain.refusals import ContractRefused
from protocol.adapters.chain.transactions import Patience, Signer

__all__ = [
    "Batch",
    "Chain",
    "Connection",
    "ContractRefused",
    "Deployment",
    "Event",
    "Head",
    "Patience",
    "Receipt",
    "Signer",
    "open_chain",
    "read_deployment",
    "write_deployment",
]
