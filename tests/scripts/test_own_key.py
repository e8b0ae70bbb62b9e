"""A home's password is changed and its key copied without the key being seen, unless a person asks for it."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from eth_account import Account
from msgspec.structs import replace

from tests.e2e.test_manual import read_blocks
from tests.scripts.network import ROOT, edit_config
from tests.scripts.schemas import read_one
from tests.scripts.test_home import CONFIG
from tests.scripts.typed import run
from touchstone.protocol.adapters.keys.keystore import load_keystore
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.home.home_files import KEYSTORE_FILE
from touchstone.scripts.home.home_folder import create_home


def write_secret(path: Path, text: str) -> Path:
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A home whose password is in the file that its configuration names."""
    file = write_secret(tmp_path / "password", "old")
    create_home(tmp_path / "home", replace(CONFIG, password_file=str(file)), "old", is_devnet=True)
    return tmp_path / "home"


def test_a_new_password_opens_the_same_key(own: Path, tmp_path: Path) -> None:
    """The keystore of a test network stays quick, and no file is left beside it."""
    before, names = load_keystore(own / KEYSTORE_FILE, "old"), sorted(own.iterdir())
    new = write_secret(tmp_path / "new", "new")
    words = ("keys", "password", "--home", str(own), "--new-password-file", str(new))
    status, out, err = run(*words)
    assert (status, err) == (0, "") and before.address in out and "Back up both again" in out
    assert f"names {tmp_path / 'password'}, which has the old password" in out
    assert load_keystore(own / KEYSTORE_FILE, "new").address == before.address
    with pytest.raises(InvalidInput, match="another password"):
        load_keystore(own / KEYSTORE_FILE, "old")
    assert json.loads((own / KEYSTORE_FILE).read_text())["crypto"]["kdfparams"]["n"] == 1 << 10
    assert (own / KEYSTORE_FILE).stat().st_mode & 0o777 == 0o600 and sorted(own.iterdir()) == names
    assert "the keystore does not open" in run(*words)[2], "the file that is named has the old one"
    os.replace(new, tmp_path / "password")
    write_secret(new, "newer")
    assert read_one("keys password", run(*words, "--json")[1])["account"] == before.address


def test_a_wallets_keystore_becomes_slow_to_guess(own: Path, tmp_path: Path) -> None:
    """Some wallets write ones that are 32 times as quick."""
    text = Account.encrypt(bytes([7]) * 32, "old", kdf="scrypt", iterations=1 << 13)
    write_secret(own / KEYSTORE_FILE, json.dumps(text))
    new = write_secret(tmp_path / "new", "new")
    assert run("keys", "password", "--home", str(own), "--new-password-file", str(new))[0] == 0
    assert json.loads((own / KEYSTORE_FILE).read_text())["crypto"]["kdfparams"]["n"] == 1 << 18


@pytest.mark.parametrize(
    ("old", "new", "said"), [("wrong", "new", "another password"), ("old", "old", "the same")]
)
def test_a_keystore_stays_as_it_is_where_a_password_is_wrong(
    own: Path, tmp_path: Path, old: str, new: str, said: str
) -> None:
    before = (own / KEYSTORE_FILE).read_bytes()
    files = [str(write_secret(tmp_path / name, text)) for name, text in (("o", old), ("n", new))]
    words = ("keys", "password", "--home", str(own), "--password-file", files[0])
    status, out, err = run(*words, "--new-password-file", files[1])
    assert (status, out) == (2, "") and said in err and len(err.splitlines()) == 4
    assert (own / KEYSTORE_FILE).read_bytes() == before


def test_an_export_is_a_keystore_under_a_password_of_its_own(own: Path, tmp_path: Path) -> None:
    address, out = load_keystore(own / KEYSTORE_FILE, "old").address, tmp_path / "copy.json"
    words = ("keys", "export", "--home", str(own), "--out", str(out))
    new = write_secret(tmp_path / "new", "of the copy")
    found = read_one("keys export", run(*words, "--new-password-file", str(new), "--json")[1])
    assert found == {"account": address, "keystore": str(out)}
    assert load_keystore(out, "of the copy").address == address and out.stat().st_mode & 0o777 == 0o600
    status, _, err = run(*words, "--new-password-file", str(new))
    assert status == 2 and "a file is there" in err, "nothing is overwritten"


def test_without_options_the_place_of_the_keystore_is_said(own: Path) -> None:
    found = read_one("keys export", run("keys", "export", "--home", str(own), "--json")[1])
    assert found["keystore"] == str(own / KEYSTORE_FILE)
    status, _, err = run("keys", "export", "--plain", "--out", "x", "--home", str(own))
    assert status == 2 and "no file gets the key itself" in err


def type_plain(home: Path, answer: str, *more: str) -> tuple[int, str]:
    """`keys export --plain` at a terminal: its status, and what stands there afterwards."""
    words = [sys.executable, "-m", "touchstone.scripts.touchstone", "keys", "export", "--plain"]
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    process = subprocess.Popen(
        [*words, "--home", str(home), *more], env=environment, stdin=terminal, stdout=terminal,
        stderr=terminal, close_fds=True,
    )  # fmt: skip
    os.close(terminal)
    os.write(controller, f"{answer}\n".encode())
    shown = b""
    try:
        while part := os.read(controller, 4096):
            shown += part
    except OSError:
        pass  # The terminal is closed.
    os.close(controller)
    return process.wait(), shown.decode()


def test_the_key_itself_is_shown_at_a_terminal_after_a_question_alone(own: Path, tmp_path: Path) -> None:
    status, _, err = run("keys", "export", "--plain", "--home", str(own))
    assert status == 2 and "at a terminal alone" in err
    key = Account.decrypt(json.loads((own / KEYSTORE_FILE).read_text()), "old").hex().removeprefix("0x")
    status, said = type_plain(own, "n")
    assert status == 2 and "the key was not shown" in said and key not in said
    status, said = type_plain(own, "y")
    assert status == 0 and key in said.split() and "whoever has the key" in said
    status, said = type_plain(own, "y", "--json")
    assert status == 2 and key not in said, "a document is for programs"


def test_the_box_of_the_manual_gives_a_new_password(own: Path, tmp_path: Path) -> None:
    """On a home at its usual place, whose configuration names the file that the box replaces."""
    address = load_keystore(own / KEYSTORE_FILE, "old").address
    own.rename(tmp_path / ".touchstone")
    edit_config(tmp_path / ".touchstone", "password_file", "~/password")
    commands = read_blocks()["a new password"]
    command = (
        f'touchstone() {{ {sys.executable} -m touchstone.scripts.touchstone "$@"; }}\nset -eu\n{commands}'
    )
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and address in done.stdout, done.stderr
    assert re.fullmatch(r"[\w+/=]{32}\n", (tmp_path / "password").read_text())
    opened = load_keystore(
        tmp_path / ".touchstone" / KEYSTORE_FILE, (tmp_path / "password").read_text().strip()
    )
    assert opened.address == address and not (tmp_path / "new-password").exists()
