"""Makes the cases of tests/vectors/randomness.json.

Randomness comes from real headers of Anvil and from published rounds of drand's quicknet.
"""

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from tools.vectors.fixed_values import ROUND_1000, TIMESTAMP_S, word
from tools.vectors.table import Table
from touchstone.protocol.spec import quicknet

EMPTY_TRIE = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
NO_UNCLES = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")
NO_REQUESTS = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
MIX_HASH = 13


def randomness_tables() -> dict[str, Table]:
    """Returns valid and invalid headers, rounds by time, and signatures as points."""
    return {
        "headers": _headers(),
        "refusedHeaders": _refused_headers(),
        "rounds": _rounds(),
        "beacons": _beacons(),
    }


def make_cancun_fields() -> list[bytes]:
    """Returns block 1 of `anvil --hardfork cancun --timestamp 1692806302` after one transfer (version
    1.7.1)."""
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
"""The hash of that block, as Anvil gave it."""


def _make_prague_fields() -> list[bytes]:
    """Returns the same block under prague: with another parent, state and randao, and the hash of requests at
    the end."""
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
    """Returns headers that no chain has, because they would have to be its block's preimage."""
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
    """Returns round 1000 as published, and its negative, which is a point of the group too, with the other
    half's flag."""
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
