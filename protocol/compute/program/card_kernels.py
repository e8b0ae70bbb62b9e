"""The kernels of exact programs on graphics cards that Triton supports, with the same bits as all others.

Operations without a kernel here, or with too many loops, run as PyTorch's operations (`device_kernels.py`).
"""

from collections.abc import Callable

from touchstone.protocol.compute.program.card_elements import make_elementwise, make_quantize
from touchstone.protocol.compute.program.card_products import make_product
from touchstone.protocol.compute.program.card_rows import make_reduction
from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels
from touchstone.protocol.compute.program.exact.product_families import require_quantized
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.planning.node_views import MakeView, NodeViews
from touchstone.protocol.spec.program import Node
from touchstone.protocol.spec.program_operations import Operation


class CardKernels(DeviceKernels):
    """Makes the kernels of one exact program in Triton."""

    def make(self, node: Node, view: MakeView) -> Kernel:
        """Returns the kernel of a node on views of the present buffers."""
        require_quantized(node)
        make = _MAKERS.get(node.operation)
        return (make and make(NodeViews(node, view))) or super().make(node, view)


def _make_plain_if_flat(views: NodeViews) -> Kernel | None:
    """Returns None if all tensors have the same layout, because PyTorch's kernels are as good there and need
    no compiling."""
    accesses = (views.node.output, *views.node.operands)
    is_flat = len(views.node.sizes) <= 1 and all(one.strides in ((), (0,), (1,)) for one in accesses)
    return None if is_flat else make_elementwise(views)


_PLAIN = (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE, Operation.COPY)
_FUSED = (
    Operation.MAXIMUM, Operation.MINIMUM, Operation.SQUARE_ROOT, Operation.RECIPROCAL_ROOT,
    Operation.EXPONENTIAL, Operation.LOGARITHM, Operation.SIGMOID, Operation.FLUSH, Operation.FINITE_SELECT,
)  # fmt: skip
_MAKERS: dict[Operation, Callable[[NodeViews], Kernel | None]] = {
    **dict.fromkeys(_PLAIN, _make_plain_if_flat),
    **dict.fromkeys(_FUSED, make_elementwise),
    **dict.fromkeys((Operation.SUM, Operation.MAXIMUM_OF, Operation.SCALE_OF), make_reduction),
    Operation.QUANTIZE: make_quantize,
    Operation.QUANTIZED_PRODUCT_SUM: make_product,
}
