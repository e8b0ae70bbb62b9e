"""Compares single kernels on a graphics card bit by bit: awkward nodes, real shapes, functions over many
numbers."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

import torch
from torch import Tensor

from tests.protocol.compute.program.card_cases import (
    Case,
    count_differing,
    list_elementwise,
    list_products,
    list_quantized,
    list_reductions,
    make_memory,
    make_product,
)
from touchstone.protocol.compute.program.card_choice import choose_kernels
from touchstone.protocol.compute.program.exact import device_functions
from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels
from touchstone.protocol.compute.program.planning.node_views import NodeViews, look, sort_loops
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_addressing import lay_row_major
from touchstone.protocol.spec.program_operations import Operation

FUNCTIONS: dict[Operation, Callable[[Tensor], Tensor]] = {
    Operation.EXPONENTIAL: device_functions.take_exponentials,
    Operation.LOGARITHM: device_functions.take_logarithms,
    Operation.SIGMOID: device_functions.take_sigmoids,
    Operation.RECIPROCAL_ROOT: device_functions.take_reciprocal_roots,
    Operation.SQUARE_ROOT: lambda a: a.double().sqrt().float(),
}
PIECE = 1 << 26
EVERY = 1 << 32


def list_some() -> Iterator[Case]:
    """Yields the cases that are worth the time to compile, the most expensive kernels first."""
    products = (one for one in list_products() if "turned" not in one.name or "batch of two" in one.name)
    yield from (one for one in products if " 15 " in one.name or "odd" in one.name or "alone" in one.name)
    yield from list_quantized()
    yield from list_reductions()
    layouts = ("flat", "rows", "turned", "far apart")
    yield from (one for one in list_elementwise() if one.name.split(" ", 1)[1] in layouts)


def compare_cases(device: str, limit_s: float) -> dict[str, Any]:
    """Compares nodes computed by Triton's kernels on the card with PyTorch's operations on the processor."""
    kinds, found = choose_kernels(torch.device(device)), dict[str, int]()
    started, count, failed = time.monotonic(), 0, dict[str, str]()
    for case in list_some():
        if time.monotonic() - started > limit_s:
            break
        count += 1
        try:
            differ = count_differing(case.compute(kinds, device), case.compute(DeviceKernels))
            if differ:
                found[case.name] = differ
        except Exception as error:
            failed[case.name] = f"{type(error).__name__}: {str(error)[-300:]}"
            if "illegal" in str(error) or "unspecified launch" in str(error):
                break
    return {"kernels": kinds.__name__, "nodes": count, "differ": found, "failed": failed}


# Real shapes
def _draw(device: str, count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator(device).manual_seed(seed)
    scale = torch.exp2(torch.randint(-8, 8, (count,), generator=generator, device=device).float())
    return torch.randn(count, generator=generator, device=device) * scale


def list_large(device: str) -> Iterator[Case]:
    """Yields the nodes of a step of 124 M parameters, with a smaller batch and memory on the card."""
    reads: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "rows": ((8192, 768), (768, 1)),
        "attention": ((12, 1024, 1024), (1048576, 1024, 1)),
        "attention turned": ((12, 1024, 1024), (1048576, 1, 1024)),
        "gradient turned": ((2, 768, 4096), (3145728, 1, 768)),
        "heads": ((2, 12, 1024, 64), (786432, 64, 768, 1)),
        "logits": ((1024, 50257), (50257, 1)),
    }
    for name, (sizes, strides) in reads.items():
        values = _draw(device, prod(sizes))
        rows = sizes[:-1]
        out = torch.zeros(prod(rows), device=device)
        for operation, bits in ((Operation.SCALE_OF, 15), (Operation.SUM, 0), (Operation.MAXIMUM_OF, 0)):
            node = Node(
                operation, sizes, 1, Access(0, 0, lay_row_major(rows)), (Access(1, 0, strides),), bits
            )
            yield Case(f"{operation.name} {name}", node, (out, values))
        scales = torch.exp2(torch.randint(-12, 0, (prod(rows),), device=device).float())
        for bits in (15, 20):
            accesses = (Access(1, 0, strides), Access(2, 0, (*lay_row_major(rows), 0)))
            dense = Access(0, 0, lay_row_major(sizes))
            node = Node(Operation.QUANTIZE, sizes, 0, dense, accesses, bits)
            memory = make_memory(bits, prod(sizes)).to(device)
            yield Case(f"QUANTIZE {bits} {name}", node, (memory, values, scales))
    shapes = {
        "linear": ((), (2048,), (768,), 768),
        "weights' gradient": ((2,), (768,), (2048,), 4096),
        "scores": ((24,), (1024,), (1024,), 64),
        "mixing": ((24,), (1024,), (64,), 1024),
        "odd terms": ((), (1024,), (768,), 1105),
    }
    for name, shape in shapes.items():
        for bits in (8, 15):
            yield make_product(name, shape, bits)
    yield make_product("rows alone", ((8192,), (), (), 768), 20)


def compare_large(device: str) -> dict[str, Any]:
    """Compares these nodes on the card, computed by both kinds of kernels."""
    kinds, found, count = choose_kernels(torch.device(device)), dict[str, int](), 0
    for case in list_large(device):
        count += 1
        differ = count_differing(case.compute(kinds, device), case.compute(DeviceKernels, device))
        if differ:
            found[case.name] = differ
    return {"nodes": count, "differ": found}


# Functions
def compare_functions(device: str, numbers: int) -> dict[str, int]:
    """Counts in how many of `numbers` bit patterns, with equal gaps, Triton's function differs from PyTorch's
    operations on the same card."""
    found, gap, kinds = dict.fromkeys((one.name for one in FUNCTIONS), 0), EVERY // numbers, choose_kernels(
        torch.device(device)
    )  # fmt: skip
    for start in range(-(EVERY // 2), EVERY // 2, gap * PIECE):
        patterns = torch.arange(start, start + gap * PIECE, gap, device=device)
        x = patterns.to(torch.int32).view(torch.float32)
        memory = [torch.empty_like(x), x]
        for operation, function in FUNCTIONS.items():
            node = Node(operation, (len(x),), 0, Access(0, 0, (1,)), (Access(1, 0, (1,)),))
            kinds(None).make(node, partial(_look, memory))()  # type: ignore[arg-type]
            right = torch.cat([function(part) for part in torch.split(x, PIECE // 8)])
            is_other = (memory[0].view(torch.int32) != right.view(torch.int32)) & ~(
                memory[0].isnan() & right.isnan()
            )
            found[operation.name] += int(is_other.sum())
    return found


def _look(memory: list[Tensor], access: Access, sizes: Any, strides: Any) -> Tensor:
    return look(memory[access.buffer], access.offset, sizes, strides)


# Blocks of products
BLOCKS = (
    (128, 128, 128, 3, 8), (128, 128, 64, 4, 8), (128, 64, 128, 4, 8), (128, 64, 128, 4, 4),
    (64, 128, 128, 4, 4), (128, 128, 128, 2, 8), (64, 64, 128, 4, 4),
)  # fmt: skip
SHAPES = {
    "linear": ((), (8192,), (768,), 768),
    "hidden": ((), (8192,), (2048,), 768),
    "gradient": ((2,), (768,), (2048,), 4096),
    "scores": ((96,), (1024,), (1024,), 64),
    "mixing": ((96,), (1024,), (64,), 1024),
    "logits": ((), (8192,), (50257,), 768),
}


def time_blocks(device: str, limit_s: float) -> dict[str, dict[str, float]]:
    """Measures a product of 15-bit values by block size: milliseconds, and 10^12 products of bytes a second.
    The last entry is without the copy engine."""
    found: dict[str, dict[str, float]] = {}
    started, products = time.monotonic(), import_module("touchstone.protocol.compute.program.card_products")
    for name, shape in SHAPES.items():
        case = make_product(name, shape, 15)
        memory = [buffer.to(device) for buffer in case.buffers]
        views = NodeViews(case.node, partial(_look, memory))
        product = products.plan_product(case.node, sort_loops(case.node))
        scales, flats = (views.operand(2), views.operand(3)), [memory[1], memory[2]]
        work = 8.0 * product.batch * product.rows * product.columns * product.terms
        found[name] = {}
        for block, is_copied in (*((one, True) for one in BLOCKS), (BLOCKS[0], False)):
            if time.monotonic() - started > limit_s:
                return found
            label = f"{'x'.join(map(str, block))}{'' if is_copied else ' loads'}"
            try:
                run = products.make_byte_product(product, flats, views.output, scales, block, is_copied)
                milliseconds = time_call(run)
                found[name][label] = round(milliseconds, 4)
                found[name][f"{label} tera"] = round(work / milliseconds / 1e9, 1)
            except Exception as error:
                found[name][f"{label} failed: {str(error)[-120:]}"] = -1.0
        print(name, found[name], flush=True)
    return found


def make_event() -> Any:
    """Returns a CUDA event, which marks a moment on the card."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def time_call(call: Callable[[], object], repeats: int = 10) -> float:
    """Returns the milliseconds of a call on the card, measured by events."""
    call()
    call()
    first, last = (make_event() for _ in range(2))
    first.record()
    for _ in range(repeats):
        call()
    last.record()
    last.synchronize()
    milliseconds: float = first.elapsed_time(last) / repeats
    return milliseconds
