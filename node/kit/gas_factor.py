"""Measures how much more gas calls take on this chain than the stored figures say.

The figures in `economics/gas_costs.py` were measured on Ethereum. Another chain, or a later fork, may charge
several times as much for storage. A call that is not due cannot be estimated. So the chain's node estimates
one call that anybody may send at any time, and all figures are scaled by the result.
"""

from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.spec.errors import EnvironmentFault

NEWCOMER = "0x" + 20 * "c0"
"""An account that has announced nothing, so that the call writes new storage only."""
PROBE_URL, PROBE_FINGERPRINT = "https://node.example.org:8471/", b"\xff" * 32
PROBE_GAS = 76_600
"""The gas of `announce` from such an account when the figures were measured."""


async def measure_gas_factor(chain: GameChain) -> float:
    """Returns how many times more gas calls take on this chain than the stored figures say, at least 1. It is
    1 if the chain's node does not estimate calls of an account without coin. Raises EnvironmentFault if the
    chain's node is silent."""
    data = chain.game.encode("announce", PROBE_URL, PROBE_FINGERPRINT)
    try:
        gas = await chain.connection.estimate_gas(NEWCOMER, chain.game.address, data, "Game.announce")
    except ContractRefused:
        return 1.0
    except EnvironmentFault as fault:
        if fault.retryable:
            raise
        return 1.0
    return max(1.0, gas / PROBE_GAS)
