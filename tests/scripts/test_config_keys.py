"""The file of a home explains itself, in the words of the manual."""

import re
import tomllib
from pathlib import Path

import pytest
from msgspec import structs

from tests.scripts.test_home import CONFIG
from tools import config_table
from touchstone.scripts.home.config_keys import COMMENT_WIDTH, KEYS, render_config
from touchstone.scripts.home.home_config import TABLES, HomeConfig, read_config
from touchstone.scripts.home.home_files import CONFIG_FILE
from touchstone.scripts.home.home_folder import create_home


def test_each_key_has_its_comment_in_the_file(tmp_path: Path) -> None:
    key = create_home(tmp_path / "home", CONFIG, "secret", is_devnet=True)
    text = (tmp_path / "home" / CONFIG_FILE).read_text()
    told = re.findall(r"(?m)^((?:# .*\n)+)(\w+) = ", text)
    assert [name for _, name in told] == [one for one in HomeConfig.__struct_fields__ if one not in TABLES]
    for comment, name in told:
        words = " ".join(line.removeprefix("# ") for line in comment.splitlines())
        assert words[1:] == f"{KEYS[name]}."[1:]
    assert max(map(len, re.findall("(?m)^#.*$", text))) <= COMMENT_WIDTH
    assert read_config(tmp_path / "home") == structs.replace(CONFIG, account=key.address)


def test_what_is_written_is_read_again() -> None:
    values = {"rpc_url": 'a"\\\u00e9', "rpc_urls": ["x", "y"], "when_idle": True, "idle_minutes": 1.5}
    assert tomllib.loads(render_config(values)) == values


def test_every_key_is_explained_in_the_order_of_the_file() -> None:
    assert list(KEYS) == [one for one in HomeConfig.__struct_fields__ if one not in TABLES]
    assert not [said for said in KEYS.values() if said.endswith(".") or "|" in said or len(said) > 110]


def test_the_table_of_the_manual_is_made_of_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config_table.main(["--check"]) == 0
    page = tmp_path / "node.md"
    page.write_text(config_table.PAGE.read_text().replace(KEYS["threads"], "threads"))
    monkeypatch.setattr(config_table, "PAGE", page)
    assert config_table.main(["--check"]) == 1 and "tools.config_table" in capsys.readouterr().err
    assert config_table.main([]) == 0 and config_table.main(["--check"]) == 0
    assert "| `nice` | `0` | " in page.read_text() and "| `rpc_urls` | `[]` |" in page.read_text()
