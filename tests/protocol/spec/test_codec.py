"""Canonical bytes: one encoding a value, one value an encoding, and every other byte string refused."""

from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import pytest
from eth_abi.abi import encode as abi_encode
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.spec.sample import sample_task
from touchstone.protocol.spec import commitments, training_codec
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import bits_to_float, is_finite
from touchstone.protocol.spec.hashing import address_word, bytes32_word, hash_words, integer_word, tag_word
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.task_spec import StepFacts

TASK = sample_task()
TRAINING = training_codec.encode_training(TASK.training)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1).filter(lambda b: is_finite(b) and b != 1 << 31))
def test_training_round_trips(number: int, bits: int) -> None:
    schedule = replace(TASK.training.schedule, final_ratio=bits_to_float(bits))
    training = replace(TASK.training, initial_seed=number, schedule=schedule)
    assert training_codec.decode_training(training_codec.encode_training(training)) == training


@given(st.integers(0, len(TRAINING) - 1), st.integers(1, 255))
def test_a_flipped_training_byte_is_refused_or_another_value(position: int, change: int) -> None:
    """No two byte strings decode to one value: whatever the decoder takes, the encoder gives back."""
    spoiled = bytearray(TRAINING)
    spoiled[position] ^= change
    try:
        training = training_codec.decode_training(bytes(spoiled))
    except InvalidInput:
        return
    assert training_codec.encode_training(training) == bytes(spoiled)
    assert training != TASK.training


@given(st.binary(max_size=len(TRAINING) + 40))
def test_arbitrary_training_bytes_never_break_the_decoder(data: bytes) -> None:
    for candidate in (data, training_codec.TRAINING_HEADER + data):
        with pytest.raises(InvalidInput):
            training_codec.decode_training(candidate)


@pytest.mark.parametrize(
    ("field", "value"),
    [("token_count", 1 << 64), ("token_count", -1), ("token_count", 1.0), ("dataset_root", bytes(31))]
    + [("numeric_format", name) for name in ("", "Float32", "a" * 65, "fl\u00f6at")],
)
def test_training_without_a_canonical_form_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        training_codec.encode_training(replace(TASK.training, **{field: value}))


def test_negative_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match="negative zero"):
        training_codec.encode_training(replace(TASK.training, beta1=-0.0))


def test_every_hash_depends_on_every_field() -> None:
    account, root, salt = "0x" + "11" * 20, b"\1" * 32, b"\2" * 32
    hashes = [
        commitments.compute_domain(1, account, root),
        commitments.compute_domain(2, account, root),
        commitments.compute_domain(1, "0x" + "12" * 20, root),
        commitments.compute_boundary_leaf(root, 1, account, 2, salt, root),
        commitments.compute_boundary_leaf(root, 2, account, 1, salt, root),
        commitments.compute_boundary_leaf(root, 1, account, 2, root, salt),
        commitments.compute_schedule_leaf(1, 2),
        commitments.compute_schedule_leaf(2, 1),
        commitments.compute_state_root(StateHeader(root, salt, root, 1, 2)),
        commitments.compute_state_root(StateHeader(root, salt, root, 2, 1)),
        commitments.compute_outer_root(OuterHeader(root, salt)),
        commitments.compute_outer_root(OuterHeader(salt, root)),
    ]
    assert len(set(hashes)) == len(hashes)


def test_the_step_root_covers_every_fact() -> None:
    facts = StepFacts(b"\1" * 32, b"\2" * 32, b"\3" * 32, 4, 5, 0, 6, 7, 1, 8, 9, 10, 11)
    types = ["bytes32"] * 4 + ["uint32"] * 6 + ["uint64"] * 2 + ["uint32"] * 2
    words = [b"touchstone.step".ljust(32, b"\0"), *(getattr(facts, field.name) for field in fields(facts))]
    assert commitments.compute_step_root(facts) == sha256(abi_encode(types, words)).digest()
    changed = [
        replace(facts, **{field.name: b"9" * 32 if field.type is bytes else 99})  # type: ignore[arg-type]
        for field in fields(facts)
    ]
    assert len({*map(commitments.compute_step_root, [facts, *changed])}) == 1 + len(changed)


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
