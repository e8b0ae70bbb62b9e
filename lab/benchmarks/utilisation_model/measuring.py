"""The constants of the simulation, as this machine has them on one core."""

import time
from collections.abc import Callable

import torch

from lab.benchmarks.utilisation_model.constants import Constants
from protocol.compute.digest import build_delta_tree, build_tensor_tree
from protocol.compute.outer.outer_tensors import OuterState, encode_delta, merge
from protocol.spec.float32 import float_to_bits, nearest

ELEMENTS = 1 << 22
CLAIMS = 4
REPEATS = 3
RATES = (float_to_bits(nearest(0.7)), float_to_bits(nearest(0.6)))


def measure_constants(elements: int = ELEMENTS, repeats: int = REPEATS) -> Constants:
    """Hashing, encoding and merging, in processor time, the best of some runs each: what others do on the
    machine meanwhile is not the node's. Everything else as `Constants` has it."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    before = torch.randn(elements, generator=generator)
    after = before + 1e-3 * torch.randn(elements, generator=generator)
    delta = encode_delta(before, after)
    state = OuterState(before, torch.zeros_like(before))
    hash_s = time_best(lambda: build_tensor_tree(before), repeats)
    delta_s = time_best(lambda: build_delta_tree(delta), repeats)
    return Constants(
        hash_bytes_s=4 * elements / hash_s,
        hash_delta_bytes_s=len(delta) / delta_s,
        encode_elements_s=elements / time_best(lambda: encode_delta(before, after), repeats),
        merge_elements_s=CLAIMS
        * elements
        / time_best(lambda: merge(state, [delta] * CLAIMS, *RATES), repeats),
    )


def time_best(call: Callable[[], object], repeats: int) -> float:
    """Processor seconds of the cheapest of some runs."""
    seconds = []
    for _ in range(repeats):
        started_s = time.thread_time()
        call()
        seconds.append(time.thread_time() - started_s)
    return min(seconds)
