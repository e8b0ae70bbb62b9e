"""Computes the hashes of a task's domain, states, boundaries, schedule and steps.

Rules: docs/spec.md, sections 2 and 3. Each hash is H of `hashing.py` with its own tag. An account that has
the hashed words can show them; for a state these are the STATE_BYTES that `decode_state` reads.
"""

from dataclasses import astuple

from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.hashing import WORD_BYTES, hash_words, join_words, sha256_of, tag_word
from touchstone.protocol.spec.params import (
    TAG_BOUNDARY,
    TAG_DOMAIN,
    TAG_OUTER,
    TAG_SCHEDULE,
    TAG_STATE,
    TAG_STEP,
)
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.task_spec import StepFacts

STATE_BYTES = 6 * WORD_BYTES
"""The bytes that are hashed to a state root."""


def compute_domain(chain_id: int, registry: str, task_id: bytes) -> bytes:
    """Returns the domain of a task's hashes. It separates equal tasks on other chains and in other
    deployments."""
    return hash_words(TAG_DOMAIN, chain_id, registry, task_id)


def compute_state_root(state: StateHeader) -> bytes:
    """Returns one root over weights, both moments and both step counters."""
    return sha256_of(encode_state(state))


def encode_state(state: StateHeader) -> bytes:
    """Returns the STATE_BYTES whose SHA-256 is the state root."""
    return join_words(TAG_STATE, *astuple(state))


def decode_state(data: bytes, source: str = "") -> StateHeader:
    """Returns the state of a state root. Raises ProtocolFault, with `source` as culprit, if the bytes are not
    from `encode_state`; then the root belongs to no state."""
    words = [data[start : start + WORD_BYTES] for start in range(0, len(data), WORD_BYTES)]
    steps = [int.from_bytes(word, "big") for word in words[4:]]
    if len(data) != STATE_BYTES or words[0] != tag_word(TAG_STATE) or max(steps) >= 1 << 64:
        raise _no_preimage(
            "a state root belongs to no state", "touchstone.state, three roots, two steps", data, source
        )
    return StateHeader(words[1], words[2], words[3], *steps)


def compute_outer_root(outer: OuterHeader) -> bytes:
    """Returns one root over the global model and the outer momentum."""
    return hash_words(TAG_OUTER, outer.weights_root, outer.momentum_root)


def compute_boundary_leaf(
    domain: bytes, round_number: int, solver: str, boundary: int, salt: bytes, state_root: bytes
) -> bytes:
    """Returns leaf `boundary` of a claim tree: the state after boundary * k steps, salted so that paths
    reveal nothing."""
    return hash_words(TAG_BOUNDARY, domain, round_number, solver, boundary, salt, state_root)


def _no_preimage(what: str, expected: str, data: bytes, source: str) -> ProtocolFault:
    return ProtocolFault(
        what=what,
        expected=expected,
        actual=data[: 2 * STATE_BYTES].hex(),
        culprit=source,
        remedy="Nothing can be replayed from it; report it as unserved.",
    )


def compute_schedule_leaf(segment_index: int, learning_rate_sum: int) -> bytes:
    """Returns a leaf of the schedule tree: the segment's number in the task and the sum of its learning
    rates, in units of 2^-64."""
    return hash_words(TAG_SCHEDULE, segment_index, learning_rate_sum)


def compute_step_root(facts: StepFacts) -> bytes:
    """Returns the root over all that a referee must know of the task's training steps."""
    return hash_words(TAG_STEP, *astuple(facts))
