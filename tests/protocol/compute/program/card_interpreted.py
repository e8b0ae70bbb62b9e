"""Compares Triton's kernels, interpreted on the processor, with the others: nodes, or a whole step.

Run with TRITON_INTERPRET=1 and the name of a part: elementwise, reductions, quantized, products, step.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from tests.protocol.compute.program import card_cases
from tests.protocol.compute.program.card_cases import Case, count_differing
from tests.task_models import DecoderStep, build_program, init_parameters
from touchstone.protocol.compute.program.card_choice import choose_kernels, take_card_kernels
from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.step.plain_decoder import DecoderConfig

PARTS: dict[str, Callable[[], Iterator[Case]]] = {
    "elementwise": card_cases.list_elementwise,
    "reductions": card_cases.list_reductions,
    "quantized": card_cases.list_quantized,
    "products": card_cases.list_products,
}
TINY = DecoderConfig(32, 8, 16, 1, 2, 1, 8)


def mend_interpreter() -> None:
    """NumPy 2.4 makes no number of an array of one element, as Triton 3.6 asks for its loops."""
    interpreter: Any = import_module("triton.runtime.interpreter")
    patch = interpreter._patch_lang_tensor

    def patch_tensor(tensor: Any, scope: Any) -> None:
        """As before, but for `__index__`."""
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    interpreter._patch_lang_tensor = patch_tensor


def compare_nodes(cases: Iterator[Case]) -> dict[str, int]:
    """By node: elements that differ."""
    kinds, found = choose_kernels(torch.device("cpu")), {}
    for case in cases:
        differ = count_differing(case.compute(kinds), case.compute(DeviceKernels))
        if differ:
            found[case.name] = differ
    return found


def compare_step() -> dict[str, int]:
    """By result of a tiny exact15 step: elements that differ from the processor's own kernels."""
    built = build_program(DecoderStep(TINY, sequences=1, tokens=8, chunk_terms=128, numeric_format="exact15"))
    weights = init_parameters(TINY, 1)
    vectors = (weights, 1e-3 * torch.ones_like(weights), 1e-6 * torch.ones_like(weights))
    tokens = torch.arange(8).view(1, 8)

    def run(by_tensors: bool) -> list[Tensor]:
        """Results by the kernels that are chosen, or by the processor's own."""
        interpreter = Interpreter(
            built.program, built.constants, numeric_format="exact15", device="cpu", by_tensors=by_tensors
        )
        scalars = torch.tensor([1e-3, 0.4, 0.2])
        return [one.reshape(-1) for one in interpreter.run(vectors, tokens, tokens + 1, scalars)]

    pairs = zip(("W", "m", "v", "loss"), run(by_tensors=True), run(by_tensors=False), strict=True)
    return {name: differ for name, own, right in pairs if (differ := count_differing(own, right))}


def main() -> None:
    """Prints what differs, and how many."""
    mend_interpreter()
    take_card_kernels(True)
    part = sys.argv[1]
    found = compare_step() if part == "step" else compare_nodes(PARTS[part]())
    print(found, f"{len(found)} differ")


if __name__ == "__main__":
    main()
