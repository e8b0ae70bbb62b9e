"""Single nodes over awkward numbers, strides and sizes, for comparing two kinds of kernels bit by bit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels
from touchstone.protocol.compute.program.planning.node_views import look
from touchstone.protocol.spec.program import Access, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_addressing import lay_row_major
from touchstone.protocol.spec.program_operations import OPERAND_COUNTS, QUANTIZED_LIMITS, Operation

PATTERNS = (
    0x0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x1, 0x80000001, 0x7FFFFF,
    0x800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0x3F000000, 0xBF000000, 0x40200000, 0x42AE0000, 0xC2AE0000,
    0x42B17218, 0xC2CFF1B5, 0x43000000, 0xC3000000, 0x3F3504F3, 0x3F3504F4, 0x0DA24260, 0x501502F9,
)  # fmt: skip
BINARY = (
    Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE, Operation.MAXIMUM,
    Operation.MINIMUM, Operation.FLUSH,
)  # fmt: skip
UNARY = (
    Operation.SQUARE_ROOT, Operation.RECIPROCAL_ROOT, Operation.EXPONENTIAL, Operation.LOGARITHM,
    Operation.SIGMOID, Operation.COPY,
)  # fmt: skip
REDUCTIONS = ((Operation.SUM, 0), (Operation.MAXIMUM_OF, 0), *((Operation.SCALE_OF, n) for n in (8, 15, 20)))
NO_PROGRAM = Program(4096, (Buffer(Role.TENSOR, 1),), (), Outputs(0, 0, 0, 0))


@dataclass(frozen=True)
class Case:
    """A node and its memory: buffer 0 is the output."""

    name: str
    node: Node
    buffers: tuple[Tensor, ...]

    def compute(self, kernels: type[DeviceKernels], device: str = "cpu") -> Tensor:
        """The output's memory, on the host, when the node has been computed by these kernels."""
        memory = [buffer.to(device).clone() for buffer in self.buffers]
        kernels(NO_PROGRAM).make(self.node, partial(_look, memory))()
        return memory[0].cpu()


def _look(memory: Sequence[Tensor], access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    return look(memory[access.buffer], access.offset, sizes, strides)


def count_differing(a: Tensor, b: Tensor) -> int:
    """Elements of other bits; NaN is one pattern in trees."""
    if a.dtype is not torch.float32:
        return int((a != b).sum())
    is_other = (a.view(torch.int32) != b.view(torch.int32)) & ~(a.isnan() & b.isnan())
    return int(is_other.sum())


# Numbers
def draw_patterns(count: int, seed: int = 0) -> Tensor:
    """float32 of any bits, every third one of those above."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(1 << 31), 1 << 31, (count,), generator=generator)
    known = torch.tensor(PATTERNS, dtype=torch.int64)
    bits[::3] = known[torch.arange(len(bits[::3])) % len(known)]
    return (bits & 0xFFFFFFFF).sub((bits & 0x80000000) << 1).to(torch.int32).view(torch.float32)


def draw_rows(rows: int, terms: int, seed: int = 0) -> Tensor:
    """Rows of many sizes: of zeros, of subnormals, of ties, with the largest number, some not finite."""
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.randint(-30, 30, (rows, 1), generator=generator)
    values = torch.randn(rows, terms, generator=generator) * torch.exp2(exponents.float())
    values = values * torch.exp2(torch.randint(-20, 1, (rows, terms), generator=generator).float())
    for row, factor in ((1, 0.0), (2, 1e-42), (3, 1e-38), (4, 1e38)):
        values[row % rows :: 9] *= factor
    values[5 % rows :: 9] = torch.randint(-9, 9, (terms,), generator=generator) / 2
    values[6 % rows :: 9, -1] = torch.finfo(torch.float32).max
    for row, number in ((7, float("nan")), (8, float("-inf"))):
        values[row % rows :: 18, terms // 2] = number
    return values


# Elementwise
Layout = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes, strides of the output, of the first operand, of the others."""
LAYOUTS: dict[str, Layout] = {
    "flat": ((5000,), (1,), (1,), (1,)),
    "one number": ((), (), (), ()),
    "beside one number": ((2049,), (1,), (1,), (0,)),
    "of one number": ((130,), (1,), (0,), (1,)),
    "rows": ((37, 300), (300, 1), (300, 1), (1, 0)),
    "columns": ((20, 48), (48, 1), (48, 1), (0, 1)),
    "turned": ((3, 70, 130), (9100, 130, 1), (9100, 1, 70), (130, 0, 1)),
    "permuted": ((2, 3, 50, 32), (4800, 32, 96, 1), (4800, 1600, 32, 1), (0, 0, 32, 1)),
    "part of rows": ((30, 16), (32, 1), (32, 2), (16, 1)),
    "far apart": ((30, 17), (3, 90), (17, 1), (1, 30)),
}


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def list_elementwise() -> Iterator[Case]:
    """Each operation in each layout."""
    for name, (sizes, out, first, second) in LAYOUTS.items():
        for operation in (*BINARY, *UNARY, Operation.FINITE_SELECT):
            count = OPERAND_COUNTS[operation]
            strides = [first, second, second][:count]
            operands = tuple(Access(1 + n, 2, own) for n, own in enumerate(strides))
            node = Node(operation, sizes, 0, Access(0, 0, out), operands)
            memory = [draw_patterns(2 + _reach(sizes, own), n) for n, own in enumerate(strides)]
            yield Case(f"{operation.name} {name}", node, (torch.zeros(_reach(sizes, out)), *memory))


# Reductions
ROWS: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]] = {
    "rows": ((37, 300), 1, (1,), (300, 1)),
    "long rows": ((9, 4096), 1, (2,), (4096, 1)),
    "one row": ((600,), 1, (), (1,)),
    "columns": ((2, 40, 100), 1, (40, 1), (4000, 1, 40)),
    "odd columns": ((3, 33, 301), 1, (33, 1), (9933, 1, 33)),
    "two loops": ((27, 4, 50), 2, (1,), (50, 1350, 1)),
    "two loops across": ((3, 40, 4, 16), 2, (40, 1), (2560, 1, 640, 40)),
    "parts of rows": ((3, 18, 64), 1, (1, 3), (64, 200, 1)),
}


def list_reductions() -> Iterator[Case]:
    """Each reduction in each layout."""
    for name, (sizes, reduced, out, strides) in ROWS.items():
        rows, terms = sizes[: len(sizes) - reduced], prod(sizes[len(sizes) - reduced :])
        values = draw_rows(prod(rows), terms, len(sizes)).view(sizes)
        memory = torch.zeros(_reach(sizes, strides))
        memory.as_strided(sizes, strides).copy_(values)
        for operation, bits in REDUCTIONS:
            node = Node(operation, sizes, reduced, Access(0, 0, out), (Access(1, 0, strides),), bits)
            yield Case(f"{operation.name} {bits} {name}", node, (torch.zeros(_reach(rows, out)), memory))


# Quantizing
SCALED: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "rows": ((36, 300), (300, 1), (1, 0)),
    "turned": ((2, 72, 144), (10368, 1, 72), (72, 1, 0)),
    "odd": ((33, 77), (1, 33), (1, 0)),
    "scales of terms": ((2, 20, 64), (1280, 64, 1), (64, 0, 1)),
    "one scale": ((40, 64), (64, 1), (0, 0)),
    "permuted": ((2, 16, 3, 32), (1536, 32, 512, 1), (16, 1, 0, 0)),
}


def make_memory(bits: int, elements: int) -> Tensor:
    """Room for quantized values."""
    kind = torch.int32 if bits == 20 else torch.int8
    return torch.zeros(elements * (2 if bits == 15 else 1), dtype=kind)


def list_quantized() -> Iterator[Case]:
    """Rows with scales near their own, and with scales of any bits."""
    for name, (sizes, strides, scales) in SCALED.items():
        rows = draw_rows(sizes[0], prod(sizes[1:]), 1).reshape(-1)
        memory = torch.zeros(_reach(sizes, strides))
        memory.as_strided(sizes, strides).copy_(rows.view(sizes))
        count = _reach(sizes, scales)
        exponents = torch.randint(-60, 40, (count,), generator=torch.Generator().manual_seed(3))
        near = torch.exp2(exponents.float())
        near[::7], near[1::7] = 2.0**-149, 2.0**-140
        for bits in QUANTIZED_LIMITS:
            for kind, scale in (("near", near), ("any", draw_patterns(count, 4))):
                accesses = (Access(1, 0, strides), Access(2, 0, scales))
                node = Node(Operation.QUANTIZE, sizes, 0, Access(0, 0, lay_row_major(sizes)), accesses, bits)
                buffers = (make_memory(bits, prod(sizes)), memory, scale)
                yield Case(f"QUANTIZE {bits} {name}, {kind} scales", node, buffers)


# Products
Shape = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
"""Sizes of the loops of batch, of rows, of columns, and terms."""
PRODUCTS: dict[str, Shape] = {
    "odd": ((), (70,), (50,), 33),
    "even": ((), (130,), (136,), 144),
    "batch": ((3,), (20,), (130,), 96),
    "batch of two": ((2, 2), (17,), (64,), 64),
    "rows of two": ((), (3, 30), (2, 20), 48),
    "long": ((), (8,), (24,), 4096),
    "rows alone": ((40, 3), (), (), 200),
}


def draw_quantized(bits: int, rows: int, terms: int, seed: int) -> Tensor:
    """As memory has them: a row of each end, random ones."""
    generator, limit = torch.Generator().manual_seed(seed), QUANTIZED_LIMITS[bits]
    words = torch.randint(-limit, limit + 1, (rows, terms), generator=generator, dtype=torch.int32)
    words[0], words[rows // 2] = limit, -limit
    words = words.reshape(-1)
    if bits == 15:
        high = (words + 64) >> 7
        return torch.cat([high, words - (high << 7)]).to(torch.int8)
    return words if bits == 20 else words.to(torch.int8)


def make_product(name: str, shape: Shape, bits: int, is_turned: bool = False) -> Case:
    """A product; is_turned: its output has columns far apart."""
    batch, rows, columns, terms = shape
    sizes = (*batch, *rows, *columns, terms)
    b, r = len(batch), len(rows)
    left = lay_row_major((*batch, *rows, terms))
    right = lay_row_major((*batch, *columns, terms))
    first = Access(1, 0, (*left[: b + r], *(0,) * len(columns), 1))
    second = Access(2, 0, (*right[:b], *(0,) * r, *right[b:-1], 1))
    a = lay_row_major((*batch, *rows))
    c = lay_row_major((*batch, *columns))
    scale_a = Access(3, 0, (*a, *(0,) * len(columns), 0))
    scale_b = Access(4, 0, (*c[:b], *(0,) * r, *c[b:], 0))
    order = (*batch, *columns, *rows) if is_turned else (*batch, *rows, *columns)
    out = lay_row_major(order)
    if is_turned:
        out = (*out[:b], *out[b + len(columns) :], *out[b : b + len(columns)])
    node = Node(
        Operation.QUANTIZED_PRODUCT_SUM, sizes, 1, Access(0, 0, out), (first, second, scale_a, scale_b)
    )
    counts = prod((*batch, *rows)), prod((*batch, *columns))
    scales = [torch.exp2(torch.arange(count).float() % 250 - 149) for count in counts]
    scales[0][::11], scales[1][::13] = float("nan"), 2.0**120
    buffers = (
        torch.zeros(prod(order)),
        *(draw_quantized(bits, count, terms, n) for n, count in enumerate(counts)),
        *scales,
    )
    return Case(f"{node.operation.name} {bits} {name}{' turned' if is_turned else ''}", node, buffers)


def list_products() -> Iterator[Case]:
    """Each shape in each number of bits; sums of 20 bits have half as many terms at most."""
    for name, shape in PRODUCTS.items():
        for bits in QUANTIZED_LIMITS:
            *loops, terms = shape
            cut = (*loops, min(terms, 2048) if bits == 20 else terms)
            yield make_product(name, cut, bits)  # type: ignore[arg-type]
            if shape[1]:
                yield make_product(name, cut, bits, is_turned=True)  # type: ignore[arg-type]


def list_cases() -> Iterator[Case]:
    """All of them."""
    yield from list_elementwise()
    yield from list_reductions()
    yield from list_quantized()
    yield from list_products()
