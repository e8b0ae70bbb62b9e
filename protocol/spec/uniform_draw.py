"""Makes uniform choices from a seed: numbers below n, and several distinct ones (docs/spec.md, section 4).

Twin: `Draw.uniform` in `Draw.sol`. Every choice is a keyed hash of a seed, so each node and the contract
choose alike. It is exactly uniform, because `draw_uniform` rejects the hashes that would make it uneven.
"""

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import TAG_UNIFORM


def _require(condition: bool, what: str, expected: str, actual: object) -> None:
    if not condition:
        raise InvalidInput(what=what, expected=expected, actual=actual, remedy="Check the task's terms.")


def draw_uniform(seed: bytes, counter: int, n: int) -> int:
    """Returns an unbiased integer in 0 .. n-1: the first hash below the largest multiple of n, modulo n."""
    _require(1 <= n < 1 << 256, "a draw needs something to draw from", "1 <= n < 2^256", n)
    bound = (1 << 256) - (1 << 256) % n
    attempt = 0
    while True:
        x = int.from_bytes(hash_words(TAG_UNIFORM, seed, counter, attempt), "big")
        if x < bound:
            return x % n
        attempt += 1


def draw_distinct(seed: bytes, counter: int, count: int, n: int) -> list[int]:
    """Returns `count` distinct integers in 0 .. n-1 in the order drawn, uniform over such sequences
    (Fisher-Yates, cut short)."""
    _require(0 <= count <= n, "cannot draw more than there are", f"0 <= count <= {n}", count)
    moved: dict[int, int] = {}  # The identity permutation, except for the swapped positions.
    drawn = []
    for i in range(count):
        j = i + draw_uniform(seed, counter + i, n - i)
        drawn.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return drawn
