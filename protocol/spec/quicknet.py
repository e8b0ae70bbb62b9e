"""Computes with rounds of drand's quicknet, for proofs of randomness (docs/spec.md, section 4).

Twin: `Quicknet.sol`. Scheme bls-unchained-g1-rfc9380. Only the contract decides whether a signature is
drand's. This module neither verifies a signature nor trusts the server that sent it.
"""

from hashlib import sha256

from touchstone.protocol.spec.errors import InvalidInput

CHAIN_HASH = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
GENESIS_S = 1_692_803_367
PERIOD_S = 3
MARGIN_S = 60
"""Seconds from a block to its drand round: five slots of Ethereum."""
SIGNATURE_BYTES = 48
FIELD_BYTES = 64
"""The bytes of a field element as EIP-2537 has it: big endian, the upper 16 bytes zero."""
_MODULUS = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
_COMPRESSED, _INFINITY, _LARGER = 0x80, 0x40, 0x20


def compute_round_after(timestamp_s: int) -> int:
    """Returns the first round that is due at least a margin after a block's time (Unix seconds)."""
    late_s = max(timestamp_s + MARGIN_S - GENESIS_S, 0)
    return -(-late_s // PERIOD_S) + 1


def compute_due_s(round_number: int) -> int:
    """Returns when drand signs a round, in Unix seconds."""
    return GENESIS_S + (round_number - 1) * PERIOD_S


def compute_randomness(signature: bytes) -> bytes:
    """Returns the SHA-256 of a round's signature (48 bytes), which drand publishes as the randomness."""
    return sha256(signature).digest()


def mix(prevrandao: bytes, signature: bytes) -> bytes:
    """Returns the randomness of a block, mixed with a drand round."""
    return sha256(prevrandao + compute_randomness(signature)).digest()


def expand_point(signature: bytes) -> bytes:
    """Returns a compressed point of G1 (48 bytes) as x and y, 64 bytes each (EIP-2537).

    Raises InvalidInput if the bytes are no point of the curve y^2 = x^3 + 4."""
    head = signature[0] if signature else 0
    x = int.from_bytes(bytes([head & 0x1F]) + signature[1:], "big")
    square = (pow(x, 3, _MODULUS) + 4) % _MODULUS
    y = pow(square, (_MODULUS + 1) // 4, _MODULUS)
    is_plain = len(signature) == SIGNATURE_BYTES and head & (_COMPRESSED | _INFINITY) == _COMPRESSED
    if not is_plain or x >= _MODULUS or y * y % _MODULUS != square:
        raise InvalidInput(
            what="this is no signature of drand's quicknet",
            expected=f"{SIGNATURE_BYTES} bytes, a compressed point of G1",
            actual=f"{len(signature)} bytes, {signature[:8].hex()}...",
            remedy="Ask another server of drand.",
        )
    if (y > _MODULUS // 2) != bool(head & _LARGER):
        y = _MODULUS - y
    return x.to_bytes(FIELD_BYTES, "big") + y.to_bytes(FIELD_BYTES, "big")
