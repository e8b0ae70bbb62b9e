"""What strangers send: read within limits, or refused by name; never a traceback, never a dead process."""

import subprocess
import sys
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Annotated, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from protocol.adapters.messages import Address, Count, Form, Message, Word, encode_message
from protocol.spec.errors import InvalidInput, ProtocolFault

MOST_BYTES = 4096
Size = Annotated[float, Meta(ge=0)]
"""JSON has no infinity and no NaN."""
Line = Annotated[str, Meta(max_length=200, pattern=r"\A[ -~]*\Z")]


class Inner(Message, frozen=True):
    number: Count


class Sample(Message, frozen=True):
    root: Word
    count: Count
    size: Size
    line: Line
    account: Address
    inner: Annotated[tuple[Inner, ...], Meta(max_length=2)]


FORM = Form(Sample, MOST_BYTES, "the sample is malformed")
SAMPLE = Sample(bytes(32), 7, 0.5, "a line", "0x" + "ab" * 20, (Inner(1), Inner(2)))
GOOD = encode_message(SAMPLE)
HUGE = b"9" * 1000


def refuse(body: bytes) -> str:
    with pytest.raises(ProtocolFault, match="0xbad: the sample is malformed at https://there") as caught:
        FORM.decode(body, "0xbad", "https://there")
    text = str(caught.value)
    assert len(text) < 600 and text.isprintable()
    return str(caught.value.actual)


def test_a_message_is_read_as_it_was_written() -> None:
    assert FORM.decode(GOOD) == SAMPLE
    assert FORM.decode(GOOD.ljust(MOST_BYTES)) == SAMPLE


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"count":7', b'"count":"7"', "count"),
        (b'"count":7', b'"count":true', "count"),
        (b'"count":7', b'"count":7.0', "count"),
        (b'"count":7', b'"count":-1', "count"),
        (b'"count":7', b'"count":9223372036854775808', "count"),
        (b'"count":7', b'"count":' + HUGE, "count"),
        (b'"count":7', b'"count":null', "count"),
        (b'"count":7,', b"", "count"),
        (b'"count":7', b'"count":7,"more":1', "more"),
        (b'"size":0.5', b'"size":NaN', "malformed"),
        (b'"size":0.5', b'"size":Infinity', "malformed"),
        (b'"size":0.5', b'"size":1e999', "size"),
        (b'"size":0.5', b'"size":' + HUGE, "size"),
        (b'"size":0.5', b'"size":-0.5', "size"),
        (b'"a line"', b'"a\\u001b[2Jline"', "line"),
        (b'"a line"', b'"a line\\n"', "line"),
        (b'"a line"', b'"a\xffline"', "utf-8"),
        (b'"a line"', b'"' + b"x" * 201 + b'"', "line"),
        (b"0xabab", b"0xABAB", "account"),
        (b"AAAAAAAA", b"AAAA", "root"),
        (b"AAAAAAAA", b"!!!!!!!!", "root"),
        (b'[{"number":1},', b'[{"number":1},{"number":3},', "inner"),
        (b'"number":1', b'"number":' + b"[" * 3000, "number"),
        (b'"number":1', b'"other":' + b"[" * 3000, "other"),
        (b'{"number":1}', b'{"number":1' + b'{"a":' * 700, "malformed"),
    ],
)
def test_one_wrong_field_is_refused_by_its_name(old: bytes, new: bytes, said: str) -> None:
    body = GOOD.replace(old, new, 1)
    assert body != GOOD and len(body) <= MOST_BYTES
    assert said in refuse(body)


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"null", b"7", b"[]", b"{}", b"{", GOOD[:-1], GOOD + b"x", b"[" * MOST_BYTES]
)
def test_what_is_no_message_is_refused(body: bytes) -> None:
    refuse(body)


def test_a_long_message_is_refused_unread() -> None:
    """Its text is sound: only its length speaks against it, and nothing is made of it."""
    body = GOOD.ljust(8_000_000)
    tracemalloc.start()
    try:
        assert "more" in refuse(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_refused_messages_leave_nothing_behind() -> None:
    bodies = [GOOD.replace(b'"count":7', b'"count":7,"%d":1' % number) for number in range(2_000)]
    refuse(bodies[0])
    tracemalloc.start()
    try:
        for body in bodies:
            with pytest.raises(ProtocolFault):
                FORM.decode(body)
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200) | st.builds(lambda at, to: GOOD[:at] + to + GOOD[at + 1 :],
                                           st.integers(0, len(GOOD)), st.binary(max_size=3)))  # fmt: skip
def test_any_bytes_are_a_message_or_a_named_fault(body: bytes) -> None:
    try:
        assert isinstance(FORM.decode(body), Sample)
    except ProtocolFault as fault:
        assert fault.what == FORM.what


def test_brackets_do_not_end_the_process() -> None:
    """eth_account raises the interpreter's limit of recursion: a parser that recursed would run out of
    stack."""
    code = (
        "import eth_account; from protocol.adapters.wire.conventions import STATUS_FORM\n"
        "from protocol.spec.errors import ProtocolFault\n"
        "for text in (b'[', b'{\"a\":', b'{\"waiting_for_block\":['):\n"
        "    try: STATUS_FORM.decode(text * (65536 // len(text)))\n"
        "    except ProtocolFault: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [b"refused"] * 3)


# --- Files --------------------------------------------------------------------------------------------------
def test_a_file_of_one_s_own_is_the_caller_s_fault(tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    for body in (None, b"{}", GOOD.ljust(MOST_BYTES + 1)):
        if body is not None:
            path.write_bytes(body)
        with pytest.raises(InvalidInput, match=f"the sample is malformed at {path}.*Write it anew"):
            FORM.read_file(path, "Write it anew.")
    path.write_bytes(GOOD)
    assert FORM.read_file(path, "Write it anew.") == SAMPLE


# --- All kinds ----------------------------------------------------------------------------------------------
def list_kinds() -> list[type[Message]]:
    for name in ("protocol.actions.runtime.opening", "protocol.adapters.operator_profiles"):
        import_module(name)
    found, todo = [], [Message]
    while todo:
        kinds = [kind for kind in todo.pop().__subclasses__() if kind.__module__ != __name__]
        found += kinds
        todo += kinds
    return found


def find_unbounded(kind: object) -> str:
    """What of a field's type a stranger could fill without end; empty where it is bounded. A text or list
    without a limit of its own is bounded by its message's size."""
    if kind in (object, msgspec.Raw) or str(kind) == "typing.Any":
        return str(kind)
    return next(filter(None, map(find_unbounded, get_args(kind))), "")


@pytest.mark.parametrize("kind", list_kinds(), ids=lambda kind: kind.__name__)
def test_every_kind_refuses_unknown_fields_and_holds_no_field_of_any_type(kind: type[Message]) -> None:
    assert kind.__struct_config__.forbid_unknown_fields and kind.__struct_config__.frozen
    assert not [field.name for field in msgspec.structs.fields(kind) if find_unbounded(field.type)]
