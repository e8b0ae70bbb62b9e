"""The committed vectors are exactly what the rules give today; a stale file fails here and names itself."""

import json
from pathlib import Path

import pytest

from tools.vectors import __main__ as vectors
from tools.vectors.table import Table


@pytest.mark.parametrize("name", vectors.FILES)
def test_committed_vectors_are_current(name: str) -> None:
    committed = (vectors.VECTORS_DIR / name).read_text()
    assert committed == vectors.render(vectors.FILES[name]()), (
        "run `python -m tools.vectors` and review the diff"
    )


@pytest.mark.parametrize("name", vectors.FILES)
def test_columns_of_a_table_fit_together(name: str) -> None:
    for table in json.loads((vectors.VECTORS_DIR / name).read_text()).values():
        cases = len(table["name"])
        for key, column in table.items():
            if key + "Start" in table:
                assert len(column) == table[key + "Start"][-1]
            else:
                assert len(column) == cases + (key.endswith("Start") and key[:-5] in table)
            assert len({type(cell) for cell in column}) <= 1


def test_the_layout_is_described(  # a table nobody can read is no vector
) -> None:
    readme = (vectors.VECTORS_DIR / "README.md").read_text()
    for name in vectors.FILES:
        assert name in readme
        for table, columns in json.loads((vectors.VECTORS_DIR / name).read_text()).items():
            assert f"`{table}`" in readme
            for column in columns:
                assert column in readme or column.endswith("Start")


def test_check_reports_a_stale_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "VECTORS_DIR", tmp_path)
    monkeypatch.setattr(vectors, "FILES", {"merkle.json": vectors.FILES["merkle.json"]})
    assert vectors.main(["--check"]) == 1
    assert not list(tmp_path.iterdir())
    assert vectors.main([]) == 0
    assert vectors.main(["--check"]) == 0
    (tmp_path / "merkle.json").write_text("{}")
    assert vectors.main(["--check"]) == 1


def test_large_integers_are_strings_throughout_a_column() -> None:
    table = Table()
    table.add("small", x=1, y=[b"\1"])
    table.add("large", x=1 << 53, y=[])
    assert table.columns() == {
        "name": ["small", "large"],
        "x": ["1", str(1 << 53)],
        "y": ["0x01"],
        "yStart": [0, 1, 1],
    }
