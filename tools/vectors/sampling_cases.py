"""Makes the cases of tests/vectors/draw.json."""

from tools.vectors.fixed_values import word
from tools.vectors.table import Table
from touchstone.protocol.spec import shard_draws, uniform_draw
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import TAG_UNIFORM


def draw_tables() -> dict[str, Table]:
    """Returns every draw, with sizes at their edges and bounds that force rejected attempts."""
    return {
        "uniform": _uniform(),
        "shards": _shards(),
        "samples": _samples(),
    }


def _uniform() -> Table:
    table = Table()
    bounds = [1, 2, 3, 7, 64, 1000, 2**32, 2**128 + 1, 2**255, 2**255 + 1, 2**256 - 1, 2**256 // 3 + 1]
    cases = [(n, counter) for n in bounds for counter in (0, 1)] + [(2**255 + 1, c) for c in range(2, 10)]
    for i, (n, counter) in enumerate(cases):
        seed, value = word(f"uniform/{i}"), uniform_draw.draw_uniform(word(f"uniform/{i}"), counter, n)
        attempts = 0
        while int.from_bytes(hash_words(TAG_UNIFORM, seed, counter, attempts), "big") >= 2**256 - 2**256 % n:
            attempts += 1
        name = f"case {i}, {attempts} rejected"
        table.add(name, seed=seed, counter=counter, n=n, attempts=attempts, value=value)
    return table


def _shards() -> Table:
    table = Table()
    for slot, count in [(0, 1), (0, 5), (4, 5), (63, 64), (2, 3)]:
        beacon = word(f"shard/{count}")
        shard = shard_draws.draw_shard(beacon, slot, count)
        table.add(f"slot {slot} of {count}", beacon=beacon, slot=slot, solverCount=count, shard=shard)
    return table


def _samples() -> Table:
    table = Table()
    for i, (shard, step, row, tokens, length) in enumerate(
        [(0, 0, 0, 2, 1), (3, 7, 5, 1 << 20, 128), (63, 499, 31, 10**9, 1024)]
    ):
        beacon = word(f"sample/{i}")
        start = shard_draws.draw_sample_start(beacon, shard, step, row, tokens, length)
        cells = {"shard": shard, "step": step, "row": row, "tokenCount": tokens, "sequenceTokens": length}
        table.add(f"sample {i}", beacon=beacon, **cells, start=start)
    return table
