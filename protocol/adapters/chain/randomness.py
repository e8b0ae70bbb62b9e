"""The randomness contract, and the proof of a block's value that the calls which seal a draw take.
`contracts/interfaces/IRandomness.sol` is the manual."""

from protocol.adapters.chain.contract import Contract
from protocol.adapters.chain.headers import encode_header
from protocol.adapters.drand import fetch_signature
from protocol.spec.drand import expand_point


class Randomness(Contract):
    """The value of a past block, out of its header and, where the deployment mixes one in, a drand round."""

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
