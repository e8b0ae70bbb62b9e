"""Makes the cases of tests/vectors/audit_draw.json."""

from tools.vectors.fixed_values import word
from tools.vectors.table import Table
from touchstone.protocol.spec import audit_draws, round_seeds, shard_draws
from touchstone.protocol.spec.hashing import tag_word


def audit_draw_tables() -> dict[str, Table]:
    """Returns every draw of a round, with claims too short for their draws and pools at their least size."""
    return {
        "seeds": _seeds(),
        "grids": _grids(),
        "segments": _segments(),
        "permutations": _permutations(),
        "places": _places(),
        "late": _late(),
        "shards": _shards(),
    }


def _seeds() -> Table:
    table = Table()
    for i, round_number in enumerate([0, 1, 2**32 - 1]):
        domain, randomness = word(f"audit/domain/{i}"), word(f"audit/randomness/{i}")
        table.add(
            f"round {round_number}",
            domain=domain,
            round=round_number,
            randomness=randomness,
            seed=round_seeds.compute_round_seed(domain, round_number, randomness),
            beacon=round_seeds.compute_round_beacon(domain, round_number, randomness),
        )
    return table


def _grids() -> Table:
    table = Table()
    for from_block, grid in [(0, 8), (1, 8), (7, 8), (8, 8), (9, 8), (5, 1), (10**9 + 1, 300)]:
        block = round_seeds.compute_grid_block(from_block, grid)
        table.add(f"from {from_block} in {grid}", fromBlock=from_block, grid=grid, block=block)
    return table


def _segments() -> Table:
    table = Table()
    short = [(3, count) for count in (1, 2, 3, 4, 5, 6)]
    tight = [(draws, 3 * draws - 2) for draws in (2, 3, 4, 5, 20)] * 3
    wide = [(1, 7), (2, 10), (5, 64), (20, 500), (20, 60)]
    for i, (draws, count) in enumerate(short + tight + wide):
        seed, slot = word(f"circle/{i}"), i * 7 % 64
        drawn = list(audit_draws.draw_circle_segments(seed, slot, draws, count))
        cells = {"seed": seed, "slot": slot, "draws": draws, "segmentCount": count, "count": len(drawn)}
        table.add(f"case {i}: {draws} of {count}", **cells, drawn=drawn)
    return table


def _permutations() -> Table:
    table = Table()
    sizes = [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (12, 12),
        (64, 64),
        (200, 200),
        (3, 0),
        (12, 3),
        (64, 24),
        (500, 24),
    ]
    for i, (size, count) in enumerate(sizes):
        for role in (audit_draws.VERIFIER_POOL, audit_draws.WHISTLEBLOWER_POOL):
            seed = word(f"permutation/{i}")
            order = list(audit_draws.compute_permutation(seed, role, size, count))
            name = f"{count} of {size}, {role}"
            table.add(name, seed=seed, role=tag_word(role), size=size, count=count, order=order)
    return table


def _places() -> Table:
    """Returns pools larger than, as large as and smaller than three times the round's draws."""
    table = Table()
    for size, slot, draw, draws, slots in [
        (3, 0, 0, 1, 1), (3, 63, 0, 1, 64), (4, 0, 0, 1, 1), (5, 9, 0, 1, 10), (6, 2, 1, 2, 3),
        (7, 63, 1, 2, 64), (8, 0, 0, 1, 2), (8, 1, 0, 1, 2), (8, 2, 0, 1, 3), (9, 2, 0, 1, 3),
        (10, 2, 0, 1, 3), (60, 63, 19, 20, 64), (61, 12, 7, 20, 13), (60, 0, 19, 20, 1), (999, 63, 2, 3, 64),
        (575, 63, 2, 3, 64), (577, 63, 2, 3, 64),
    ]:  # fmt: skip
        place = list(audit_draws.get_auditor_places(size, slot, draw, draws, slots))
        name = f"draw {draw} of {draws}, slot {slot} of {slots}, {size} seats"
        cells = {"size": size, "slot": slot, "draw": draw, "draws": draws, "slots": slots}
        table.add(name, **cells, count=audit_draws.count_places(size, draws * slots), place=place)
    return table


def _late() -> Table:
    table = Table()
    cases: list[tuple[str, int, tuple[int, ...], int, int]] = [
        ("always", 65_536, (2, 0), 6, 3),
        ("never", 0, (0, 2), 6, 3),
        ("every segment drawn", 65_536, (0,), 1, 3),
        ("one undrawn", 65_536, (2, 0, 3), 4, 3),
        ("the first of many", 65_536, (0, 1, 2, 3), 6, 7),
        ("nothing drawn", 65_536, (), 5, 3),
    ]
    cases += [(f"half, {i}", 32_768, (6, 1, 4), 10, 5) for i in range(12)]
    for i, (name, chance, drawn, count, size) in enumerate(cases):
        seed = word(f"late draw/{i}")
        slots = i + 1 + i % 3
        late = audit_draws.draw_late(seed, i, chance, drawn, count, size, slots)
        table.add(
            name,
            seed=seed,
            slot=i,
            chance=chance,
            segmentCount=count,
            size=size,
            slots=slots,
            drawn=list(drawn),
            isDrawn=late is not None,
            segment=late.segment if late else 0,
            place=list(late.places) if late else [0, 0, 0],
        )
    return table


def _shards() -> Table:
    table = Table()
    for count in (1, 2, 5, 64):
        beacon = word(f"deal/{count}")
        shard = list(shard_draws.assign_shards(beacon, count))
        table.add(f"{count} solvers", beacon=beacon, solverCount=count, shard=shard)
    return table
