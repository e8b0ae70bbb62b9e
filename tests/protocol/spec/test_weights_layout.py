"""The layout of W: one text for each, and no other bytes are one."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.weights_layout import (
    MAX_ENTRIES,
    MAX_LAYOUT_BYTES,
    MAX_NAME_CHARACTERS,
    FrozenEntry,
    ParameterEntry,
    Start,
    WeightsLayout,
    decode_layout,
    encode_layout,
)

ROWS = ParameterEntry("model.rows.weight", (40, 16), Start.UNIFORM, nearest(0.02))
GAIN = ParameterEntry("norm.weight", (16,), Start.ONES)
LAYOUT = WeightsLayout(
    (ROWS, GAIN, ParameterEntry("scale", (), Start.ZEROS)),
    (FrozenEntry("base.weight", (16, 16), bytes(range(32))),),
    '{"model_type": "llama", "nested": [[[[{}]]]], "\\u00e9": "\\""}',
)
TEXT = encode_layout(LAYOUT)


def test_decoding_undoes_encoding() -> None:
    assert decode_layout(TEXT) == LAYOUT
    plain = WeightsLayout((GAIN,))
    assert decode_layout(encode_layout(plain)) == plain


def test_places_follow_each_other() -> None:
    assert [(entry.name, place) for entry, place in LAYOUT.list_places()] == [
        ("model.rows.weight", 0), ("norm.weight", 640), ("scale", 656),
    ]  # fmt: skip
    assert LAYOUT.count == 657


BROKEN: dict[str, WeightsLayout] = {
    "nothing to train": replace(LAYOUT, parameters=()),
    "one name twice": replace(LAYOUT, parameters=(GAIN, GAIN)),
    "one name trained and frozen": replace(LAYOUT, frozen=(FrozenEntry("norm.weight", (16,), bytes(32)),)),
    "no name": replace(LAYOUT, parameters=(replace(GAIN, name=""),)),
    "a long name": replace(LAYOUT, parameters=(replace(GAIN, name="a" * (MAX_NAME_CHARACTERS + 1)),)),
    "a path": replace(LAYOUT, parameters=(replace(GAIN, name="../weights"),)),
    "a line break": replace(LAYOUT, parameters=(replace(GAIN, name="a\nb"),)),
    "an empty tensor": replace(LAYOUT, parameters=(replace(GAIN, shape=(3, 0)),)),
    "a vast tensor": replace(LAYOUT, parameters=(replace(GAIN, shape=(1 << 21, 1 << 20)),)),
    "nine dimensions": replace(LAYOUT, parameters=(replace(GAIN, shape=(1,) * 9),)),
    "drawn without a deviation": replace(LAYOUT, parameters=(replace(ROWS, deviation=0.0),)),
    "a negative deviation": replace(LAYOUT, parameters=(replace(ROWS, deviation=-0.5),)),
    "ones with a deviation": replace(LAYOUT, parameters=(replace(GAIN, deviation=0.5),)),
    "a short root": replace(LAYOUT, frozen=(FrozenEntry("base", (1,), bytes(31)),)),
    "a name of safetensors' own": replace(LAYOUT, parameters=(replace(GAIN, name="__metadata__"),)),
    "a config that is no text": replace(LAYOUT, config="\ud800"),
    "frozen numbers without end": replace(
        LAYOUT, frozen=(FrozenEntry("base", ((1 << 33) + 1,), number=1.0),)
    ),
    "a long config": replace(LAYOUT, config=" " * ((1 << 18) + 1)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_a_rule_has_no_text(name: str) -> None:
    with pytest.raises(InvalidInput, match="not a layout of weights"):
        encode_layout(BROKEN[name])


def change(**fields: Any) -> bytes:
    return json.dumps({**json.loads(TEXT), **fields}, separators=(",", ":"), sort_keys=True).encode()


@pytest.mark.parametrize("data", [
    b"", b"[]", b"null", b"\xff", TEXT + b" ", b" " + TEXT, TEXT[:-1], TEXT.replace(b":", b": ", 1),
    b"[" * 100_000, b'{"a":' * 100_000, b'{"config":' + b"9" * 10_000 + b"}", bytes(MAX_LAYOUT_BYTES + 1),
    change(config=None), change(config=7), change(more=1), change(frozen={}), change(parameters=[[]]),
    change(parameters=[["a", [1.0], "ones", 0]]), change(parameters=[["a", [True], "ones", 0]]),
    change(parameters=[["a", [-1], "ones", 0]]), change(parameters=[["a", [1], "twos", 0]]),
    change(parameters=[["a", [1], "ones", -1]]), change(parameters=[["a", [1], "uniform", 0x7FC00000]]),
    change(parameters=[["a", [1], "uniform", 0x7F800000]]), change(parameters=[["a", [1], "ones", 1 << 40]]),
    change(parameters=[["a", [1], "ones", 0x80000000]]), change(parameters=[["a", "1", "ones", 0]]),
    change(parameters=[[7, [1], "ones", 0]]), change(parameters=[[[], [1], "ones", 0]]),
    change(frozen=[["b", [1], "zz"]]),
    change(frozen=[["b", [1], 0x7FC00000]]), change(frozen=[["b", [1], "00"]]),
    change(frozen=[["b", [1], []]]),
    change(parameters=[["a", [1], "ones", 0], ["a", [1], "ones", 0]]),
    change(parameters=[[str(n), [1], "ones", 0] for n in range(MAX_ENTRIES + 1)]),
    TEXT.replace(b'"config"', b'"frozen"', 1),
], ids=range(36))  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a layout of weights"):
        decode_layout(data)


@pytest.mark.parametrize("piece", [b'\\"', b'"', b'""', b'"\\', b'["', b"\\\n"])
def test_a_text_of_quotation_marks_is_gone_through_once(piece: bytes) -> None:
    """Whoever went back for each of them would need hours."""
    data = b'"' + piece * ((MAX_LAYOUT_BYTES - 1) // len(piece))
    with pytest.raises(InvalidInput, match="not a layout of weights"):
        decode_layout(data)


@given(st.integers(0, len(TEXT) - 1), st.binary(max_size=3))
def test_changed_bytes_are_refused_or_another_layout(place: int, piece: bytes) -> None:
    data = TEXT[:place] + piece + TEXT[place + 1 :]
    try:
        layout = decode_layout(data)
    except InvalidInput:
        return
    assert encode_layout(layout) == data
