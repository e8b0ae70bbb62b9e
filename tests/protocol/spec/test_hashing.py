"""H: words as abi.encode lays them out."""

from hashlib import sha256

import pytest

from protocol.spec.errors import InvalidInput
from protocol.spec.hashing import address_word, bytes32_word, hash_words, integer_word, tag_word


def test_hash_words_is_sha256_of_padded_words() -> None:
    address = "0x" + "Ab" * 20
    message = b"a.tag".ljust(32, b"\0") + (7).to_bytes(32, "big") + b"\5" * 32 + bytes(12) + b"\xab" * 20
    assert hash_words("a.tag", 7, b"\5" * 32, address) == sha256(message).digest()


@pytest.mark.parametrize("value", [-1, 1 << 256])
def test_integers_outside_a_word_are_refused(value: int) -> None:
    with pytest.raises(InvalidInput, match="unsigned"):
        integer_word(value)


@pytest.mark.parametrize(
    "address", ["", "0x", "ab" * 20, "0x" + "ab" * 19, "0x" + "ag" * 20, "0x" + " " * 40]
)
def test_addresses_in_other_forms_are_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="account address"):
        address_word(address)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_words_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        bytes32_word(bytes(size))


@pytest.mark.parametrize("name", ["", "x" * 33])
def test_tags_are_one_word(name: str) -> None:
    with pytest.raises(InvalidInput):
        tag_word(name)
