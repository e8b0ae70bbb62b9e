"""Every operation against PyTorch's honest results, against wrong ones, and against the referee."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import frexp, inf, nan, prod

import pytest
import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.node_check import NodeReport, check_node
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel
from touchstone.protocol.spec import referee
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation

MAX = 3.4028234663852886e38
SPECIAL = torch.tensor([
    0.0, 1.0, 2.0**-149, 2.0**-127, 2.0**-126 - 2.0**-149, 2.0**-126, 1.5 * 2.0**-126, 2.0**-100, 2.0**-63,
    2.0**-24, 3 * 2.0**-24, 1 - 2.0**-24, 1 + 2.0**-23, 3.0, 88.7, 103.3, 2.0**24 + 2, 2.0**127, MAX, inf,
    nan,
])  # fmt: skip
SPECIAL = torch.cat([SPECIAL, -SPECIAL])
"""Zeros, ties, subnormals and their neighbours, what overflows, and what is not finite."""
BINARY = [Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE, Operation.MAXIMUM,
          Operation.MINIMUM, Operation.FLUSH]  # fmt: skip
UNARY = [Operation.SQUARE_ROOT, Operation.RECIPROCAL_ROOT, Operation.EXPONENTIAL, Operation.LOGARITHM,
         Operation.SIGMOID]  # fmt: skip
Tensors = list[Tensor]
Verdicts = list[referee.Judgement]


@pytest.fixture(autouse=True, scope="module")
def pinned() -> None:
    pin_kernels(1)


# Nodes over tensors
def build_access(buffer: int, like: Tensor, loops: Sequence[int]) -> Access:
    """A contiguous tensor over the loops that it has, in their order; still along the others (size 1)."""
    strides = [stride if size > 1 else 0 for size, stride in zip(like.shape, like.stride(), strict=True)]
    return Access(buffer, 0, tuple(strides[: len(loops)]))


def build(operation: Operation, operands: Tensors, reduced: int = 0, selected: int = 0) -> Node:
    """Buffer 0 is the output, the operands follow; their shapes broadcast to the loops."""
    sizes = tuple(map(max, *(x.shape for x in operands), operands[0].shape))
    kept = sizes[: len(sizes) - reduced]
    reads = tuple(build_access(i + 1, x, sizes) for i, x in enumerate(operands))
    return Node(operation, sizes, reduced, build_access(0, torch.empty(kept), kept), reads, selected)


def make_view(buffers: Tensors) -> Callable[[Access, Sequence[int], Sequence[int]], Tensor]:
    def view(where: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        flat = buffers[where.buffer].view(-1)
        if sizes and sizes[0] == -1:  # as many as there are
            sizes = (flat.numel() // strides[0], *sizes[1:])
        return flat.as_strided(tuple(sizes), tuple(strides), where.offset)

    return view


def compute(node: Node, operands: Tensors) -> Tensor:
    """PyTorch's result, by the kernel that trains."""
    result = torch.zeros(node.output_sizes)
    make_kernel(node, make_view([result, *operands]))()
    return result


def check(node: Node, claimed: Tensor, operands: Tensors) -> NodeReport:
    return check_node(node, make_view([claimed, *operands]))


def judge(node: Node, claimed: Tensor, operands: Tensors, numbers: Sequence[int]) -> Verdicts:
    """The referee on some elements."""
    integers = [(x if x.dtype == torch.int64 else x.view(torch.int32)).view(-1).tolist() for x in operands]

    def fetch(buffer: int, element: int) -> int:
        value = int(integers[buffer - 1][element])
        return value if operands[buffer - 1].dtype == torch.int64 else value & 0xFFFFFFFF

    claims = claimed.reshape(-1).view(torch.int32).tolist()
    return [referee.judge_element(node, n, fetch, claims[n] & 0xFFFFFFFF) for n in numbers]


def is_sliver(judgement: referee.Judgement) -> bool:
    """The exact value is so close to a power of two that float64 cannot tell the side: there ulp changes, and
    what is safely finite."""
    if not judgement.exact:
        return False
    part = frexp(float(judgement.exact))[0]
    return abs(part) == 0.5 and Fraction(float(judgement.exact)) != judgement.exact


def ratio_of(judgement: referee.Judgement) -> float:
    if judgement.distance is None or not judgement.bound:
        return inf if judgement.is_fault else 0.0
    return float(judgement.distance / judgement.bound)


def assert_same_size(found: float, expected: float) -> None:
    """Not larger, at most 3 % less."""
    assert found == expected or 0.97 * expected <= found <= expected * (1 + 1e-6)


def assert_agree(node: Node, claimed: Tensor, operands: Tensors) -> None:
    """As many faults as the referee finds, and the worst of the same size."""
    report = check(node, claimed, operands)
    judgements = judge(node, claimed, operands, range(node.elements))
    faults = [judgement for judgement in judgements if judgement.is_fault]
    assert len(faults) - sum(map(is_sliver, faults)) <= report.outside <= len(faults)
    assert_same_size(report.worst_ratio, max(map(ratio_of, judgements)))
    assert not report.outside or judgements[report.element].is_fault


# Cases
def special_pairs() -> Tensors:
    """A quarter of all pairs."""
    some = torch.randperm(SPECIAL.numel() ** 2, generator=torch.Generator().manual_seed(1))[:500]
    return [SPECIAL[some // SPECIAL.numel()], SPECIAL[some % SPECIAL.numel()]]


def awkward_rows(rows: int, terms: int, seed: int) -> Tensor:
    """Ordinary rows, some that cancel, some of unequal size, tiny ones, and some with special values."""
    torch.manual_seed(seed)
    x = torch.randn(rows, terms)
    kind = torch.arange(rows) % 5
    x[kind == 1, terms // 2 : terms // 2 * 2] = -x[kind == 1, : terms // 2]
    x[kind == 2] *= 2.0 ** torch.randint(-60, 60, (rows, terms)).float()[kind == 2]
    x[kind == 3] *= 2.0**-130
    picks = SPECIAL[torch.randint(0, SPECIAL.numel(), (rows, terms))]
    return torch.where((kind == 4).unsqueeze(1) & (torch.rand(rows, terms) < 0.1), picks, x)


def distort(claimed: Tensor, seed: int) -> Tensor:
    """Each element wrong in one of many ways, or left as it is."""
    torch.manual_seed(seed)
    up, down = (torch.nextafter(claimed, torch.tensor(towards)) for towards in (inf, -inf))
    choices = [claimed, up, down, -claimed, torch.nextafter(up, torch.tensor(inf)), claimed + 2.0**-126]
    choices += [torch.full_like(claimed, value) for value in (0.0, inf, nan, MAX, 2.0**-140)]
    choices += [claimed * factor for factor in (1 + 3e-7, 1 - 2e-6, 1 + 2e-5, 1 - 1e-3, 1 + 2e-2)]
    choice = torch.randint(0, len(choices), claimed.shape)
    return torch.stack(choices).gather(0, choice.unsqueeze(0)).squeeze(0)


def build_cases() -> Iterator[tuple[str, Node, Tensors]]:
    """Every operation, on adversarial operands."""
    pair = special_pairs()
    for operation in BINARY:
        yield operation.name, build(operation, pair), pair
    ordinary = torch.randn(300, generator=torch.Generator().manual_seed(0)) * 10
    values = torch.cat([SPECIAL, ordinary, ordinary * 2.0**-128, 1 + ordinary * 1e-6, SPECIAL * 0.9999])
    for operation in UNARY:
        yield operation.name, build(operation, [values]), [values]
    three = [*pair, pair[0].flip(0)]
    yield "FINITE_SELECT", build(Operation.FINITE_SELECT, three), three
    for terms in (1, 2, 3, 40):
        rows = awkward_rows(120, terms, terms)
        yield f"SUM {terms}", build(Operation.SUM, [rows], 1), [rows]
        yield f"MAXIMUM_OF {terms}", build(Operation.MAXIMUM_OF, [rows], 1), [rows]
        dots = [rows, awkward_rows(120, terms, terms + 1)]
        yield f"PRODUCT_SUM dots {terms}", build(Operation.PRODUCT_SUM, dots, 1), dots
        for seed, finite in ((7, False), (8, True)):
            factors = [
                awkward_rows(20, terms, seed).unsqueeze(1),
                awkward_rows(15, terms, seed + 9).unsqueeze(0),
            ]
            if finite:
                factors = [x.nan_to_num(1.0, 2.0, 3.0).clamp(-1e10, 1e10) for x in factors]
            yield f"PRODUCT_SUM matrix {terms} {finite}", build(Operation.PRODUCT_SUM, factors, 1), factors
    yield "COPY", build(Operation.COPY, [values]), [values]
    yield from build_indexed_cases()


def build_indexed_cases() -> Iterator[tuple[str, Node, Tensors]]:
    torch.manual_seed(3)
    index = torch.randint(0, 9, (40,))
    selected = [index.view(1, 1, 40), awkward_rows(6, 40, 5).view(1, 6, 40)]
    node = build(Operation.SELECTED_SUM, selected, 1)
    # The loop that the index is compared with moves no operand.
    yield "SELECTED_SUM", _widen(node, 9), selected
    chosen = [index.view(40, 1), awkward_rows(40, 9, 1), awkward_rows(40, 9, 2)]
    yield "EQUAL_SELECT", build(Operation.EQUAL_SELECT, chosen, selected=1), chosen
    width = SPECIAL.numel()
    rows, table = torch.randint(0, 9, (20,)), SPECIAL.repeat(9)
    read = Access(2, 0, (0, 1))
    node = Node(
        Operation.GATHER, (20, width), 0, Access(0, 0, (width, 1)), (Access(1, 0, (1, 0)), read), width
    )
    yield "GATHER", node, [rows, table]


def _widen(node: Node, size: int) -> Node:
    output = Access(0, 0, (node.sizes[1], 1))
    return Node(node.operation, (size, *node.sizes[1:]), 1, output, node.operands, 0)


CASES = {name: (node, operands) for name, node, operands in build_cases()}


# Tests
@pytest.mark.parametrize("name", CASES)
def test_check_node_clears_what_pytorch_computes_from_awkward_operands(name: str) -> None:
    node, operands = CASES[name]
    report = check(node, compute(node, operands), operands)
    assert report.outside == 0 and report.worst_ratio <= 1 and report.elements == node.elements


@pytest.mark.parametrize("name", CASES)
def test_check_node_agrees_with_the_referee(name: str) -> None:
    node, operands = CASES[name]
    honest = compute(node, operands)
    assert_agree(node, honest, operands)
    for seed in range(2):
        assert_agree(node, distort(honest, seed), operands)


def test_check_node_covers_every_operation() -> None:
    assert {node.operation for node, _ in CASES.values()} == set(BOUNDED_OPERATIONS)


@pytest.mark.parametrize("bits", [13, 16])
def test_check_node_does_not_allow_operands_of_fewer_bits(bits: int) -> None:
    node, operands = CASES["PRODUCT_SUM matrix 40 True"]
    cut = [(x.view(torch.int32) >> bits << bits).view(torch.float32) for x in operands]
    assert check(node, compute(node, cut), operands).outside > 0


@pytest.mark.parametrize("name", CASES)
def test_check_node_finds_one_wrong_element_among_many(name: str) -> None:
    """The element just outside by the referee's word, all others honest; twice the bound or one step off."""
    node, operands = CASES[name]
    honest = compute(node, operands)
    judgements = judge(node, honest, operands, range(node.elements))
    usable = [n for n, j in enumerate(judgements) if j.exact is not None and abs(j.exact) < 2**120]
    for number in usable[:: max(1, len(usable) // 6)]:
        claimed, exact = honest.clone(), judgements[number].exact
        assert exact is not None
        flat = claimed.view(-1)
        flat[number] = float(exact + 2 * judgements[number].bound)
        while not (judgement := judge(node, claimed, operands, [number])[0]).is_fault:
            flat[number] = torch.nextafter(flat[number], torch.tensor(inf))
        report = check(node, claimed, operands)
        assert (report.outside, report.element) == (1, number) and report.worst_ratio > 1
        assert_same_size(report.worst_ratio, ratio_of(judgement))


@pytest.mark.parametrize("name", ["GATHER", "EQUAL_SELECT", "SELECTED_SUM"])
@pytest.mark.parametrize("value", [-1, 9, 1000])
def test_check_node_refuses_an_index_outside_its_table(name: str, value: int) -> None:
    """All have nine rows."""
    node, operands = CASES[name]
    index = operands[0].clone()
    index.view(-1)[3] = value
    with pytest.raises(InvalidInput):
        check(node, torch.zeros(node.output_sizes), [index, *operands[1:]])


def test_product_sum_over_several_loops_names_the_right_element() -> None:
    """Rows, columns and batch in an unusual order, terms over two loops."""
    torch.manual_seed(0)
    sizes = (3, 4, 5, 2, 6)  # columns, batch, rows, terms, terms
    left, right = torch.randn(4, 5, 2, 6), torch.randn(3, 4, 2, 6)
    reads = (Access(1, 0, (0, 60, 12, 6, 1)), Access(2, 0, (48, 12, 0, 6, 1)))
    node = Node(Operation.PRODUCT_SUM, sizes, 2, Access(0, 0, (20, 5, 1)), reads)
    honest = torch.einsum("brst,cbst->cbr", left, right).contiguous()
    assert check(node, honest, [left, right]).outside == 0
    for number in range(prod(honest.shape)):
        claimed = honest.clone()
        claimed.view(-1)[number] += 1e-3
        report = check(node, claimed, [left, right])
        assert (report.outside, report.element) == (1, number)


def test_large_nodes_are_cut_without_losing_an_element() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(700, 1, 3), torch.randn(1, 300, 3)
    product = build(Operation.PRODUCT_SUM, [left, right], 1)
    flat = torch.randn(100_000)
    total = build(Operation.ADD, [flat, flat])
    grid = [torch.randn(400, 1), torch.randn(1, 300)]
    for node, operands, places in (
        (product, [left, right], (0, 65_099, 65_400, 209_999)), (total, [flat, flat], (0, 32_768, 99_999)),
        (build(Operation.MULTIPLY, grid), grid, (0, 32_700, 65_003, 119_999)),
    ):  # fmt: skip
        for number in places:
            claimed = compute(node, operands)
            claimed.view(-1)[number] += 1.0
            report = check(node, claimed, operands)
            assert (report.outside, report.element) == (1, number)


def test_nothing_is_held_against_a_step_that_has_overflowed() -> None:
    left, right = torch.full((30, 1, 3), inf), torch.randn(1, 20, 3)
    node = build(Operation.PRODUCT_SUM, [left, right], 1)
    assert check(node, torch.zeros(30, 20), [left, right]).outside == 0
    left[4] = 1.0
    report = check(node, torch.full((30, 20), 1e3), [left, right])
    assert report.outside == 20 and report.element // 20 == 4


def test_a_small_number_is_wrong_where_the_sizes_of_large_terms_overflow() -> None:
    """1.9 - 0.2 times 2^127: what two products may be off is 2^105, but their sizes have no sum in float32,
    and an infinite bound would excuse everything."""
    left, right = torch.full((2, 1, 2), 2.0**64), torch.tensor([1.9, -0.2]).repeat(1, 2, 1) * 2.0**63
    node = build(Operation.PRODUCT_SUM, [left, right], 1)
    for value, outside in ((inf, 0), (1.7 * 2.0**127, 0), (1.0, 4)):
        claimed = torch.full((2, 2), value)
        assert check(node, claimed, [left, right]).outside == outside
        assert_agree(node, claimed, [left, right])


def test_an_infinite_product_is_not_excused_by_a_large_operand() -> None:
    left, right = torch.tensor([2.0**126, MAX]).view(2, 1, 1), torch.full((1, 1, 1), 2.0**-100)
    node, claimed = build(Operation.PRODUCT_SUM, [left, right], 1), torch.full((2, 1), inf)
    assert_agree(node, claimed, [left, right])
    assert check(node, claimed, [left, right]).outside == 2


def test_a_machine_that_flushes_may_keep_what_a_subnormal_threshold_would_drop() -> None:
    for threshold, outside in ((2.0**-130, 0), (2.0**-126, 1)):
        operands = [torch.tensor([2.0**-140]), torch.tensor([threshold])]
        node = build(Operation.FLUSH, operands)
        assert check(node, operands[0], operands).outside == outside
        assert_agree(node, operands[0], operands)


def test_a_finite_claim_is_wrong_where_the_exponential_is_beyond_all_numbers() -> None:
    operands = [torch.tensor([89.0, 129.0, 800.0, MAX])]
    node = build(Operation.EXPONENTIAL, operands)
    assert check(node, torch.full((4,), inf), operands).outside == 0
    assert check(node, torch.full((4,), MAX), operands).outside == 4


def test_suspects_are_judged_until_a_fault_is_found_or_none_is_left() -> None:
    """Operands that might overflow make a suspect of every element; the lie is in the last portion."""
    torch.manual_seed(0)
    left, right = torch.randn(40, 1, 1000), torch.randn(1, 40, 1000)
    left[0, 0, 0] = right[0, 0, 1] = 1e30
    node = build(Operation.PRODUCT_SUM, [left, right], 1)
    claimed = compute(node, [left, right])
    claimed[39, 39] += 1.0
    report = check(node, claimed, [left, right])
    assert (report.outside, report.element) == (1, 1599)
