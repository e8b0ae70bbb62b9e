import copy
import getpass
import io
import json
import multiprocessing.reduction
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from protocol.adapters.keys import (
    AccountKey,
    create_devnet_keystore,
    create_keystore,
    load_keystore,
    read_new_password,
    read_password,
)
from protocol.spec.errors import InvalidInput
from protocol.spec.statements import Calibration
from protocol.spec.typed_data import ANYWHERE, to_typed_data

SECRET = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
TRANSACTION = {"to": "0x" + "11" * 20, "value": 1, "gas": 21000, "maxFeePerGas": 2, "maxPriorityFeePerGas": 1,
               "nonce": 3, "chainId": 31337, "type": 2}  # fmt: skip


def write_password(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "password"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_created_key_is_loaded_again(tmp_path: Path) -> None:
    created = create_devnet_keystore(tmp_path / "key.json", "a password")
    assert load_keystore(tmp_path / "key.json", "a password").address == created.address
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600


def test_each_created_key_is_another(tmp_path: Path) -> None:
    one, two = (create_devnet_keystore(tmp_path / name, "p").address for name in ("one", "two"))
    assert one != two


def test_a_wallets_keystore_is_read(tmp_path: Path) -> None:
    path = tmp_path / "wallet.json"
    path.write_text(json.dumps(Account.encrypt(SECRET, "p", kdf="pbkdf2", iterations=2)))
    path.chmod(0o600)
    assert load_keystore(path, "p").address == Account.from_key(SECRET).address


def test_real_keystores_are_slow_to_guess_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETH_ACCOUNT_KDF", "pbkdf2")
    seen = {}
    monkeypatch.setattr(Account, "encrypt", lambda key, password, **how: seen.update(how) or {})
    create_keystore(tmp_path / "key.json", "p")
    assert seen == {"kdf": "scrypt", "iterations": 1 << 18}


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "another password"), ("[]", "while reading"), ("{}", "while reading"), ("{", "while reading")],
)
def test_a_keystore_that_does_not_open_is_told(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "key.json"
    if text is None:
        create_devnet_keystore(path, "right")
    else:
        path.write_text(text)
        path.chmod(0o600)
    with pytest.raises(InvalidInput, match=reason) as caught:
        load_keystore(path, "wrong-password")
    assert "wrong-password" not in str(caught.value)


def test_a_keystore_open_to_others_is_refused(tmp_path: Path) -> None:
    create_devnet_keystore(tmp_path / "key.json", "p")
    (tmp_path / "key.json").chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        load_keystore(tmp_path / "key.json", "p")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    create_devnet_keystore(tmp_path / "key.json", "p")
    with pytest.raises(InvalidInput, match="a file is there"):
        create_devnet_keystore(tmp_path / "key.json", "p")


def test_an_empty_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs a password"):
        create_devnet_keystore(tmp_path / "key.json", "")


def test_the_password_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    assert read_password(write_password(tmp_path, "correct horse\nnot this\n")) == "correct horse"


def test_a_password_file_open_to_others_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="0640"):
        read_password(write_password(tmp_path, "p", mode=0o640))


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        read_password(write_password(tmp_path, "\n"))


def test_without_a_file_a_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda prompt: f"typed at {prompt}")
    assert read_password(None, "Password: ") == "typed at Password: "


def test_transactions_and_typed_data_are_signed(tmp_path: Path) -> None:
    key = create_devnet_keystore(tmp_path / "key.json", "p")
    signed = key.sign_transaction(TRANSACTION)
    assert Account.recover_transaction(signed.raw_transaction) == key.address
    data = to_typed_data(Calibration(bytes(32)), ANYWHERE)
    signable = encode_typed_data(full_message=data)
    assert Account.recover_message(signable, signature=key.sign_typed_data(data)) == key.address


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    key = AccountKey(Account.from_key(SECRET))
    shown = f"{key} {key!r} {[key]} {key.sign_transaction(TRANSACTION)!r}"
    assert SECRET.hex() not in shown and repr(SECRET) not in shown
    assert not hasattr(key, "__dict__")
    with pytest.raises(InvalidInput, match="does not leave its process"):
        multiprocessing.reduction.ForkingPickler(io.BytesIO()).dump(key)
    with pytest.raises(InvalidInput):
        copy.deepcopy(key)


def test_a_new_password_is_typed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["one", "one", "one", "other"])
    monkeypatch.setattr(getpass, "getpass", lambda prompt: next(typed))
    assert read_new_password(None, "New: ") == "one"
    with pytest.raises(InvalidInput, match="two different passwords"):
        read_new_password(None, "New: ")


def test_without_a_terminal_a_file_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(getpass, "getpass", fail)
    with pytest.raises(InvalidInput, match="--password-file"):
        read_password(None)


def test_without_a_terminal_python_does_not_warn_of_an_echo(tmp_path: Path) -> None:
    code = "from protocol.adapters.keys import read_password; read_password(None)"
    command = [sys.executable, "-c", code]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "start_new_session": True}
    result = subprocess.run(command, **options)  # type: ignore[call-overload]
    assert "--password-file" in result.stderr and "echo" not in result.stderr
