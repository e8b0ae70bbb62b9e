"""Proxy of the randomness contract: shows the value of a block to whoever seals a draw.
`contracts/interfaces/IRandomness.sol` is the manual."""

from protocol.adapters.chain.headers import encode_header
from protocol.adapters.chain.proxy import Proxy
from protocol.adapters.drand import fetch_signature
from protocol.spec.drand import expand_point


class Randomness(Proxy):
    """The value of a past block, out of its header and, where the deployment mixes one in, a drand round."""

    contract = "Randomness"

    async def prove(self, of_block: int) -> bytes:
        """What `sealBeacon`, `sealDraw`, `sealLate` and `sealLeaves` take as proof for a past block.

        Waits for the drand round of that block where one is mixed in, about a minute. Raises
        EnvironmentFault where the block, its header or the round cannot be had.
        """
        block = await self._connection.raw_block(of_block)
        header = encode_header(block)
        drand_round = await self.drand_round(int(block["timestamp"], 16))
        if drand_round == 0:
            return header
        return expand_point(await fetch_signature(drand_round)) + header

    async def drand_round(self, timestamp_s: int) -> int:
        """The drand round that belongs to a block of this time (Unix); 0 where none is mixed in."""
        return await self._read(int, "drandRound", timestamp_s)

    async def read(self, of_block: int, proof: bytes) -> bytes:
        """The value (32 bytes) of a block. Raises ContractRefused where the proof does not show it."""
        return await self._read(bytes, "read", of_block, proof)
