"""Simulates rounds in blocks: how long each part takes in a setting, and what a solver waits for.

Transfers take time by bandwidth, the node's own work by its speed. A solver trains round r + 1 from the model
that r gives if all its claims are accepted. So it needs every pseudo-gradient of r, which is served from the
close of r. Its claim of r + 1 goes to the chain once r has its root: draw, states, replay and votes of r must
be over by then, or it waits.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor

import torch

from touchstone.protocol.compute.digest import build_delta_tree, build_tensor_tree
from touchstone.protocol.compute.outer.nesterov_step import OuterState, merge
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.spec.float32 import float_to_bits, nearest
from touchstone.protocol.spec.game.presets import WINDOWS_2S, WINDOWS_12S

ELEMENTS = 1 << 22
CLAIMS = 4
REPEATS = 3
RATES = (float_to_bits(nearest(0.7)), float_to_bits(nearest(0.6)))


@dataclass(frozen=True)
class Constants:
    """Speeds of this implementation on one core (`measure_constants`; docs/decisions/0036-utilisation.md says
    how the defaults were measured), and delays of a node in seconds. `notice_s` is from a block to the node's
    next move, `send_s` from sending a transaction until a block can hold it, `message_s` for a question to a
    peer and its answer. `merge_elements_s` counts elements of claims that are decoded and added."""

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
    """A chain's time: seconds between blocks. A draw takes the randomness of the first block from `delay`
    blocks after the close on whose number is a multiple of `grid`."""

    block_s: float
    delay: int
    grid: int


BLOCKS = {
    seconds: Blocks(float(seconds), windows.delay, windows.draw_grid)
    for seconds, windows in ((2, WINDOWS_2S), (12, WINDOWS_12S))
}
"""The chain's time by seconds between blocks, with the default windows of tasks (docs/spec.md, section
15)."""


@dataclass(frozen=True)
class Setting:
    """Who trains what over which network. `up_bytes_s` and `down_bytes_s` are the speeds of each node's link.
    `segments` is n, `draws` q. `spread` is how far the training times of solvers differ. `cores` hash, encode
    and merge on a node. `delta_bytes` is a parameter's share of a pseudo-gradient. `is_stored`:
    pseudo-gradients go once into a store that all read, instead of once to each solver. `are_ends_equal`: an
    auditor's end has the claim's root, so no end state is sent. `is_ahead`: solvers train before the round
    before has its root."""

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
"""Bytes of a parameter: weights and two moments as float32."""
WEIGHT_BYTES = 4
OUTER_BYTES = 8
"""Bytes of a parameter: the global model and its momentum."""


def to_bytes_s(mbit_s: float) -> float:
    """Converts Mbit/s to bytes a second."""
    return mbit_s * 1e6 / 8


# Measuring
def measure_constants(elements: int = ELEMENTS, repeats: int = REPEATS) -> Constants:
    """Measures hashing, encoding and merging in processor time, the best of some runs each, so that other
    programs do not count. The other constants keep their defaults."""
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
    """Returns the least processor seconds of some runs."""
    seconds = []
    for _ in range(repeats):
        started_s = time.thread_time()
        call()
        seconds.append(time.thread_time() - started_s)
    return min(seconds)


# Simulating
CHAIN = "blocks"
EXCHANGE = "exchange of pseudo-gradients"
STATES = "states for audits"
HASHING = "hashing"
MERGING = "encoding and merging"
REPLAY = "replay"
SPREAD = "slowest solver"
PARTS = (CHAIN, EXCHANGE, STATES, HASHING, MERGING, REPLAY)
"""The possible bottlenecks. The slowest solver is none: it takes the same share of a round of any length."""


@dataclass(frozen=True)
class Durations:
    """Seconds of the parts of a round. `boundary`: to hash a state; `conclude`: from the end of training to a
    claim; `exchange`: until every solver has all pseudo-gradients; `merge`: until the next round's training
    can begin; `start` and `end`: until the auditors of a claim have what they need before and after their
    replay; `check`: to hash and compare it then."""

    boundary: float
    conclude: float
    exchange: float
    merge: float
    start: float
    end: float
    check: float


def compute_durations(setting: Setting, constants: Constants, free: frozenset[str]) -> Durations:
    """Computes all of them; parts in `free` take no time."""
    hashing, merging = HASHING not in free, MERGING not in free
    cores, params = setting.cores, setting.parameters
    state = hashing * STATE_BYTES * params / constants.hash_bytes_s / cores
    outer = hashing * OUTER_BYTES * params / constants.hash_bytes_s / cores
    delta = hashing * setting.delta_bytes * params / constants.hash_delta_bytes_s / cores
    encode = merging * params / constants.encode_elements_s / cores
    merge = merging * setting.solvers * params / constants.merge_elements_s / cores
    start, end = compute_state_bytes(setting)
    is_sent = STATES not in free
    return Durations(
        boundary=state,
        conclude=max(state, encode) + delta,
        exchange=0.0 if EXCHANGE in free else compute_exchange(setting),
        merge=(setting.solvers - 1) * delta + merge + outer,
        start=is_sent * compute_transfer(setting, start) + state,
        end=is_sent * compute_transfer(setting, end),
        check=(0 if setting.are_ends_equal else 1) * state + outer / 2 + delta + encode,
    )


def compute_exchange(setting: Setting) -> float:
    """Returns the seconds until all solvers have all pseudo-gradients. Each is sent to every other solver, or
    once to the store, and each solver receives all but its own."""
    size = setting.delta_bytes * setting.parameters
    sent = size if setting.is_stored else (setting.solvers - 1) * size
    return max(sent / setting.up_bytes_s, (setting.solvers - 1) * size / setting.down_bytes_s)


def compute_state_bytes(setting: Setting) -> tuple[float, float]:
    """Returns the bytes that one auditor of a claim gets before and after its replay: the start and the
    round's model; the end if roots differ, the final weights, the pseudo-gradient."""
    end = 0 if setting.are_ends_equal else STATE_BYTES
    before, after = STATE_BYTES + WEIGHT_BYTES, end + WEIGHT_BYTES + setting.delta_bytes
    return before * setting.parameters, after * setting.parameters


def compute_transfer(setting: Setting, size: float) -> float:
    """Returns the seconds until all auditors of a claim have `size` bytes each, from its solver alone."""
    return max(setting.draws * size / setting.up_bytes_s, size / setting.down_bytes_s)


ROUNDS, WARM_UP = 40, 4
GOLDEN = 0.6180339887498949
"""The golden ratio: its multiples, modulo 1, fill the unit interval evenly."""
NOTHING: frozenset[str] = frozenset()
INSTANT = Blocks(0.0, 0, 0)


@dataclass(frozen=True)
class Result:
    """The result over the rounds after the warm-up: training time over all time, mean seconds from close to
    close, and mean seconds that claims waited for the root of the round before."""

    utilisation: float
    period_s: float
    waited_s: float


@dataclass(frozen=True)
class Times:
    """The times of a round. `trained_s` is the sum over all solvers, `waited_s` how long claims waited for
    the root that they need, `closed_s` the time of the closing block."""

    trained_s: float
    waited_s: float
    closed_s: float


def simulate(
    setting: Setting, constants: Constants, train_s: float, free: frozenset[str] = NOTHING
) -> Result:
    """Simulates rounds whose training takes `train_s`; parts in `free` take no time."""
    told = list(play_rounds(setting, constants, train_s, free))[WARM_UP - 1 :]
    wall_s = told[-1].closed_s - told[0].closed_s
    counted = told[1:]
    trained_s = sum(one.trained_s for one in counted)
    return Result(
        trained_s / (setting.solvers * wall_s),
        wall_s / len(counted),
        sum(one.waited_s for one in counted) / len(counted),
    )


def play_rounds(
    setting: Setting, constants: Constants, train_s: float, free: frozenset[str]
) -> Iterator[Times]:
    """Yields every round; all solvers have the model of the first one."""
    took = compute_durations(setting, constants, free)
    blocks = INSTANT if CHAIN in free else setting.blocks
    spread = 0.0 if SPREAD in free else setting.spread
    replay_s = 0.0 if REPLAY in free else constants.replay_share * train_s / setting.segments
    start_s, opened_s = 0.0, 0.0
    for index in range(ROUNDS):
        seconds = [train_s * draw_factor(index, slot, spread) for slot in range(setting.solvers)]
        ready_s = start_s + stretch(max(seconds), took.boundary, setting.segments) + took.conclude
        closed_s = find_block(blocks, max(ready_s, opened_s + constants.notice_s) + constants.send_s)
        yield Times(sum(seconds), max(0.0, opened_s + constants.notice_s - ready_s), closed_s)
        exchanged_s = closed_s + constants.notice_s + constants.message_s + took.exchange
        opened_s = find_root(blocks, constants, took, closed_s, exchanged_s, replay_s)
        start_s = exchanged_s + took.merge
        if not setting.is_ahead:
            start_s = max(start_s, opened_s + constants.notice_s)


def draw_factor(index: int, slot: int, spread: float) -> float:
    """Returns the factor on a solver's training time in a round: evenly spread, never the same twice."""
    return 1 + spread * (2 * ((index * 64 + slot) * GOLDEN % 1.0) - 1)


def stretch(train_s: float, boundary_s: float, segments: int) -> float:
    """Returns the training time of a round. Its boundaries are hashed one at a time beside it; the last one
    is hashed afterwards and not included."""
    return train_s / segments + (segments - 1) * max(train_s / segments, boundary_s)


def find_root(
    blocks: Blocks,
    constants: Constants,
    took: Durations,
    closed_s: float,
    exchanged_s: float,
    replay_s: float,
) -> float:
    """Returns when a closed round has its root: draw, start states (after the pseudo-gradients on the same
    link), replay, end states, votes, signatures."""
    sealed_s = find_block(blocks, find_grid(blocks, closed_s) + constants.notice_s + constants.send_s)
    started_s = max(sealed_s + constants.notice_s + constants.message_s, exchanged_s) + took.start
    replayed_s = started_s + replay_s + took.boundary
    voted_s = replayed_s + constants.message_s + took.end + took.check + constants.message_s
    return find_block(blocks, voted_s + constants.message_s + constants.send_s)


def find_block(blocks: Blocks, ready_s: float) -> float:
    """Returns when the first block after this moment is made."""
    if not blocks.block_s:
        return ready_s
    return (floor(ready_s / blocks.block_s) + 1) * blocks.block_s


def find_grid(blocks: Blocks, closed_s: float) -> float:
    """Returns when the block is made whose randomness draws the audits."""
    if not blocks.block_s:
        return closed_s
    from_block = round(closed_s / blocks.block_s) + blocks.delay
    return ceil(from_block / blocks.grid) * blocks.grid * blocks.block_s
