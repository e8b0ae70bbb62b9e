"""Makes the cases of tests/vectors/outer.json."""

from collections.abc import Iterable

from tools.vectors.fixed_values import bits, number
from tools.vectors.float32_cases import MAX_FINITE
from tools.vectors.table import Table, make_leaf
from touchstone.protocol.spec import float32, outer_update, pseudo_gradient
from touchstone.protocol.spec.errors import ProtocolFault


def outer_tables() -> dict[str, Table]:
    """Returns quantization, decoding, mean and Nesterov, with ties, subnormals, the ends of the range and
    overflow."""
    elements = Table()
    for exponent_byte in (0, 1, 22, 23, 148, 149, 150, 219, 220):
        for quantum in (-128, -127, -1, 0, 1, 3, 127):
            value = pseudo_gradient.dequantise(quantum, exponent_byte - 149)
            elements.add(
                f"{quantum} {exponent_byte}", exponentByte=exponent_byte, quantum=quantum, value=value
            )
    means = Table()
    for name, values in _mean_cases():
        means.add(name, value=values, mean=outer_update.compute_mean(values))
    return {
        "blocks": _blocks(),
        "elements": elements,
        "deltaLeaves": _delta_leaves(),
        "means": means,
        "steps": _steps(),
        "leafSteps": _leaf_steps(),
    }


def _block_cases() -> Iterable[tuple[str, list[int]]]:
    edge = float32.float_to_bits(127.0 * 2.0**71)
    ties = [bits(x / 2) for x in range(1, 64, 2)]
    yield "all zero", []
    yield "negative zeros", [0x80000000] * 64
    yield "the least subnormal", [1]
    yield "127 least subnormals", [127, 0x80000000 | 127, 63]
    yield "128 least subnormals: half ties", [128, 1, 3, 5, 7, 0x80000001, 0x80000003]
    yield "exactly 127", [bits(127.0), bits(-127.0), bits(0.5), bits(1.5), bits(2.5), bits(-0.5), bits(-1.5)]
    yield "just above 127", [bits(127.0) + 1, bits(1.0), bits(3.0), bits(-1.0), bits(-3.0)]
    yield "ties to even", [bits(127.0), *ties, *[b | 0x80000000 for b in ties[:31]]]
    yield "the largest scale", [edge, edge | 0x80000000, edge // 2, 1]
    yield "just beyond the largest scale", [edge + 1]
    yield "beyond it, rounded to 127 at most", [edge + 1, edge + (1 << 15) | 1 << 31, bits(0.5 * 2.0**71)]
    yield "the largest finite", [MAX_FINITE]
    yield "an infinite difference", [0x7F800000]
    yield "a negative infinite difference", [bits(1.0), 0xFF800000]
    yield "infinite beside finite", [0xFF800000, bits(63.5 * 2.0**71), bits(-(2.0**70)), bits(1.5 * 2.0**71)]
    for i in range(6):
        scale = number(f"scale/{i}", 0x70) + 8
        yield (
            f"random {i}",
            [
                (number(f"block/{i}/{j}", 1 << 27) + (scale << 23)) | (number(f"s/{i}/{j}", 2) << 31)
                for j in range(64)
            ],
        )


def _blocks() -> Table:
    table = Table()
    for name, head in _block_cases():
        difference = head + [0] * (64 - len(head))
        encoded = pseudo_gradient.encode_block(*pseudo_gradient.quantise_block(difference))
        table.add(name, difference=difference, encoded=encoded)
    return table


def _delta_leaves() -> Table:
    table = Table()
    large = make_leaf("end", 1e-9)[:768] + make_leaf("end", 1e9)[768:]
    huge = float32.pack_bits([MAX_FINITE] * 256)
    for name, start, end in [
        ("no change", make_leaf("same", 1e-3), make_leaf("same", 1e-3)),
        ("a small step", make_leaf("start", 1e-3), make_leaf("end", 1.01e-3)),
        ("subnormal", make_leaf("start", 1e-44), make_leaf("end", 1e-44)),
        ("one block large", make_leaf("start", 1.0), large),
        ("cut off", huge, bytes(1024)),
        ("infinite difference", huge, float32.pack_bits([0xFF7FFFFF] * 256)),
        ("negative infinite difference", float32.pack_bits([0xFF7FFFFF] * 256), huge),
        ("one block cut off", huge[:256] + make_leaf("start", 1.0)[256:], make_leaf("end", 1.0)),
        ("a final weight that is infinite", bytes(1024), float32.pack_bits([0] * 255 + [0x7F800000])),
        ("a final weight that is no number", bytes(1024), float32.pack_bits([0x7FC00000] + [0] * 255)),
        ("a global weight that is infinite", float32.pack_bits([0xFF800000] * 256), bytes(1024)),
    ]:
        delta = _encode_leaf(start, end)
        table.add(name, globalLeaf=start, finalLeaf=end, isFinite=bool(delta), deltaLeaf=delta)
    return table


def _encode_leaf(start: bytes, end: bytes) -> bytes:
    try:
        return pseudo_gradient.compute_delta_leaf(start, end)
    except ProtocolFault:
        return b""


def _mean_cases() -> Iterable[tuple[str, list[int]]]:
    largest = pseudo_gradient.dequantise(-128, 71)
    yield "one", [bits(0.3)]
    yield "three", [bits(1.0), bits(2.0**-24), bits(2.0**-24)]
    yield "the order matters", [bits(2.0**-24), bits(2.0**-24), bits(1.0)]
    yield "cancels to +0", [bits(1.5), bits(-1.5)]
    yield "64 of the largest", [largest] * 64
    yield "underflows to -0", [0x80000001] + [0] * 63
    yield "subnormal tie", [1, 0]
    yield "subnormal tie to even", [3, 0]
    for n in (2, 5, 7, 63, 64):
        yield (
            f"random {n}",
            [
                pseudo_gradient.dequantise(number(f"m/{n}/{i}", 255) - 127, -number(f"e/{n}/{i}", 20))
                for i in range(n)
            ],
        )


def _steps() -> Table:
    table, eta, mu = Table(), bits(0.7), bits(0.9)
    cases: list[tuple[str, int, int, list[int], int, int]] = [
        ("no claim", bits(0.1), bits(0.2), [], eta, mu),
        ("first step", bits(0.1), 0, [bits(0.003)], eta, mu),
        ("negative zero weight", 0x80000000, 0, [0], eta, mu),
        ("no momentum", bits(-0.1), bits(0.2), [bits(0.003), bits(-0.001)], eta, 0),
        ("subnormal", 5, 3, [1, 0x80000002], eta, mu),
        ("momentum overflows: kept", bits(1.0), MAX_FINITE, [bits(2.0**113)], bits(1.0), 0x3F7FFFFF),
        ("momentum overflows by a step: kept", bits(1.0), MAX_FINITE, [0x73000000] * 2, bits(1.0), bits(1.0)),
        ("the step overflows: kept", bits(1.0), MAX_FINITE, [bits(2.0**113)], bits(4.0), mu),
        ("the weight overflows: kept", MAX_FINITE, bits(-(2.0**125)), [bits(-(2.0**113))], bits(1.0), mu),
        ("64 of the largest", bits(1.0), 0, [pseudo_gradient.dequantise(-128, 71)] * 64, eta, mu),
    ]
    for i in range(24):
        deltas = [
            pseudo_gradient.dequantise(number(f"q/{i}/{j}", 255) - 127, -12 - i) for j in range(1 + i % 5)
        ]
        weight, momentum = (
            bits((number(f"w/{i}", 2001) - 1000) / 997),
            bits((number(f"v/{i}", 2001) - 1000) / 99_991),
        )
        cases.append((f"random {i}", weight, momentum, deltas, eta, mu))
    for name, weight, momentum, deltas, rate, factor in cases:
        new_weight, new_momentum = outer_update.compute_outer_element(weight, momentum, deltas, rate, factor)
        cells = {"weight": weight, "momentum": momentum, "delta": deltas, "learningRate": rate}
        table.add(name, **cells, momentumFactor=factor, newWeight=new_weight, newMomentum=new_momentum)
    return table


def _leaf_steps() -> Table:
    table, eta, mu = Table(), bits(0.7), bits(0.9)
    start = make_leaf("start", 1e-3)
    claims = [pseudo_gradient.compute_delta_leaf(start, make_leaf(f"claim/{i}", 1.01e-3)) for i in range(3)]
    for name, momentum, leaves in [
        ("none included", make_leaf("mom", 1e-5), []),
        ("first round", bytes(1024), claims[:1]),
        ("three claims", make_leaf("mom", 1e-5), claims),
        ("bytes that no honest claim has", make_leaf("mom", 1e-5), [b"\xdc" + b"\x80" * 64 + claims[0][65:]]),
        ("a scale that no encoding has", make_leaf("mom", 1e-5), [b"\xdd" + claims[1][1:], claims[0]]),
        ("the largest byte as scale", make_leaf("mom", 1e-5), [b"\xff" + b"\x80" * 64 + claims[0][65:]]),
    ]:
        new_weights, new_momentum = outer_update.compute_outer_leaf(start, momentum, leaves, eta, mu)
        before = {"weights": start, "momentum": momentum, "deltaLeaf": leaves, "learningRate": eta}
        table.add(name, **before, momentumFactor=mu, newWeights=new_weights, newMomentum=new_momentum)
    return table
