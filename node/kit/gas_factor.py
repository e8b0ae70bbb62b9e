"""How many times the gas of the stored figures duties take on the chain at hand.

The figures of `economics/gas_costs.py` are those of Ethereum as it was when they were measured. Another
chain, or a fork, may let storage cost several times as much. A duty that is not due cannot be estimated. So
the chain's node estimates one call that anybody may send at any time, and all figures grow in proportion.
"""

from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.spec.errors import EnvironmentFault

NEWCOMER = "0x" + 20 * "c0"
"""Has announced nothing: all that the call writes is new storage."""
PROBE_URL, PROBE_FINGERPRINT = "https://node.example.org:8471/", b"\xff" * 32
PROBE_GAS = 70_700
"""What announcing that took when the figures were measured."""


async def measure_gas_factor(chain: GameChain) -> float:
    """Returns how many times more gas calls take on this chain than the stored figures say, at least 1. It is
    1 if the chain's node does not estimate calls of an account without coin. Raises EnvironmentFault if it is
    silent."""
    data = chain.tasks.encode("announce", PROBE_URL, PROBE_FINGERPRINT)
    try:
        gas = await chain.connection.estimate_gas(NEWCOMER, chain.tasks.address, data, "Tasks.announce")
    except ContractRefused:
        return 1.0
    except EnvironmentFault as fault:
        if fault.retryable:
            raise
        return 1.0
    return max(1.0, gas / PROBE_GAS)
