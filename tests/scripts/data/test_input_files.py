"""What a folder holds beside its training texts is no training text, and what was read is listed."""

import json
from pathlib import Path

import pytest

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.data_pack import PackPlan, pack_and_report
from touchstone.scripts.data.file_kinds import Kind
from touchstone.scripts.data.input_files import Inputs, list_inputs
from touchstone.scripts.touchstone import main

LINE = json.dumps({"text": "word"}) + "\n"


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINE if ".jsonl" in name else "word" * 10)
    return folder


def list_names(inputs: Inputs, folder: Path) -> list[str]:
    return [str(file.path.relative_to(folder)) for file in inputs.files]


@pytest.mark.parametrize(
    ("train", "other"),
    [
        ("train-00000-of-00004.jsonl", "test-00000-of-00001.jsonl"),
        ("train-00000-of-00004.jsonl", "validation-00000-of-00001.jsonl"),
        ("c4-train.00000-of-01024.jsonl", "c4-validation.00000-of-00008.jsonl"),
        ("data/train/0.jsonl", "data/dev/0.jsonl"),
        ("en/train.jsonl", "en/valid.jsonl"),
        ("Train.jsonl", "sub/EVAL_2.jsonl"),
        ("wiki.train.txt", "wiki.val.txt"),
        ("training_1.jsonl", "test/part.jsonl"),
        ("validation.jsonl", "test.jsonl"),
        ("train/1.jsonl", "train/test.jsonl"),
    ],
)
def test_other_splits_are_refused_beside_train_unless_named_singly(
    tmp_path: Path, train: str, other: str
) -> None:
    folder = make(tmp_path / "corpus", train, other)
    with pytest.raises(InvalidInput, match="several splits") as caught:
        list_inputs([folder])
    assert str(folder / other) in str(caught.value.actual) and "singly" in caught.value.remedy
    named = list_inputs([folder, folder / other, folder / train])
    assert sorted(list_names(named, folder)) == sorted([train, other]), "and none of them twice"
    assert list_names(list_inputs([folder / other]), folder) == [other]


@pytest.mark.parametrize(
    "names",
    [
        ("test-1.jsonl", "test-2.jsonl"),
        ("train-1.jsonl", "train/part.jsonl"),
        ("testimony.jsonl", "train.jsonl", "devices.jsonl", "value.jsonl", "evaluate/x.jsonl"),
        ("latest.jsonl", "training.jsonl"),
    ],
)
def test_one_split_alone_is_read(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert len(list_inputs([make(tmp_path / "corpus", *names)]).files) == len(names)


def test_the_name_of_the_folder_itself_is_no_split(tmp_path: Path) -> None:
    folder = make(tmp_path / "test", "train/1.jsonl", "train/2.jsonl")
    assert len(list_inputs([folder]).files) == 2


def test_what_is_written_about_a_dataset_is_left_out_and_named(tmp_path: Path) -> None:
    about = ["README.md", "LICENSE", "LICENSE.txt", "dataset_infos.json", "card.md", "CITATION.cff"]
    folder = make(tmp_path / "corpus", "train.jsonl", "license.jsonl", *about)
    found = list_inputs([folder])
    assert list_names(found, folder) == ["license.jsonl", "train.jsonl"]
    assert sorted(path.name for path, _ in found.left_out) == sorted(about)
    assert {reason for path, reason in found.left_out if path.name == "card.md"} == {
        "Markdown beside other files"
    }
    assert list_names(list_inputs([folder / "README.md"]), folder) == ["README.md"]
    assert [one.path.name for one in list_inputs([folder, folder / "card.md"]).files][-1] == "card.md"


def test_a_folder_of_markdown_is_read(tmp_path: Path) -> None:
    folder = make(tmp_path / "pages", "a.md", "b/c.md", "README.md")
    found = list_inputs([folder])
    assert list_names(found, folder) == ["a.md", "b/c.md"]
    make(folder, "tool.py")
    assert list_names(list_inputs([folder], Kind.TEXT), folder) == ["a.md", "b/c.md", "tool.py"]


def test_a_folder_of_nothing_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nothing to read.*README\.md"):
        list_inputs([make(tmp_path / "corpus", "README.md")])


def test_what_was_read_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path / "corpus", "train.jsonl", "b/words.txt", "README.md")
    report = pack_and_report(PackPlan([folder], tmp_path / "out"))
    assert [(one.path.name, one.documents, one.tokens) for one in report.files] == [
        ("words.txt", 1, 40),
        ("train.jsonl", 1, 4),
    ]
    assert [path.name for path, _ in report.left_out] == ["README.md"]
    command = ["data", "pack", str(folder), "--out", str(tmp_path / "again")]
    assert main([*command, "--json"]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert found["files"][1] == {"path": str(folder / "train.jsonl"), "documents": 1, "tokens": 4}
    assert [one["path"] for one in found["left_out"]] == [str(folder / "README.md")]
    for line in ("words.txt: 1 document, 40 tokens", "README.md (about the data)"):
        assert line in output.err


def test_only_the_first_of_many_files_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path / "corpus", *(f"{number:03}.txt" for number in range(100)))
    assert main(["data", "pack", str(folder), "--out", str(tmp_path / "out"), "--json"]) == 0
    output = capsys.readouterr()
    assert len(json.loads(output.out)["files"]) == 100
    assert output.err.count(" tokens\n") < 40 and "more files" in output.err
