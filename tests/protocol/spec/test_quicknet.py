"""The rounds of quicknet: which one belongs to a block, and its signature as a point."""

from hashlib import sha256

import pytest
from py_ecc.bls.point_compression import decompress_G1
from py_ecc.bls.typing import G1Compressed
from py_ecc.optimized_bls12_381.optimized_curve import normalize

from protocol.spec import quicknet
from protocol.spec.errors import InvalidInput
from tests.fixed_values import ROUND_1000, TIMESTAMP_S

PUBLISHED = "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd"


def test_the_randomness_is_the_published_one() -> None:
    assert quicknet.compute_randomness(ROUND_1000).hex() == PUBLISHED
    assert quicknet.mix(bytes(32), ROUND_1000) == sha256(bytes(32) + bytes.fromhex(PUBLISHED)).digest()


@pytest.mark.parametrize("later_s", range(7))
def test_the_round_is_due_a_margin_after_the_block_and_the_one_before_is_not(later_s: int) -> None:
    timestamp_s = TIMESTAMP_S + later_s
    found = quicknet.compute_round_after(timestamp_s)
    assert (
        quicknet.compute_due_s(found) >= timestamp_s + quicknet.MARGIN_S > quicknet.compute_due_s(found - 1)
    )


def test_before_the_first_round_there_is_the_first() -> None:
    assert (
        quicknet.compute_round_after(0)
        == 1
        == quicknet.compute_round_after(quicknet.GENESIS_S - quicknet.MARGIN_S)
    )
    assert quicknet.compute_round_after(TIMESTAMP_S) == 1000


@pytest.mark.parametrize("flip", [0x00, 0x20])
def test_a_point_is_what_py_ecc_makes_of_it(flip: int) -> None:
    signature = bytes([ROUND_1000[0] ^ flip]) + ROUND_1000[1:]
    x, y = normalize(decompress_G1(G1Compressed(int.from_bytes(signature, "big"))))
    assert quicknet.expand_point(signature) == int(x).to_bytes(64, "big") + int(y).to_bytes(64, "big")


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        ROUND_1000[:-1],
        ROUND_1000 + b"\x00",
        bytes([ROUND_1000[0] & 0x7F]) + ROUND_1000[1:],
        b"\xc0" + bytes(47),
        b"\x9f" + b"\xff" * 47,
        # x = 1: 1 + 4 = 5 is no square.
        b"\x80" + bytes(46) + b"\x01",
    ],
    ids=["nothing", "short", "long", "not compressed", "infinity", "beyond the modulus", "off the curve"],
)
def test_bytes_that_are_no_point_are_refused(signature: bytes) -> None:
    with pytest.raises(InvalidInput, match="no signature of drand"):
        quicknet.expand_point(signature)
