"""Cases of audit_draw.json, tolerance.json and randomness.json: draws, and what they are drawn by.

Randomness comes from real headers of Anvil and from published rounds of drand's quicknet.
"""

from collections.abc import Iterable

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from tools.vectors.encoding_cases import MAX_FINITE
from tools.vectors.fixed_values import LIMITS, ROUND_1000, TIMESTAMP_S, WIDER, bits, word
from tools.vectors.table import Table, make_leaf
from touchstone.protocol.spec import audit_draws, float32, quicknet, round_seeds, shard_draws, tolerance
from touchstone.protocol.spec.hashing import tag_word
from touchstone.protocol.spec.task_spec import Limits


def audit_draw_tables() -> dict[str, Table]:
    """Every draw of a round, with claims too short for their draws and pools at their least size."""
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
    """Pools larger than, as large as and smaller than three times the round's draws."""
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
        shard = list(shard_draws.deal_shards(beacon, count))
        table.add(f"{count} solvers", beacon=beacon, solverCount=count, shard=shard)
    return table


NONE = Limits(0, 0, 0, 0, 0, 0)
WIDEST = Limits(2**64 - 1, 2**160 - 1, 2**64 - 1, 2**160 - 1, 2**64 - 1, 2**64 - 1)
RATE = 2**64 // 1000
ElementCase = tuple[str, list[int], list[int], int, Limits]


def _element_cases() -> Iterable[ElementCase]:
    base = [bits(0.25), bits(1e-4), bits(1e-6)]
    yield "equal", base, base, RATE, LIMITS
    yield "equal under no limits", base, base, 0, NONE
    yield "zeros of both signs", [0x80000000] * 3, [0, 0, 0], 0, NONE
    for i, name in enumerate(("weight", "first moment", "second moment")):
        for ulps in (1, 2, 8, 64, 1024, 1 << 14):
            claimed = [b + ulps * (i == j) for j, b in enumerate(base)]
            yield f"{name} off by {ulps} ulp", claimed, base, RATE, LIMITS
            yield f"{name} off by {ulps} ulp, wider limits", claimed, base, RATE, WIDER
    yield from _edge_cases(base)
    yield from _large_cases(base)
    yield from _negative_cases(base)
    yield from _not_finite_cases(base)


def _edge_cases(base: list[int]) -> Iterable[ElementCase]:
    one_off = [base[0] + 1, base[1], base[2]]
    # One unit in the last place of 1/4 is 2^-23 of it.
    exact, short = Limits(0, 0, 0, 0, 0, 2**41), Limits(0, 0, 0, 0, 0, 2**41 - 1)
    yield "exactly at the limit", one_off, base, 0, exact
    yield "one unit beyond", one_off, base, 0, short
    # Patterns below 2^23 count units of 2^-149.
    half = Limits(2**63, 2**20, 0, 0, 0, 0)
    for units, place in ((2**19, "exactly at the limit"), (2**19 + 1, "one unit beyond")):
        yield f"first moment {place}", [0, units, 0], [0, 0, 0], 0, half
        yield f"second moment {place}", [0, 0, units], [0, 0, 0], 0, Limits(0, 0, 0, 2**19, 0, 0)
    largest = bits(2.0**64) - 1
    opposite = [largest | 1 << 31, 0, largest]
    yield "the largest values that are not cut off", [largest, largest, largest], opposite, RATE, LIMITS
    yield "the widest limits", [largest, largest, largest], [0, 0, largest], 2**128 - 1, WIDEST
    yield "a capped learning rate", one_off, base, 2**256 - 1, LIMITS
    yield "the cap itself", one_off, base, 2**128 - 1, LIMITS
    yield "no second moment", [0, 5, 0], [0, 0, 0], 0, LIMITS
    yield "the least second moment", [0, 1, 1], [0, 0, 1], 0, LIMITS
    yield "a first moment beside a tiny second", [0, bits(1e-9), 1], [0, 0, 1], 0, LIMITS


def _large_cases(base: list[int]) -> Iterable[ElementCase]:
    """Every finite element has a judgement: numbers are cut off at 2^64."""
    minus, edge = 1 << 31, bits(2.0**64)
    values = [
        ("2^64", edge),
        ("-2^64", edge | minus),
        ("3.4e38", MAX_FINITE),
        ("-3.4e38", MAX_FINITE | minus),
    ]
    for name, value in values:
        for i in range(3):
            spoiled = [value if i == j else b for j, b in enumerate(base)]
            yield f"both {name} in tensor {i}, no limits", spoiled, spoiled, 0, NONE
            yield f"claimed {name} in tensor {i}", spoiled, base, RATE, WIDER
            yield f"replayed {name} in tensor {i}", base, spoiled, RATE, WIDER
            opposite = [value ^ minus if i == j else b for j, b in enumerate(base)]
            yield f"{name} of both signs in tensor {i}", spoiled, opposite, RATE, WIDER
    below = [edge - 1] * 3
    yield "both cut off", [edge + 5, edge + 7, edge + 9], [MAX_FINITE] * 3, 0, NONE
    yield "just below and cut off, no limits", below, [MAX_FINITE] * 3, 0, NONE
    yield "just below and cut off", below, [MAX_FINITE] * 3, 0, LIMITS
    yield (
        "everything at its largest",
        [MAX_FINITE | minus] * 2 + [MAX_FINITE],
        [MAX_FINITE] * 3,
        2**256 - 1,
        WIDEST,
    )
    # m is not cut off where v' is: a difference of some ulps of m = 2^40 beside v' = 2^80.
    for far in (1, 64, 1 << 14):
        first, second = bits(2.0**40), bits(2.0**80)
        yield (
            f"m off by {far} ulp beside v of 2^80",
            [0, first + far, second],
            [0, first, second],
            RATE,
            LIMITS,
        )
    for power in (63, 64, 65, 127):
        second = bits(2.0**power)
        allowed = tolerance.compute_allowances(tolerance.Element(0, 0, second), 0, LIMITS)[1]
        inside = float32.round_to_bits(allowed * float32.UNIT)
        for moment, place in ((inside - 1, "just inside"), (inside + 1, "just beyond")):
            yield f"first moment {place}, v = 2^{power}", [0, moment, second], [0, 0, second], 0, LIMITS


def _negative_cases(base: list[int]) -> Iterable[ElementCase]:
    """A negative v is judged by its distance, but for one beside a v' that is not negative."""
    minus = 1 << 31
    negative = base[2] | minus
    for ulps in (0, 1, 64, 1 << 14):
        claimed = [base[0], base[1], negative + ulps]
        yield f"both v negative, {ulps} ulp apart", claimed, [base[0], base[1], negative], RATE, LIMITS
    yield "m beside a negative v", [0, bits(1e-9), negative], [0, 0, negative], RATE, LIMITS
    yield "v of the wrong sign, claimed negative", [*base[:2], negative], base, RATE, WIDER
    yield "v of the wrong sign, replayed negative", base, [*base[:2], negative], RATE, WIDER
    floor = Limits(0, 0, 0, 2**20, 0, 0)
    yield "a negative v inside the floor", [0, 0, 3 | minus], [0, 0, 7], 0, floor
    yield "a replayed negative v inside the floor", [0, 0, 3], [0, 0, 7 | minus], 0, floor
    yield "both negative inside the floor", [0, 0, 3 | minus], [0, 0, 7 | minus], 0, floor
    yield "zeros of v inside the floor", [0, 0, minus], [0, 0, 7], 0, floor
    yield "negative beside a zero of v", [0, 0, 7 | minus], [0, 0, minus], 0, floor


def _not_finite_cases(base: list[int]) -> Iterable[ElementCase]:
    for name, pattern in (("NaN", 0x7FC00000), ("infinity", 0x7F800000)):
        for i in range(3):
            spoiled = [pattern if i == j else b for j, b in enumerate(base)]
            yield f"claimed {name} in tensor {i}", spoiled, base, RATE, WIDEST
            yield f"replayed {name} in tensor {i}", base, spoiled, RATE, WIDEST
            yield f"both {name} in tensor {i}", spoiled, spoiled, RATE, WIDEST
    negative = [base[0], base[1], base[2] | 1 << 31]
    yield "a negative second moment", negative, base, RATE, WIDEST
    yield "the least negative second moment", [0, 0, 0x80000001], [0, 0, 0], RATE, WIDEST


def tolerance_tables() -> dict[str, Table]:
    """Elements at, just inside and just beyond the limits, and everything that no limits fit."""
    elements, roots = Table(), Table()
    for name, claimed, replayed, rate, limits in _element_cases():
        pair = tolerance.Element(*claimed), tolerance.Element(*replayed)
        is_beyond = tolerance.is_element_beyond(*pair, rate, limits)
        is_finite = all(map(float32.is_finite, pair[1]))
        allowed = tolerance.compute_allowances(pair[1], rate, limits) if is_finite else (0, 0, 0)
        inputs = {"claimed": claimed, "replayed": replayed, "learningRateSum": rate}
        elements.add(name, **inputs, limits=_limit_list(limits), allowed=list(allowed), beyond=is_beyond)
    for units in (0, 1, 2, 3, 4, 2**43, 2**149, 10**12, 2**212 + 12345, 2**213 - 2**189, 2**213 - 1):
        roots.add(str(units), secondMoment=units, root=tolerance.compute_root_up(units))
    return {"elements": elements, "roots": roots, "leaves": _tolerance_leaves()}


def _limit_list(limits: Limits) -> list[int]:
    return [limits.tau_m, limits.eps_m, limits.tau_v, limits.floor_v, limits.tau_w, limits.tau_r]


def _tolerance_leaves() -> Table:
    table = Table()
    second = float32.pack_bits([b & 0x7FFFFFFF for b in float32.unpack_bits(make_leaf("v", 1e-6))])
    honest = [make_leaf("w", 1e-3), make_leaf("m", 1e-5), second]
    cases = [("equal", honest), ("padding only", [bytes(1024)] * 3)]
    for tensor, name in enumerate(("weights", "first moment", "second moment")):
        for ulps, size in ((1, "one ulp"), (1 << 20, "far")):
            spoiled = list(honest)
            patterns = float32.unpack_bits(honest[tensor])
            patterns[255] += ulps
            spoiled[tensor] = float32.pack_bits(patterns)
            cases.append((f"last element of the {name} off by {size}", spoiled))
    for name, claimed in cases:
        replayed = claimed if name == "padding only" else honest
        pair = tolerance.StateLeaf(*claimed), tolerance.StateLeaf(*replayed)
        is_beyond = tolerance.is_leaf_beyond(*pair, RATE, LIMITS)
        inputs = {"claimed": claimed, "replayed": replayed, "learningRateSum": RATE}
        table.add(name, **inputs, limits=_limit_list(LIMITS), beyond=is_beyond)
    return table


EMPTY_TRIE = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
NO_UNCLES = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")
NO_REQUESTS = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
MIX_HASH = 13


def randomness_tables() -> dict[str, Table]:
    """Headers that are sound and that are not, rounds by time, signatures as points."""
    return {
        "headers": _headers(),
        "refusedHeaders": _refused_headers(),
        "rounds": _rounds(),
        "beacons": _beacons(),
    }


def make_cancun_fields() -> list[bytes]:
    """Block 1 of `anvil --hardfork cancun --timestamp 1692806302` after one transfer (version 1.7.1)."""
    words = {
        "parent": "e4b87601b4058786e5d7fd86d4c3c830bb2fecb25ec014a47277a91f4a4bf2c3",
        "state": "47a51018117e1390ec277e295f9f1bc311a93add28a4756c2171f93ff5b9558c",
        "transactions": "fba49b3226e22682ea11c07deea19ad2bed822bfa3f18533523ba44ca96d25d4",
        "receipts": "f78dfb743fbd92ade140711c8bbc542b5e307f0ab7984eff35d751969fe57efa",
        "randao": "46316009da9a4b075ceec43c21595789639b3a18d0b947b5c765f48f4fca715b",
    }
    parent, state, transactions, receipts, randao = map(bytes.fromhex, words.values())
    return [
        parent, NO_UNCLES, bytes(20), state, transactions, receipts, bytes(256), b"", _number(1),
        _number(30_000_000), _number(21_000), _number(TIMESTAMP_S), b"", randao, bytes(8),
        _number(1_000_000_000), EMPTY_TRIE, b"", b"", bytes(32),
    ]  # fmt: skip


CANCUN_HASH = bytes.fromhex("477832cb29f98b17ae1cecd51db1af4f3749ead1111f816d53eb6d9bcadbed14")
"""What Anvil said the hash of that block was."""


def _make_prague_fields() -> list[bytes]:
    """The same under prague: another parent, state and randao, and the requests' hash behind."""
    fields = make_cancun_fields()
    fields[0] = bytes.fromhex("c8a9a8a7eeb0b640cbe0a9ce0dc7a8b1a40e8952a85dd4f99a3ec99305c0aafc")
    fields[3] = bytes.fromhex("6ad8104a49d5a4128e3992ca766c49c6df65ccaa6ca78e56826bdb383f7535ea")
    fields[MIX_HASH] = bytes.fromhex("23cf0dd31a0e9e3b54a0c681b210623aced3be7946474f9a2452c0b3728df0e0")
    return [*fields, NO_REQUESTS]


PRAGUE_HASH = bytes.fromhex("7fc9227d261a29c0619d1c87ecaa5b911c9be871c1c523888d9e5ed26cdeb5ab")


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _headers() -> Table:
    table = Table()
    paris = make_cancun_fields()[:16]
    busy = [*paris[:6], b"\xff" * 256, *paris[7:12], b"x" * 32, *paris[13:]]
    zeros = [*paris[:MIX_HASH], bytes(31) + b"\x01", *paris[MIX_HASH + 1 :]]
    for name, fields, expected_hash in [
        ("anvil, cancun", make_cancun_fields(), CANCUN_HASH),
        ("anvil, prague", _make_prague_fields(), PRAGUE_HASH),
        ("16 fields, as of London", paris, None),
        ("15 fields, as before London", paris[:15], None),
        ("full bloom and extra data", busy, None),
        ("a fork to come: more fields behind", [*_make_prague_fields(), word("list"), b"\x07"], None),
        ("a value with leading zeros", zeros, None),
    ]:
        header = rlp.encode(fields)
        assert expected_hash in (None, keccak(header)), name
        table.add(
            name, header=header, hash=keccak(header), prevrandao=fields[MIX_HASH], timestamp=TIMESTAMP_S
        )
    return table


def _refused_headers() -> Table:
    """No chain has these: they would have to be its block's preimage."""
    table = Table()
    fields = make_cancun_fields()
    sound: bytes = rlp.encode(fields)
    payload = sound[3:]
    changed = {
        "a byte too many": sound + b"\x00",
        "a byte short": sound[:-1],
        "a length with a leading zero": b"\xfa\x00" + len(payload).to_bytes(2, "big") + payload,
        "a string, not a list": b"\xb9" + sound[1:],
        "14 fields": rlp.encode(fields[:14]),
        "a prevrandao of 31 bytes": rlp.encode([*fields[:MIX_HASH], bytes(31), *fields[MIX_HASH + 1 :]]),
        "a prevrandao of 33 bytes": rlp.encode([*fields[:MIX_HASH], bytes(33), *fields[MIX_HASH + 1 :]]),
        "a prevrandao that is a list": rlp.encode(
            [*fields[:MIX_HASH], [b"\x01"] * 32, *fields[MIX_HASH + 1 :]]
        ),
        "a prevrandao that ends behind the header": rlp.encode(fields[:MIX_HASH])[:-1] + b"\xa0",
        "extra data that ends behind the header": rlp.encode(fields[: MIX_HASH - 1])[:-1] + b"\x90",
        "a bloom of another length": rlp.encode([*fields[:6], bytes(255), *fields[7:]]),
        "a difficulty of 60 bytes": rlp.encode([*fields[:7], b"\x01" * 60, *fields[8:]]),
        "nothing": b"",
        "an empty list": b"\xc0",
    }
    for name, header in changed.items():
        table.add(name, header=header)
    return table


def _rounds() -> Table:
    table = Table()
    genesis, margin = quicknet.GENESIS_S, quicknet.MARGIN_S
    times = [0, genesis - margin - 1, genesis - margin, genesis - margin + 1, genesis - margin + 3]
    for timestamp in [*times, genesis, TIMESTAMP_S, TIMESTAMP_S + 1, TIMESTAMP_S + 3, 1_800_000_000, 2**32]:
        table.add(f"time {timestamp}", timestamp=timestamp, round=quicknet.compute_round_after(timestamp))
    return table


def _beacons() -> Table:
    """Round 1000 as published; its negative is a point of the group too, with the other half's flag."""
    table = Table()
    negative = bytes([ROUND_1000[0] ^ 0x20]) + ROUND_1000[1:]
    for name, signature, is_signed in [("round 1000", ROUND_1000, True), ("its negative", negative, False)]:
        table.add(
            name,
            round=1000,
            point=quicknet.expand_point(signature),
            isSigned=is_signed,
            randomness=quicknet.compute_randomness(signature),
            prevrandao=word("prevrandao"),
            mixed=quicknet.mix(word("prevrandao"), signature),
        )
    return table
