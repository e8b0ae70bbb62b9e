"""The update of AdamW is IEEE 754 arithmetic, and what nodes run computes the same bits on every kernel."""

from hashlib import sha256

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.programs import NO_INDEX, build_update, run_python
from touchstone.protocol.compute.determinism import list_cpu_capabilities
from touchstone.protocol.compute.digest import tensor_bytes
from touchstone.protocol.compute.program.planning.flat_runs import TILE_ELEMENTS
from touchstone.protocol.spec import float32
from touchstone.protocol.spec.float32 import bits_to_float, float_to_bits, nearest, unpack_bits
from touchstone.step.optimizers import FLUSH_BELOW, AdamW, Vectors, clip, keep_finite

SCALARS = torch.tensor([1e-3, 0.1, 0.05])


def update(vectors: Vectors, gradient: Tensor, optimizer: AdamW, scalars: Tensor = SCALARS) -> Vectors:
    return optimizer.update((), vectors, gradient, scalars)


# The update, exactly
def grid(count: int, seed: int, scale: float) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * scale


def read_bits(values: Tensor) -> tuple[int, ...]:
    return tuple(unpack_bits(bytes(tensor_bytes(values.reshape(-1)))))


def round_root(x: int) -> int:
    return float_to_bits(nearest(bits_to_float(x) ** 0.5))


def list_shared(factor: int, scalars: tuple[int, ...], o: AdamW) -> dict[str, int]:
    """Bits of what all elements of an update share."""
    mul, one = float32.multiply, float_to_bits(1.0)
    first, second, decay, epsilon = (
        float_to_bits(nearest(value)) for value in (1 - o.beta1, 1 - o.beta2, o.weight_decay, o.epsilon)
    )
    rate, correction1, correction2 = scalars
    root = round_root(correction2)
    return {
        "first_scale": mul(factor, first),
        "second_scale": mul(mul(factor, factor), second),
        "decay": float32.subtract(one, mul(rate, decay)),
        "rate": mul(float32.divide(rate, correction1), root),
        "epsilon": mul(root, epsilon),
    }


def reference_update(element: tuple[int, ...], shared: dict[str, int], o: AdamW) -> tuple[int, ...]:
    """AdamW on bit patterns, each operation rounded once (`spec/float32.py`)."""
    w, m, v, g = element
    mul, add = float32.multiply, float32.add
    beta1, beta2 = (float_to_bits(nearest(beta)) for beta in o.betas)
    first = add(mul(m, beta1), mul(g, shared["first_scale"]))
    second = add(mul(v, beta2), mul(mul(g, g), shared["second_scale"]))
    first, second = (0 if abs(bits_to_float(x)) < FLUSH_BELOW else x for x in (first, second))
    direction = float32.divide(first, add(round_root(second), shared["epsilon"]))
    moved = float32.subtract(mul(w, shared["decay"]), mul(direction, shared["rate"]))
    return moved, first, second


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-14, 1e-20])
def test_update_equals_ieee_arithmetic(scale: float) -> None:
    w, m, v, g = grid(300, 1, 1.0), grid(300, 2, scale), grid(300, 3, scale).square(), grid(300, 4, scale)
    optimizer, scalars = AdamW(), torch.tensor([1e-3, 0.19, 0.0975])
    (factor,) = read_bits(clip(g, optimizer.clip_norm)[0])
    shared = list_shared(factor, read_bits(scalars), optimizer)
    result = map(read_bits, update((w, m, v), g, optimizer, scalars))
    rows = zip(*map(read_bits, (w, m, v, g)), strict=True)
    assert list(zip(*result, strict=True)) == [reference_update(row, shared, optimizer) for row in rows]


def test_tiny_moments_become_positive_zero() -> None:
    zero = torch.zeros(4)
    m = torch.tensor([-1e-31, 1e-31, 2.0**-99, -(2.0**-99)])
    _, first, second = update((zero, m, m.abs()), zero, AdamW())
    assert first[:2].view(torch.int32).tolist() == [0, 0] and bool((first[2:] != 0).all())
    assert second[:2].tolist() == [0, 0] and bool((second[2:] > 0).all())


@pytest.mark.parametrize("norm, expected", [(0.5, 1.0), (4.0, 0.25)])
def test_clip_scales_the_norm_down_only(norm: float, expected: float) -> None:
    gradient = torch.zeros(9)
    gradient[4] = norm
    assert tuple(map(float, clip(gradient, 1.0))) == (expected, norm)
    zero = torch.zeros(9)
    _, first, second = update((zero, zero, zero), gradient, AdamW())
    assert float(first[4]) == expected * norm * nearest(1 - AdamW().beta1)
    assert float(second[4]) == (expected * norm) ** 2 * nearest(1 - AdamW().beta2)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
def test_a_gradient_without_finite_norm_changes_nothing(bad: float) -> None:
    w, m, v, g = grid(50, 1, 1.0), grid(50, 2, 1.0), grid(50, 3, 1.0).square(), grid(50, 4, 1.0)
    g[7] = bad
    assert all(torch.equal(a, b) for a, b in zip(update((w, m, v), g, AdamW()), (w, m, v), strict=True))


def test_a_gradient_of_zero_only_decays() -> None:
    w, zero = grid(50, 1, 1.0), torch.zeros(50)
    scalars = torch.tensor([0.5, 0.1, 0.05])
    weights, first, second = update((w, zero, zero), zero, AdamW(weight_decay=0.5), scalars)
    assert torch.equal(weights, w * 0.75) and not first.any() and not second.any()


# The update as nodes run it
MANY = 300_000
assert MANY > 3 * TILE_ELEMENTS


def spread(seed: int, scale: float) -> Tensor:
    """Many numbers of both signs; the first third of them so small that their moments are flushed."""
    values = ((torch.arange(MANY) * (2 * seed + 40503) % 65521).float() - 32760.5) * scale
    values[: MANY // 3] *= 1e-28
    return values


def hash_updates(norm: float) -> tuple[str, str]:
    """Of new W, m and v: by the program, and in plain PyTorch."""
    optimizer = AdamW()
    w, m, v, g = spread(1, 1e-6), spread(2, 1e-9), spread(3, 1e-8).square(), spread(4, 1e-8)
    scalars = torch.tensor([*SCALARS, 0.7, norm])
    interpreter = build_update(g, optimizer)
    assert interpreter.arena_bytes < 4 * MANY, "no tiles"
    *ours, _ = interpreter.run((w, m, v), NO_INDEX, NO_INDEX, scalars)
    plain = keep_finite(scalars[4], optimizer.move((w, m, v), g, scalars[3], SCALARS), (w, m, v))
    assert torch.equal(plain[0], w) == (norm == float("inf"))
    assert bool((plain[1][: MANY // 3] == 0).all()) == (norm != float("inf"))
    return hash_all(ours), hash_all(plain)


def hash_all(tensors: list[Tensor] | Vectors) -> str:
    return sha256(b"".join(map(tensor_bytes, tensors))).hexdigest()


HASH_UPDATES = """
from touchstone.protocol.compute.determinism import pin_kernels
from tests.protocol.compute.program.test_adamw import hash_updates
for threads in (1, 2):
    pin_kernels(threads)
    print(*hash_updates(1.0), *hash_updates(float("inf")))
"""


def test_the_program_of_the_update_gives_the_same_bits_on_every_kernel() -> None:
    usual, stopped = hash_updates(1.0), hash_updates(float("inf"))
    assert len(set(usual)) == len(set(stopped)) == 1 and usual != stopped
    line = " ".join((*usual, *stopped))
    for name in list_cpu_capabilities():
        printed = run_python(HASH_UPDATES, ATEN_CPU_CAPABILITY=name, OMP_NUM_THREADS="2")
        assert printed.splitlines() == [line, line], name
