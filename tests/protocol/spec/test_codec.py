"""Canonical bytes: one encoding a value, one value an encoding, and every other byte string refused."""

from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import pytest
from eth_abi.abi import encode as abi_encode
from hypothesis import given
from hypothesis import strategies as st

from protocol.spec import codec
from protocol.spec.containers import (
    Amounts,
    Limits,
    OuterHeader,
    StateHeader,
    StepFacts,
    TaskSpec,
    TaskTerms,
    Windows,
)
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import bits_to_float, is_finite
from protocol.spec.params import MAINNET
from scripts.vectors.sample import sample_task

TASK = sample_task()
TERMS = codec.encode_terms(TASK.terms)
TRAINING = codec.encode_training(TASK.training)


def abi_types() -> list[str]:
    """The struct of Types.sol as flat ABI types, written down apart from the codec."""
    limits = ["uint64", "uint160"] * 3
    return ["address"] + ["bytes32"] * 5 + ["uint32"] * 13 + ["uint32"] * 13 + ["uint128"] * 12 + limits * 2


def flat_values(container: object) -> list[object]:
    values: list[object] = []
    for field in fields(container):  # type: ignore[arg-type]
        value = getattr(container, field.name)
        nested = isinstance(value, (Windows, Amounts, Limits))
        values += flat_values(value) if nested else [value]
    return values


@pytest.mark.parametrize("spec", [TASK, sample_task(MAINNET, salt=b"\7" * 32)])
def test_terms_are_the_abi_encoding_of_the_struct(spec: TaskSpec) -> None:
    assert codec.encode_terms(spec.terms) == abi_encode(abi_types(), flat_values(spec.terms))


def test_task_round_trips_and_its_id_covers_both_parts() -> None:
    assert codec.decode_task(TERMS, TRAINING) == TASK
    assert codec.compute_task_id(TASK) == sha256(TERMS + TRAINING).digest()
    other = replace(TASK, training=replace(TASK.training, initial_seed=8))
    assert codec.compute_task_id(other) != codec.compute_task_id(TASK)


@given(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**128 - 1),
    st.integers(0, 2**64 - 1),
)
def test_terms_round_trip(salt: bytes, count: int, wei: int, tau: int) -> None:
    terms = replace(
        TASK.terms,
        salt=salt,
        parameter_count=count,
        amounts=replace(TASK.terms.amounts, finder_cap=wei),
        reject=replace(TASK.terms.reject, tau_w=tau, tau_r=tau),
    )
    assert codec.decode_terms(codec.encode_terms(terms)) == terms


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1).filter(lambda b: is_finite(b) and b != 1 << 31))
def test_training_round_trips(number: int, bits: int) -> None:
    optimizer = replace(TASK.training.optimizer, epsilon=bits_to_float(bits))
    training = replace(TASK.training, initial_seed=number, optimizer=optimizer)
    assert codec.decode_training(codec.encode_training(training)) == training


@given(st.integers(0, len(TRAINING) - 1), st.integers(1, 255))
def test_a_flipped_training_byte_is_refused_or_another_value(position: int, change: int) -> None:
    """No two byte strings decode to one value: whatever the decoder takes, the encoder gives back."""
    spoiled = bytearray(TRAINING)
    spoiled[position] ^= change
    try:
        training = codec.decode_training(bytes(spoiled))
    except InvalidInput:
        return
    assert codec.encode_training(training) == bytes(spoiled)
    assert training != TASK.training


@given(st.binary(max_size=len(TRAINING) + 40))
def test_arbitrary_training_bytes_never_break_the_decoder(data: bytes) -> None:
    for candidate in (data, codec.TRAINING_HEADER + data):
        with pytest.raises(InvalidInput):
            codec.decode_training(candidate)


@given(st.integers(0, len(TERMS) - 1), st.integers(1, 255))
def test_a_flipped_term_byte_is_refused_or_another_value(position: int, change: int) -> None:
    spoiled = bytearray(TERMS)
    spoiled[position] ^= change
    try:
        terms = codec.decode_terms(bytes(spoiled))
    except InvalidInput as error:
        assert f"byte {position - position % 32}" in str(error)
        return
    assert codec.encode_terms(terms) == bytes(spoiled)
    assert terms != TASK.terms


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (TERMS[:-1], "reject.tau_r"),
        (TERMS + b"\0", "after the last field"),
        (TERMS + bytes(32), "after the last field"),
        (b"", "submitter, byte 0"),
    ],
)
def test_terms_of_another_length_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        codec.decode_terms(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rounds", 1 << 32),
        ("rounds", -1),
        ("rounds", True),
        ("salt", b"short"),
        ("submitter", "0x12"),
        ("salt", "x" * 32),
    ],
)
def test_terms_that_do_not_fit_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        codec.encode_terms(replace(TASK.terms, **{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("architecture", ""),
        ("architecture", "Llama"),
        ("architecture", "a" * 65),
        ("architecture", "ll\u00e4ma"),
    ]
    + [("token_count", 1 << 64), ("token_count", -1), ("token_count", 1.0), ("dataset_root", bytes(31))],
)
def test_training_without_a_canonical_form_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        codec.encode_training(replace(TASK.training, **{field: value}))


def test_negative_zero_is_refused() -> None:
    optimizer = replace(TASK.training.optimizer, weight_decay=-0.0)
    with pytest.raises(InvalidInput, match="negative zero"):
        codec.encode_training(replace(TASK.training, optimizer=optimizer))


def test_terms_mirror_the_order_of_the_struct() -> None:
    assert [field.name for field in fields(TaskTerms)][-4:] == ["windows", "amounts", "accept", "reject"]
    assert len(TERMS) == 32 * len(abi_types())


def test_every_hash_depends_on_every_field() -> None:
    account, root, salt = "0x" + "11" * 20, b"\1" * 32, b"\2" * 32
    hashes = [
        codec.compute_domain(1, account, root),
        codec.compute_domain(2, account, root),
        codec.compute_domain(1, "0x" + "12" * 20, root),
        codec.compute_boundary_leaf(root, 1, account, 2, salt, root),
        codec.compute_boundary_leaf(root, 2, account, 1, salt, root),
        codec.compute_boundary_leaf(root, 1, account, 2, root, salt),
        codec.compute_schedule_leaf(1, 2),
        codec.compute_schedule_leaf(2, 1),
        codec.compute_state_root(StateHeader(root, salt, root, 1, 2)),
        codec.compute_state_root(StateHeader(root, salt, root, 2, 1)),
        codec.compute_outer_root(OuterHeader(root, salt)),
        codec.compute_outer_root(OuterHeader(salt, root)),
    ]
    assert len(set(hashes)) == len(hashes)


def test_the_step_root_covers_every_fact() -> None:
    facts = StepFacts(b"\1" * 32, b"\2" * 32, b"\3" * 32, 4, 5, 0, 6, 7, 1, 8, 9, 10)
    types = ["bytes32"] * 4 + ["uint32"] * 6 + ["uint64"] * 2 + ["uint32"]
    words = [b"touchstone.step".ljust(32, b"\0"), *(getattr(facts, field.name) for field in fields(facts))]
    assert codec.compute_step_root(facts) == sha256(abi_encode(types, words)).digest()
    changed = [
        replace(facts, **{field.name: b"9" * 32 if field.type is bytes else 99})  # type: ignore[arg-type]
        for field in fields(facts)
    ]
    assert len({*map(codec.compute_step_root, [facts, *changed])}) == 1 + len(changed)
