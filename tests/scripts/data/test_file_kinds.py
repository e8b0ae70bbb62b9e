"""A file is read as what its name and its first bytes say; any other file is refused by name."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.data.file_kinds import Kind
from touchstone.scripts.data.packed_dataset import open_dataset
from touchstone.scripts.touchstone import main

LINE = json.dumps({"text": "one document"}).encode() + b"\n"
ZSTD = b"\x28\xb5\x2f\xfd" + bytes(20)


def pack_bytes(folder: Path, name: str, data: bytes, read_as: Kind | None = None) -> bytes:
    """Packs one file of this name; returns its tokens, which are bytes."""
    (folder / name).write_bytes(data)
    pack(PackPlan([folder / name], folder / "out", read_as=read_as))
    return (folder / "out/tokens.bin").read_bytes()


@pytest.mark.parametrize("name", ["d.jsonl.bak", "d.jsonl.part", "d.json", "d", "d.bin", "d.html"])
def test_an_unknown_ending_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="kind of an input is not known") as caught:
        pack_bytes(tmp_path, name, LINE)
    assert name in str(caught.value.actual) and ".jsonl" in str(caught.value.expected)
    assert "--as" in caught.value.remedy and not (tmp_path / "out").exists()


def test_all_unknown_files_of_a_folder_are_named_at_once(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(9):
        (texts / f"{number}.part").write_bytes(LINE)
    (texts / "good.jsonl").write_bytes(LINE)
    with pytest.raises(InvalidInput, match=r"0\.part.*4\.part, and 4 more"):
        pack(PackPlan([texts], tmp_path / "out"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"PAR1" + bytes(8)),
        ("a.txt", LINE),
        ("a.txt", b"\xef\xbb\xbf" + LINE),
        ("a.txt", b"text\0text"),
        ("a.jsonl", b"PAR1" + bytes(8)),
        ("a.parquet", LINE),
        ("a.parquet", b""),
        ("a.txt.gz", b"no gzip"),
    ],
)
def test_first_bytes_of_another_kind_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    with pytest.raises(InvalidInput, match="first bytes") as caught:
        pack_bytes(tmp_path, name, data)
    assert caught.value.where == str(tmp_path / name)


@pytest.mark.parametrize("name", ["d.jsonl", "d.bak", "d"])
def test_as_says_what_a_file_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "one").mkdir()
    assert sorted(pack_bytes(tmp_path, name, LINE, Kind.TEXT)) == sorted(LINE)
    assert sorted(pack_bytes(tmp_path / "one", name, LINE, Kind.JSONL)) == sorted(b"one document")


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.jsonl"])
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_what_the_standard_library_reads_is_read(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes]
) -> None:
    name = name.replace("gz", {"gzip": "gz", "bz2": "bz2", "lzma": "xz"}[compress.__module__])
    assert sorted(pack_bytes(tmp_path, name, compress(LINE * 3))) == sorted(b"one document" * 3)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_broken_compressed_file_is_refused_by_name(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    lines = b"".join(json.dumps({"text": str(number**9)}).encode() + b"\n" for number in range(5_000))
    whole = compress(lines)
    middle = len(whole) // 2
    with pytest.raises(InvalidInput, match=r"compressed file.*d\.jsonl"):
        pack_bytes(tmp_path, "d.jsonl", whole[:-20])
    with pytest.raises(InvalidInput, match=r"d\.jsonl"):
        pack_bytes(tmp_path, "d.jsonl", whole[:middle] + bytes(500) + whole[middle + 500 :])


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("d.jsonl.zst", ZSTD, "Zstandard"),
        ("d.jsonl", ZSTD, "Zstandard"),
        ("d.txt", b"PK\x03\x04" + bytes(30), "ZIP"),
        ("d.zip", b"PK\x03\x04" + bytes(30), "ZIP"),
        ("d.jsonl.gz", gzip.compress(ZSTD, mtime=0), "Zstandard"),
        ("d.jsonl", gzip.compress(gzip.compress(LINE, mtime=0), mtime=0), "gzip"),
    ],
)
def test_what_it_does_not_read_is_refused_as_compressed(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    for read_as in (None, Kind.TEXT):
        with pytest.raises(InvalidInput, match=f"{reason}.*Decompress"):
            pack_bytes(tmp_path, name, data, read_as)


def test_a_compressed_parquet_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"compressed.*Decompress"):
        pack_bytes(tmp_path, "d.parquet.gz", gzip.compress(b"PAR1" + bytes(20)))


@pytest.mark.parametrize(
    ("name", "data"),
    [("d.bin", LINE), ("d", b"PAR1" + bytes(9)), ("d.bin", gzip.compress(LINE, mtime=0)), ("d.jsonl", b"x")],
)
def test_texts_are_not_taken_for_a_raw_dataset(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match="not a packed dataset"):
        open_dataset(tmp_path / name)


def test_the_command_takes_as(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d.bak").write_bytes(LINE)
    command = ["data", "pack", str(tmp_path / "d.bak"), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    assert "d.bak" in capsys.readouterr().err
    assert main([*command, "--as", "text"]) == 0
    assert (tmp_path / "out/tokens.bin").stat().st_size == len(LINE)
