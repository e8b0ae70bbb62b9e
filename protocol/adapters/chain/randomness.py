"""Proofs of a block's random value, which the calls that record a draw take.

The value lies in the block's header. If the deployment mixes drand in, a signature of drand's quicknet comes
with it (`drand.py`). `contracts/interfaces/IRandomness.sol` is the manual.
"""

from typing import Any

from touchstone.protocol.adapters.chain.contract import Contract
from touchstone.protocol.adapters.chain.drand import fetch_signature
from touchstone.protocol.adapters.chain.headers import encode_header, is_header
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.quicknet import expand_point


class Randomness(Contract):
    """The random value of a past block, from its header and, if the deployment uses drand, from a drand
    round."""

    async def prove(self, of_block: int) -> bytes:
        """Returns the proof for a past block that `sealBeacon`, `sealDraw`, `sealLate` and `sealLeaves` take.

        Waits about a minute for the drand round of that block if the deployment uses drand. Raises
        EnvironmentFault if the block, its header or the round is not available."""
        block, header = await self.read_header(of_block)
        drand_round = await self.drand_round(int(block["timestamp"], 16))
        if drand_round == 0:
            return header
        return expand_point(await fetch_signature(drand_round)) + header

    async def read_header(self, number: int) -> tuple[dict[str, Any], bytes]:
        """Returns a block as the endpoint reports it, and its header. Raises EnvironmentFault if the block is
        not available, or no header with its hash can be had or built."""
        block = await self._connection.raw_block(number)
        try:
            return block, encode_header(block)
        except EnvironmentFault:
            raw = await self._connection.raw_header(number)
            if raw is None or not is_header(raw, block):
                raise
            return block, raw
