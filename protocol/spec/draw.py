"""Every random choice of the protocol (docs/spec.md, section 4), from seeds that nobody could choose. Twin:
`Draw.sol`.

A seed hangs on the randomness of a block that was fixed before anyone knew it; all that follows is a keyed
hash of that seed, so that each node and the contract deal the same cards. Rejection sampling keeps every
choice exactly uniform.
"""

from protocol.spec.errors import InvalidInput
from protocol.spec.hashing import hash_words
from protocol.spec.params import TAG_SAMPLE, TAG_SLOT, TAG_UNIFORM


def _require(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(what=what, expected=expected, actual=actual, remedy="Check the task's terms.")


# --- Seeds --------------------------------------------------------------------------------------------------
def compute_slot_seed(seed: bytes, slot: int) -> bytes:
    """The part of a round's seed that belongs to one slot."""
    return hash_words(TAG_SLOT, seed, slot)


# --- Choices ------------------------------------------------------------------------------------------------
def draw_uniform(seed: bytes, counter: int, n: int) -> int:
    """An unbiased integer in 0 .. n-1: the first hash below the largest multiple of n, modulo n."""
    _require(1 <= n < 1 << 256, "a draw needs something to draw from", "1 <= n < 2^256", n)
    bound = (1 << 256) - (1 << 256) % n
    attempt = 0
    while True:
        x = int.from_bytes(hash_words(TAG_UNIFORM, seed, counter, attempt), "big")
        if x < bound:
            return x % n
        attempt += 1


def draw_distinct(seed: bytes, counter: int, count: int, n: int) -> list[int]:
    """`count` distinct integers in 0 .. n-1 in the order drawn, uniform over such sequences (Fisher-Yates,
    cut short)."""
    _require(0 <= count <= n, "cannot draw more than there are", f"0 <= count <= {n}", count)
    moved: dict[int, int] = {}  # the identity permutation, but for the positions that were swapped
    drawn = []
    for i in range(count):
        j = i + draw_uniform(seed, counter + i, n - i)
        drawn.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return drawn


def draw_shard(beacon: bytes, slot: int, solver_count: int) -> int:
    """Shard of a slot: a rotation of all solvers by one uniform offset."""
    _require(0 <= slot < solver_count, "no such slot", f"0 <= slot < {solver_count}", slot)
    return (slot + draw_uniform(beacon, 0, solver_count)) % solver_count


def draw_sample_start(
    beacon: bytes, shard: int, step: int, row: int, token_count: int, sequence_tokens: int
) -> int:
    """First token of row `row` of inner step `step` (0-based in the round); its labels are the next
    tokens."""
    _require(
        token_count > sequence_tokens,
        "the dataset is shorter than a row",
        f"more than {sequence_tokens}",
        token_count,
    )
    return draw_uniform(hash_words(TAG_SAMPLE, beacon, shard, step), row, token_count - sequence_tokens)
