"""What a round of the simulation is made of: how fast nodes are, how large things are, how many take part."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from protocol.compute.digest import build_delta_tree, build_tensor_tree
from protocol.compute.outer.outer_tensors import OuterState, encode_delta, merge
from protocol.spec.float32 import float_to_bits, nearest

ELEMENTS = 1 << 22
CLAIMS = 4
REPEATS = 3
RATES = (float_to_bits(nearest(0.7)), float_to_bits(nearest(0.6)))


@dataclass(frozen=True)
class Constants:
    """Speeds of this implementation on one core (`measure_constants`; the defaults were measured as
    docs/decisions/0036-utilisation.md says), and delays of a node (seconds): notice_s from a block to the
    node's next move, send_s from the wish for a transaction until a block can hold it, message_s for a
    question to a peer and its answer. merge_elements_s: elements of claims that are decoded and added."""

    hash_bytes_s: float = 6.0e8
    hash_delta_bytes_s: float = 2.2e8
    encode_elements_s: float = 2.0e8
    merge_elements_s: float = 7.8e7
    replay_share: float = 1.0
    notice_s: float = 0.5
    send_s: float = 0.5
    message_s: float = 0.2


@dataclass(frozen=True)
class Blocks:
    """A chain's time: seconds between blocks; the randomness of a draw is that of the first multiple of
    `grid` from `delay` blocks after the close."""

    block_s: float
    delay: int
    grid: int


BLOCKS = {2: Blocks(2.0, 12, 24), 12: Blocks(12.0, 4, 8)}
"""By seconds: the windows that tasks take unless told otherwise (docs/spec.md, section 15)."""


@dataclass(frozen=True)
class Setting:
    """Who trains what over which network. up_bytes_s, down_bytes_s: of each node; segments: n; draws: q;
    spread: how far training times of solvers differ; cores: on which a node hashes, encodes and merges;
    delta_bytes: a parameter's share of a pseudo-gradient; is_stored: pseudo-gradients go once into a store
    that all read, in the place of once to each solver; are_ends_equal: an auditor's end has the claim's root,
    so that no end state is sent; is_ahead: solvers train before the round before has its root."""

    parameters: float
    up_bytes_s: float
    down_bytes_s: float
    blocks: Blocks
    solvers: int = 4
    segments: int = 8
    draws: int = 2
    spread: float = 0.02
    cores: int = 1
    delta_bytes: float = 1.02
    is_stored: bool = False
    are_ends_equal: bool = False
    is_ahead: bool = True


STATE_BYTES = 12
"""of a parameter: weights and two moments as float32."""
WEIGHT_BYTES = 4
OUTER_BYTES = 8
"""of a parameter: the global model and its momentum."""


def to_bytes_s(mbit_s: float) -> float:
    """Bytes a second of so many Mbit/s."""
    return mbit_s * 1e6 / 8


# --- Measuring ----------------------------------------------------------------------------------------------
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
