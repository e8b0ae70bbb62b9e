"""How long each part of a round takes in a setting: transfers by bandwidth, the node's own work by speed."""

from dataclasses import dataclass

from benchmarks.utilisation_model.constants import (
    OUTER_BYTES,
    STATE_BYTES,
    WEIGHT_BYTES,
    Constants,
    Setting,
)

BLOCKS = "blocks"
EXCHANGE = "exchange of pseudo-gradients"
STATES = "states for audits"
HASHING = "hashing"
MERGING = "encoding and merging"
REPLAY = "replay"
SPREAD = "slowest solver"
PARTS = (BLOCKS, EXCHANGE, STATES, HASHING, MERGING, REPLAY)
"""What can be the bottleneck. The slowest solver takes the same share of a round of any length."""


@dataclass(frozen=True)
class Durations:
    """Seconds. boundary: to hash a state; conclude: from the end of training to a claim; exchange: until
    every solver has all pseudo-gradients; merge: until the next round's training can begin; start, end: until
    the auditors of a claim have what they need before and after their replay; check: what they hash and
    compare then."""

    boundary: float
    conclude: float
    exchange: float
    merge: float
    start: float
    end: float
    check: float


def compute_durations(setting: Setting, constants: Constants, free: frozenset[str]) -> Durations:
    """All of them; parts in `free` take no time."""
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
    """Seconds until all solvers have all pseudo-gradients: each is sent to every other solver, or once to the
    store, and each solver receives all but its own."""
    size = setting.delta_bytes * setting.parameters
    sent = size if setting.is_stored else (setting.solvers - 1) * size
    return max(sent / setting.up_bytes_s, (setting.solvers - 1) * size / setting.down_bytes_s)


def compute_state_bytes(setting: Setting) -> tuple[float, float]:
    """What one auditor of a claim gets before and after its replay: the start and the round's model; the end
    where roots differ, the final weights, the pseudo-gradient."""
    end = 0 if setting.are_ends_equal else STATE_BYTES
    before, after = STATE_BYTES + WEIGHT_BYTES, end + WEIGHT_BYTES + setting.delta_bytes
    return before * setting.parameters, after * setting.parameters


def compute_transfer(setting: Setting, size: float) -> float:
    """Seconds until all auditors of a claim have so many bytes each, from its solver alone."""
    return max(setting.draws * size / setting.up_bytes_s, size / setting.down_bytes_s)
