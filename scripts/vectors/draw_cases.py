"""Cases of tests/vectors/draw.json."""

from protocol.spec import draw
from protocol.spec.hashing import hash_words
from protocol.spec.params import TAG_UNIFORM
from scripts.vectors.table import Table, word


def draw_tables() -> dict[str, Table]:
    """Every draw, with sizes at their edges and bounds that force rejected attempts."""
    return {
        "seeds": _seeds(),
        "uniform": _uniform(),
        "distinct": _distinct(),
        "shards": _shards(),
        "segments": _segments(),
        "auditors": _auditors(),
        "late": _late(),
        "leaves": _leaf_draws(),
        "samples": _samples(),
    }


def _seeds() -> Table:
    table = Table()
    for i, (round_number, slot) in enumerate([(0, 0), (1, 63), (2**32 - 1, 7)]):
        domain, randomness = word(f"domain/{i}"), word(f"randomness/{i}")
        seed = draw.compute_draw_seed(domain, round_number, randomness)
        leaf_seeds = [draw.compute_leaf_seed(domain, round_number, phase, randomness) for phase in range(3)]
        table.add(
            f"round {round_number}",
            domain=domain,
            round=round_number,
            randomness=randomness,
            slot=slot,
            beacon=draw.compute_beacon(domain, round_number, randomness),
            drawSeed=seed,
            lateSeed=draw.compute_late_seed(domain, round_number, randomness),
            leafSeedPrimary=leaf_seeds[0],
            leafSeedReserves=leaf_seeds[1],
            leafSeedLate=leaf_seeds[2],
            slotSeed=draw.compute_slot_seed(seed, slot),
        )
    return table


def _uniform() -> Table:
    table = Table()
    bounds = [1, 2, 3, 7, 64, 1000, 2**32, 2**128 + 1, 2**255, 2**255 + 1, 2**256 - 1, 2**256 // 3 + 1]
    cases = [(n, counter) for n in bounds for counter in (0, 1)] + [(2**255 + 1, c) for c in range(2, 10)]
    for i, (n, counter) in enumerate(cases):
        seed, value = word(f"uniform/{i}"), draw.draw_uniform(word(f"uniform/{i}"), counter, n)
        attempts = 0
        while int.from_bytes(hash_words(TAG_UNIFORM, seed, counter, attempts), "big") >= 2**256 - 2**256 % n:
            attempts += 1
        name = f"case {i}, {attempts} rejected"
        table.add(name, seed=seed, counter=counter, n=n, attempts=attempts, value=value)
    return table


def _distinct() -> Table:
    table = Table()
    for i, (counter, count, n) in enumerate(
        [(0, 0, 1), (0, 1, 1), (5, 3, 3), (0, 3, 10), (1000, 16, 4096), (0, 8, 9)]
    ):
        seed = word(f"distinct/{i}")
        drawn = draw.draw_distinct(seed, counter, count, n)
        table.add(f"{count} of {n}", seed=seed, counter=counter, count=count, n=n, drawn=drawn)
    return table


def _shards() -> Table:
    table = Table()
    for slot, count in [(0, 1), (0, 5), (4, 5), (63, 64), (2, 3)]:
        beacon = word(f"shard/{count}")
        shard = draw.draw_shard(beacon, slot, count)
        table.add(f"slot {slot} of {count}", beacon=beacon, slot=slot, solverCount=count, shard=shard)
    return table


def _segments() -> Table:
    table = Table()
    for i, (draws, count) in enumerate([(1, 1), (1, 7), (2, 3), (2, 4), (3, 5), (3, 10), (5, 9), (20, 500)]):
        seed = word(f"segments/{i}")
        drawn = draw.draw_segments(seed, draws, count)
        table.add(f"{draws} of {count}", slotSeed=seed, draws=draws, segmentCount=count, drawn=drawn)
    return table


def _auditors() -> Table:
    table = Table()
    for i, (index, count) in enumerate([(0, 3), (1, 3), (0, 4), (2, 64), (19, 999)]):
        seed = word(f"auditors/{i}")
        drawn = draw.draw_auditors(seed, index, count)
        table.add(f"draw {index} of {count}", slotSeed=seed, draw=index, verifierCount=count, drawn=drawn)
    return table


def _late() -> Table:
    table = Table()
    cases = [
        ("always", 65_536, [0, 2], 6, 3),
        ("never", 0, [0, 2], 6, 3),
        ("no whistleblower", 65_536, [1], 4, 0),
        ("every segment drawn", 65_536, [0], 1, 2),
        ("one undrawn", 65_536, [0, 2], 3, 1),
    ] + [(f"half, {i}", 32_768, [1, 4, 6], 10, 2) for i in range(8)]
    for i, (name, rate, drawn, segments, whistleblowers) in enumerate(cases):
        seed = word(f"late/{i}")
        audit = draw.draw_late_audit(seed, i, rate, drawn, segments, whistleblowers)
        table.add(
            name,
            lateSeed=seed,
            slot=i,
            lateRate=rate,
            segmentCount=segments,
            whistleblowerCount=whistleblowers,
            drawn=drawn,
            isDrawn=audit is not None,
            segment=audit.segment if audit else 0,
            whistleblower=audit.whistleblower if audit else 0,
        )
    return table


def _leaf_draws() -> Table:
    table = Table()
    for i, (slot, index, draws, count) in enumerate(
        [(0, 0, 4, 1), (1, 2, 4, 4), (63, 3, 8, 4000), (5, 255, 1, 2)]
    ):
        seed = word(f"leaves/{i}")
        drawn = draw.draw_leaves(seed, slot, index, draws, count)
        name = f"{draws} of {count}"
        table.add(name, leafSeed=seed, slot=slot, draw=index, leafDraws=draws, leafCount=count, drawn=drawn)
    return table


def _samples() -> Table:
    table = Table()
    for i, (shard, step, row, tokens, length) in enumerate(
        [(0, 0, 0, 2, 1), (3, 7, 5, 1 << 20, 128), (63, 499, 31, 10**9, 1024)]
    ):
        beacon = word(f"sample/{i}")
        start = draw.draw_sample_start(beacon, shard, step, row, tokens, length)
        cells = {"shard": shard, "step": step, "row": row, "tokenCount": tokens, "sequenceTokens": length}
        table.add(f"sample {i}", beacon=beacon, **cells, start=start)
    return table
