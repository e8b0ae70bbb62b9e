"""Chooses the shard of each solver in a round, and the first token of each row.

The choices follow docs/spec.md, section 4. Twin: `Draw.shard` and `Draw.sampleStart` in `Draw.sol`. They
follow from the round's beacon: a rotation of the slots, and a place in the dataset for each row.
"""

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import TAG_SAMPLE
from touchstone.protocol.spec.uniform_draw import draw_uniform


def _require(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(what=what, expected=expected, actual=actual, remedy="Check the task's terms.")


def draw_shard(beacon: bytes, slot: int, solver_count: int) -> int:
    """Returns the shard of a slot: all slots are rotated by one uniform offset."""
    _require(0 <= slot < solver_count, "no such slot", f"0 <= slot < {solver_count}", slot)
    return (slot + draw_uniform(beacon, 0, solver_count)) % solver_count


def draw_sample_start(
    beacon: bytes, shard: int, step: int, row: int, token_count: int, sequence_tokens: int
) -> int:
    """Returns the number of the first token of row `row` of inner step `step` (0-based in the round). Its
    labels are the next tokens."""
    _require(
        token_count > sequence_tokens,
        "the dataset is shorter than a row",
        f"more than {sequence_tokens}",
        token_count,
    )
    return draw_uniform(hash_words(TAG_SAMPLE, beacon, shard, step), row, token_count - sequence_tokens)


def assign_shards(beacon: bytes, solver_count: int) -> tuple[int, ...]:
    """Returns the shard of each slot: all slots rotated by one uniform offset.

    A permutation would be no better. A shard is a number that goes into the hash of each sample
    (`draw_sample_start`), so samples of neighbouring shards are unrelated. One offset costs the contract one
    hash, whichever slot it asks about."""
    if solver_count < 1:
        raise InvalidInput(
            what="a round without solvers",
            expected="at least 1",
            actual=solver_count,
            remedy="Check the task's terms and the frozen pool.",
        )
    offset = draw_uniform(beacon, 0, solver_count)
    return tuple((slot + offset) % solver_count for slot in range(solver_count))
