"""Cases of tests/vectors/node.json."""

from dataclasses import dataclass
from typing import Any

from protocol.spec.program import Access, Node, Operation, Role, iterate_terms
from scripts.vectors.table import Table, number, word

LEAF_LOGS = {Role.WEIGHTS: 10, Role.FIRST_MOMENT: 10, Role.SECOND_MOMENT: 10, Role.CONSTANT: 10}
"""log2 of the bytes of a leaf, where the task's chunks do not decide."""


@dataclass(frozen=True)
class Holder:
    """What a node's bytes tell of a buffer."""

    role: Role
    leaf_log: int
    size: int
    constant_root: bytes = b""


def node_tables() -> dict[str, Table]:
    """Nodes with every kind of access, and the runs of some of their elements; bytes that are no node."""
    table = Table()
    for name, node, holders in [*_hand_made(), *map(_random_node, range(24))]:
        for element in sorted({0, node.elements - 1, number(f"element/{name}", node.elements)}):
            _add(table, f"{name}, element {element}", node, holders, element)
    return {"nodes": table, "refusedNodes": _refused()}


def encode_node(node: Node, holders: dict[int, Holder]) -> bytes:
    """Canonical bytes of a node over these buffers."""
    head = bytes([node.operation, len(node.sizes), node.reduced, len(node.operands)])
    accesses = (_encode_access(access, holders[access.buffer]) for access in (node.output, *node.operands))
    return b"".join((head, _encode_integers(node.selected, *node.sizes), *accesses))


def _encode_access(access: Access, holder: Holder) -> bytes:
    numbers = _encode_integers(access.buffer, holder.size, access.offset, *access.strides)
    return bytes([holder.role, holder.leaf_log]) + numbers + holder.constant_root


def _encode_integers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big", signed=True) for value in values)


def _add(table: Table, name: str, node: Node, holders: dict[int, Holder], element: int) -> None:
    terms = list(iterate_terms(node, element))
    runs = [_output_run(node, element), *map(_run, zip(*(elements for _, elements in terms), strict=True))]
    accesses = [holders[access.buffer] for access in (node.output, *node.operands)]
    cells: dict[str, Any] = {
        "data": encode_node(node, holders),
        "element": element,
        "operation": int(node.operation),
        "terms": len(terms),
        "selected": node.selected,
    }
    compares = node.operation in (Operation.SELECTED_SUM, Operation.EQUAL_SELECT)
    cells["selectedIndex"] = terms[0][0][node.selected] if compares else 0
    cells["selectedSize"] = node.sizes[node.selected] if compares else 0
    cells["role"] = [int(holder.role) for holder in accesses]
    cells["leafBytes"] = [1 << holder.leaf_log for holder in accesses]
    cells["buffer"] = [access.buffer for access in (node.output, *node.operands)]
    cells["size"] = [holder.size for holder in accesses]
    cells["start"], cells["length"] = [start for start, _ in runs], [length for _, length in runs]
    cells["constantRoot"] = [holder.constant_root or bytes(32) for holder in accesses]
    table.add(name, **cells)


def _output_run(node: Node, element: int) -> tuple[int, int]:
    """By the definition of a loop nest, one element after another."""
    copy = Node(Operation.FLUSH, node.output_sizes, 0, node.output, (node.output,))
    ((_, (start,)),) = iterate_terms(copy, element)
    return start, 1


def _run(elements: tuple[int, ...]) -> tuple[int, int]:
    """Start and length of the run that an operand's terms are."""
    start = elements[0]
    if set(elements) == {start}:
        return start, 1
    assert elements == tuple(range(start, start + len(elements)))
    return start, len(elements)


# --- Nodes --------------------------------------------------------------------------------------------------
def _hand_made() -> list[tuple[str, Node, dict[int, Holder]]]:
    root = word("node/constant")
    tensor = Holder(Role.TENSOR, 9, 5000)
    holders = {
        **{0: Holder(Role.WEIGHTS, 10, 4000), 3: Holder(Role.TOKENS, 9, 64), 5: Holder(Role.SCALARS, 9, 3)},
        **{6: Holder(Role.CONSTANT, 10, 256, root), 7: tensor, 8: tensor, 9: Holder(Role.TENSOR, 12, 1)},
    }

    def node(
        operation: Operation, sizes: tuple[int, ...], reduced: int, *accesses: Access, selected: int = 0
    ) -> Node:
        return Node(operation, sizes, reduced, accesses[0], accesses[1:], selected)

    product = node(
        Operation.PRODUCT_SUM, (5, 3, 128), 1,
        Access(7, 2, (3, 1)), Access(8, 40, (128, 0, 1)), Access(0, 384, (0, -128, 1)),
    )  # fmt: skip
    blocks = node(Operation.SUM, (4, 2, 3, 8), 3, Access(7, 3, (-1,)), Access(8, 7, (60, 24, 8, 1)))
    return [
        ("a product", product, holders),
        ("a scalar in every term", node(
            Operation.PRODUCT_SUM, (6, 4), 1, Access(7, 0, (1,)), Access(8, 0, (4, 1)), Access(5, 1, (0, 0)),
        ), holders),
        ("three reduced loops", blocks, holders),
        ("a loop of one turn inside", node(
            Operation.SUM, (2, 7, 1), 2, Access(7, 0, (1,)), Access(8, 3, (7, 1, 1)),
        ), holders),
        ("everything reduced", node(
            Operation.MAXIMUM_OF, (300,), 1, Access(9, 0, ()), Access(7, 100, (1,)),
        ), holders),
        ("no loops at all", node(
            Operation.ADD, (), 0, Access(9, 0, ()), Access(7, 4999, ()), Access(6, 17, ()),
        ), holders),
        ("a lookup", node(
            Operation.GATHER, (9, 16), 0, Access(7, 0, (16, 1)), Access(3, 8, (1, 0)), Access(0, 0, (0, 1)),
            selected=16,
        ), holders),
        ("a sum over equal indices", node(
            Operation.SELECTED_SUM, (11, 16, 32), 1,
            Access(8, 0, (16, 1)), Access(3, 32, (0, 0, 1)), Access(7, 64, (0, 32, 1)),
        ), holders),
        ("one of two", node(
            Operation.EQUAL_SELECT, (32, 5), 0,
            Access(8, 9, (5, 1)), Access(3, 32, (1, 0)), Access(7, 0, (5, 1)), Access(6, 3, (0, 0)),
            selected=1,
        ), holders),
        ("three constants", node(
            Operation.FINITE_SELECT, (2, 2), 0,
            Access(7, 0, (2, 1)), Access(6, 0, (1, 0)), Access(6, 1, (0, 1)), Access(6, 2, (2, 3)),
        ), holders),
        ("far away", node(
            Operation.SQUARE_ROOT, (1 << 20, 1 << 19), 0,
            Access(1, 0, (1 << 19, 1)), Access(2, (1 << 40) - 1, (-(1 << 19), -1)),
        ), {1: Holder(Role.TENSOR, 11, 1 << 40), 2: Holder(Role.SECOND_MOMENT, 10, 1 << 40)}),
    ]  # fmt: skip


def _random_node(case: int) -> tuple[str, Node, dict[int, Holder]]:
    """Any loops, any strides; buffers as large as they must be."""
    label = f"node/{case}"
    operation = list(Operation)[number(f"{label}/operation", 4)]
    loops = 1 + number(f"{label}/loops", 8)
    reduced = 1 + number(f"{label}/reduced", min(loops, 3))
    sizes = tuple(1 + number(f"{label}/size/{i}", 6) for i in range(loops))
    outer = loops - reduced
    operands = 2 if operation in (Operation.PRODUCT_SUM, Operation.SELECTED_SUM) else 1
    if operation is Operation.SELECTED_SUM and not outer:
        operation, operands = Operation.SUM, 1
    accesses = [_random_access(f"{label}/output", 10, sizes[:outer], outer)]
    accesses += [_random_access(f"{label}/{place}", 11 + place, sizes, outer) for place in range(operands)]
    roles = [Role.TENSOR, *(list(Role)[number(f"{label}/role/{i}", 8)] for i in range(operands))]
    holders = {
        access.buffer: _random_holder(f"{label}/{access.buffer}", role)
        for access, role in zip(accesses, roles, strict=True)
    }
    selected = number(f"{label}/selected", outer) if operation is Operation.SELECTED_SUM else 0
    node = Node(operation, sizes, reduced, accesses[0], tuple(accesses[1:]), selected)
    return f"random {case}", node, holders


def _random_access(label: str, buffer: int, sizes: tuple[int, ...], outer: int) -> Access:
    strides = [number(f"{label}/stride/{i}", 2001) - 1000 for i in range(outer)]
    step = number(f"{label}/step", 3) and 1  # two of three are runs, the others one element
    for i in range(outer, len(sizes)):
        run = 1
        for size in sizes[i + 1 :]:
            run *= size
        strides.append(step * run)
    # No element lies before the first one of the buffer.
    below = sum(min(0, (size - 1) * stride) for size, stride in zip(sizes, strides, strict=True))
    return Access(buffer, number(f"{label}/offset", 100) - below, tuple(strides))


def _random_holder(label: str, role: Role) -> Holder:
    leaf_log = LEAF_LOGS.get(role, (9, 11, 12)[number(f"{label}/leaf", 3)])
    root = word(f"{label}/root") if role is Role.CONSTANT else b""
    return Holder(role, leaf_log, 1 << 20, root)


# --- Bytes that no node has ---------------------------------------------------------------------------------
def _refused() -> Table:
    table = Table()
    _, node, holders = _hand_made()[0]
    whole = encode_node(node, holders)

    def put(place: int, value: int, length: int = 1) -> bytes:
        return whole[:place] + value.to_bytes(length, "big") + whole[place + length :]

    lengths = (0, 4, 11, 12, 36, 62, len(whole) - 1)
    cases = [(f"the first {length} bytes", whole[:length]) for length in lengths]
    cases += [
        ("a byte more", whole + b"\0"),
        ("no operation", put(0, 0)),
        ("an unknown operation", put(0, 21)),
        ("reduced loops of an elementwise operation", put(0, Operation.ADD)),
        ("nine loops", put(1, 9)),
        ("more reduced loops than loops", put(2, 4)),
        ("an operand too few", put(3, 1)),
        ("an operand too many", put(3, 3)),
        ("a loop of no turns", put(20, 0, 8)),
        ("a sum of 4097 terms", put(28, 4097, 8)),
        ("a sum of 2^63 terms", put(28, 1 << 63, 8)),
        ("terms that lie apart", put(len(whole) - 8, 2, 8)),
        ("terms that run backwards", put(len(whole) - 8, (1 << 64) - 1, 8)),
        ("leaves of 256 bytes", put(37, 8)),
        ("leaves of 8192 bytes", put(37, 13)),
        ("a tensor shown as a constant", put(36, Role.CONSTANT)),
    ]
    for name, data in cases:
        table.add(name, data=data, element=0)
    table.add("an element beyond the last", data=whole, element=node.elements)
    table.add("an element far beyond", data=whole, element=(1 << 256) - 1)
    return table
