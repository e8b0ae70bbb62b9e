"""What strangers send: read within limits, or refused by name; never a traceback, never a dead process."""

import base64
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from tests.protocol.spec.profiles import make_profile
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.messages import Address, Count, Form, Message, Word, encode_message
from touchstone.protocol.adapters.signed_profiles import MAX_FILE_BYTES, read_profile, write_profile
from touchstone.protocol.spec.calibration_profile import Profile
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault

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
    assert said in refuse(body).replace("UTF-8", "utf-8"), "as old and new releases of msgspec write it"


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
        "import eth_account; from touchstone.protocol.adapters.wire.json_answers import STATUS_FORM\n"
        "from touchstone.protocol.spec.errors import ProtocolFault\n"
        "for text in (b'[', b'{\"a\":', b'{\"waiting_for_block\":['):\n"
        "    try: STATUS_FORM.decode(text * (65536 // len(text)))\n"
        "    except ProtocolFault: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [b"refused"] * 3)


# Files
def test_a_file_of_one_s_own_is_the_caller_s_fault(tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    for body in (None, b"{}", GOOD.ljust(MOST_BYTES + 1)):
        if body is not None:
            path.write_bytes(body)
        with pytest.raises(InvalidInput, match=f"the sample is malformed at {path}.*Write it anew"):
            FORM.read_file(path, "Write it anew.")
    path.write_bytes(GOOD)
    assert FORM.read_file(path, "Write it anew.") == SAMPLE


# All kinds
def list_kinds() -> list[type[Message]]:
    for name in ("touchstone.node.loop.opening", "touchstone.protocol.adapters.messages"):
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


def dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


KEY = AccountKey(Account.from_key(bytes(31) + b"\x07"))


@pytest.fixture
def profile() -> Profile:
    return make_profile(operator=KEY.address.lower())


@pytest.fixture
def path(tmp_path: Path, profile: Profile) -> Path:
    write_profile(tmp_path / "profile.json", profile, KEY)
    return tmp_path / "profile.json"


def test_read_profile_gives_back_what_was_signed(path: Path, profile: Profile) -> None:
    assert read_profile(path) == profile


def test_read_profile_asks_to_check_the_path_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_profile(tmp_path / "missing.json")
    assert (refusal.value.actual, refusal.value.remedy) == ("no such file", "Check the path.")


def test_read_profile_refuses_a_changed_figure(path: Path) -> None:
    value = json.loads(path.read_text())
    value["profile"]["segments"] += 1
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match="the signature of"):
        read_profile(path)


def test_read_profile_refuses_the_signature_of_another(path: Path, tmp_path: Path) -> None:
    other = AccountKey(Account.from_key(bytes(31) + b"\x08"))
    write_profile(tmp_path / "other", make_profile(operator=other.address.lower()), other)
    value = json.loads(path.read_text())
    value["signature"] = json.loads((tmp_path / "other").read_text())["signature"]
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match="the signature of"):
        read_profile(path)


@pytest.mark.parametrize(
    "signature", ["", "zz", 5, None, *(encode(bytes(n)) for n in (0, 63, 64, 65)), encode(b"\xff" * 64)]
)
def test_read_profile_refuses_a_malformed_signature(path: Path, signature: object) -> None:
    value = json.loads(path.read_text())
    value["signature"] = signature
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match="not a signed calibration profile"):
        read_profile(path)


def set_field(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_field("segments", to=1.5), "segments"),
        (set_field("segments", to=True), "segments"),
        (set_field("segments", to="5"), "segments"),
        (set_field("segments", to=-1), "segments"),
        (set_field("subject", to=[]), "subject"),
        (set_field("measurements", 0, "quantiles", to=[1, 2, 3, 4, "5"]), "quantiles"),
        (set_field("configurations", to=["a", "b\x1b"]), "configurations"),
        (set_field("more", to=1), "something more"),
        (set_field("subject", "more", to=1), "something more"),
    ],
)
def test_read_profile_names_the_field(path: Path, change: Callable[[Any], None], said: str) -> None:
    value = json.loads(path.read_text())
    change(value["profile"])
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match=f"calibration profile.*{said}"):
        read_profile(path)


def test_read_profile_takes_one_form_only(path: Path, profile: Profile) -> None:
    text = path.read_text()
    twice = text.replace('"version":1', '"version":1,"version":1')
    for other in (" " + text, json.dumps(json.loads(text)), twice):
        assert other != text
        path.write_text(other)
        with pytest.raises(InvalidInput, match="another form"):
            read_profile(path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[" * 100_000, '{"profile": {}, "signature": "", "x": 1}', " " * (MAX_FILE_BYTES + 1)],
)
def test_read_profile_refuses_what_is_no_profile(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="calibration profile"):
        read_profile(path)


def test_write_profile_signs_only_for_its_own_operator(tmp_path: Path, profile: Profile) -> None:
    with pytest.raises(InvalidInput, match="the key of"):
        write_profile(tmp_path / "profile.json", replace(profile, operator="0x" + "11" * 20), KEY)
    assert not list(tmp_path.iterdir())


def test_write_profile_replaces_nothing(path: Path, profile: Profile) -> None:
    with pytest.raises(InvalidInput, match=r"a file is there.*another --out"):
        write_profile(path, profile, KEY)
