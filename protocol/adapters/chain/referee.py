"""Proxy of the referee, which computes and keeps nothing.

`contracts/interfaces/IReferee.sol` is the manual.
"""

from collections.abc import Sequence

from protocol.adapters.chain.proxy import Proxy
from protocol.spec.containers import BufferOpening, NodeProof, StepContext


class Referee(Proxy):
    """Judges one element of one operation of a training step."""

    contract = "Referee"

    async def judge(
        self,
        context: StepContext,
        node: NodeProof,
        element: int,
        output: BufferOpening,
        operands: Sequence[BufferOpening],
    ) -> bool:
        """Whether the element lies beyond its bound. Raises ContractRefused for what is no proof."""
        return await self._read(bool, "judge", context, node, element, output, operands)
