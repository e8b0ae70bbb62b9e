"""The hash H: SHA-256 over 32-byte words, by which all protocol hashes are made (docs/spec.md, section 2).

It equals `sha256(abi.encode(...))` in Solidity, so a contract and a node agree without a codec between
them.
"""

from hashlib import sha256

from touchstone.protocol.spec.errors import InvalidInput

WORD_BYTES = 32


def sha256_of(data: bytes) -> bytes:
    """Returns the SHA-256 of raw bytes (FIPS 180-4)."""
    return sha256(data).digest()


def tag_word(name: str) -> bytes:
    """Returns a domain tag: ASCII, right-padded with zero bytes to one word, as `bytes32("...")` in
    Solidity."""
    encoded = name.encode("ascii")
    if not 1 <= len(encoded) <= WORD_BYTES:
        raise InvalidInput(
            what="a tag is one word",
            expected="1 to 32 ASCII characters",
            actual=repr(name),
            remedy="Shorten it.",
        )
    return encoded.ljust(WORD_BYTES, b"\0")


def integer_word(value: int) -> bytes:
    """Returns an unsigned integer below 2^256, big-endian and left-padded to one word."""
    if not 0 <= value < 1 << 256:
        raise InvalidInput(
            what="an integer word is unsigned",
            expected="0 .. 2^256 - 1",
            actual=value,
            remedy="Check its origin.",
        )
    return value.to_bytes(WORD_BYTES, "big")


def address_word(address: str) -> bytes:
    """Returns a 20-byte account address, written `0x` and 40 hexadecimal digits of any case, left-padded to
    one word."""
    digits = address[2:]
    if address[:2] != "0x" or len(digits) != 40 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise InvalidInput(
            what="not an account address",
            expected="0x and 40 hexadecimal digits",
            actual=repr(address),
            remedy="Copy the address as the wallet or the chain shows it.",
        )
    return bytes.fromhex(digits).rjust(WORD_BYTES, b"\0")


def bytes32_word(value: bytes) -> bytes:
    """Returns a root, hash, salt or other word unchanged. Requires exactly 32 bytes."""
    if len(value) != WORD_BYTES:
        raise InvalidInput(
            what="a word is not 32 bytes long",
            expected="32 bytes",
            actual=f"{len(value)} bytes",
            remedy="Check its origin.",
        )
    return bytes(value)


def hash_words(tag: str, *fields: int | bytes | str) -> bytes:
    """Returns H(tag, fields...): integers as unsigned words, bytes as bytes32, strings as account
    addresses."""
    return sha256_of(join_words(tag, *fields))


def join_words(tag: str, *fields: int | bytes | str) -> bytes:
    """Returns the bytes that `hash_words` hashes. They show the contents of a hash."""
    return tag_word(tag) + b"".join(map(field_word, fields))


def field_word(field: int | bytes | str) -> bytes:
    """Returns one field of H as a word, by its Python type: int, bytes (bytes32) or str (address)."""
    if isinstance(field, int):
        return integer_word(field)
    return bytes32_word(field) if isinstance(field, bytes) else address_word(field)
