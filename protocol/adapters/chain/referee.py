"""Proxy of the referee, which computes and keeps nothing.

`contracts/interfaces/IReferee.sol` is the manual.
"""

from protocol.adapters.chain.proxy import Proxy
from protocol.spec.containers import NodeProof, StepContext


class Referee(Proxy):
    """Judges one element of one operation of a training step."""

    contract = "Referee"

    async def judge(self, context: StepContext, node: NodeProof, element: int, openings: bytes) -> bool:
        """Whether the element lies beyond its bound. Raises ContractRefused for what is no proof."""
        return await self._read(bool, "judge", context, node, element, openings)
