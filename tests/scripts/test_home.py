"""A home holds a key that is never overwritten, a certificate and a configuration without secrets."""

import errno
from pathlib import Path

import pytest
from msgspec.structs import replace

from touchstone.protocol.adapters.wire.object_storage import ObjectStorage
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.home.home_config import HomeConfig, check_config, read_config
from touchstone.scripts.home.home_files import CONFIG_FILE, KEYSTORE_FILE
from touchstone.scripts.home.home_folder import create_home, unlock_key
from touchstone.scripts.home.node_config import open_config

CONFIG = HomeConfig(rpc_url="http://127.0.0.1:1", deployment="/d.json", listen_port=5, threads=2)


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


def test_what_is_made_opens(tmp_path: Path, password_file: Path) -> None:
    home = tmp_path / "home"
    key = create_home(home, CONFIG, "secret", is_devnet=True)
    assert unlock_key(home, password_file).address == key.address
    assert read_config(home) == replace(CONFIG, account=key.address)
    assert (home / "certificate.pem").is_file()
    assert (home / KEYSTORE_FILE).stat().st_mode & 0o777 == 0o600


def test_the_configuration_holds_no_secret(tmp_path: Path) -> None:
    create_home(tmp_path / "home", CONFIG, "a-secret-word", is_devnet=True)
    assert "a-secret-word" not in (tmp_path / "home" / CONFIG_FILE).read_text()


def test_a_configured_password_file_is_used(tmp_path: Path, password_file: Path) -> None:
    home = tmp_path / "home"
    config = HomeConfig("http://127.0.0.1:1", "/d.json", password_file=str(password_file))
    key = create_home(home, config, "secret", is_devnet=True)
    assert unlock_key(home).address == key.address


STORAGE = """
[object_storage]
bucket = "alice-blobs"
endpoint_url = "https://storage.example"
private_origins = ["http://10.0.0.1:9000"]
"""


def test_the_table_of_a_bucket_reaches_the_node(tmp_path: Path, password_file: Path) -> None:
    home = tmp_path / "home"
    create_home(home, CONFIG, "secret", is_devnet=True)
    assert open_config(home, password_file, Console()).object_storage == (ObjectStorage())
    with (home / CONFIG_FILE).open("a") as file:
        file.write(STORAGE)
    found = open_config(home, password_file, Console()).object_storage
    assert (found.bucket, found.private_origins) == ("alice-blobs", ("http://10.0.0.1:9000",))


@pytest.mark.parametrize(("text", "poll_s"), [("", None), ("0.5", 0.5)])
def test_how_often_the_chain_is_looked_at_reaches_the_node(
    tmp_path: Path, password_file: Path, monkeypatch: pytest.MonkeyPatch, text: str, poll_s: float | None
) -> None:
    home = tmp_path / "home"
    create_home(home, CONFIG, "secret", is_devnet=True)
    if text:
        monkeypatch.setenv("TOUCHSTONE_POLL_SECONDS", text)
    assert open_config(home, password_file, Console()).poll_s == poll_s


@pytest.mark.parametrize(
    "line",
    [
        'secret_access_key = "s3cr3t"',
        'endpoint_url = "https://key:s3cr3t@storage.example"',
        'endpoint_url = "http://storage.example"',
        'bucket = "a/../b"',
        "follow = 1",
    ],
)
def test_a_table_of_a_bucket_that_can_be_none_is_refused(tmp_path: Path, line: str) -> None:
    """Credentials have no place there, and what may be one is not shown."""
    home = tmp_path / "home"
    create_home(home, CONFIG, "secret", is_devnet=True)
    with (home / CONFIG_FILE).open("a") as file:
        file.write(f"[object_storage]\n{line}\n")
    with pytest.raises(InvalidInput, match="object_storage") as caught:
        read_config(home)
    assert "s3cr3t" not in str(caught.value)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    create_home(tmp_path / "home", CONFIG, "secret", is_devnet=True)
    before = (tmp_path / "home" / KEYSTORE_FILE).read_bytes()
    with pytest.raises(InvalidInput):
        create_home(tmp_path / "home", CONFIG, "other", is_devnet=True)
    assert (tmp_path / "home" / KEYSTORE_FILE).read_bytes() == before


WHOLE = f'rpc_url="u"\ndeployment="d"\naccount="0x{40 * "1"}"\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("rpc_url = ", ""),
        ('rpc_url = "u"', "deployment"),
        ('rpc_url = "u"\ndeployment = 5', "deployment"),
        ('rpc_url = "u"\ndeployment = "d"', "account"),
        ('rpc_url = "u"\ndeployment = "d"\naccount="0x12"', "account"),
        (WHOLE + 'listen_port="1"', "listen_port"),
        (WHOLE + "listen_port=65536", "listen_port"),
        (WHOLE + "metrics_port=65536", "metrics_port"),
        # Nowhere would be everywhere.
        (WHOLE + 'metrics_host=""', "metrics_host"),
        (WHOLE + "tensorboard_dir=7", "tensorboard_dir"),
        (WHOLE + "threads=0", "threads"),
        (WHOLE + 'device="mps"', "device"),
        (WHOLE + 'device="cuda:x"', "device"),
        (WHOLE + "memory_mb=-1", "memory_mb"),
        (WHOLE + "replay_processes=0", "replay_processes"),
        (WHOLE + "workers=0", "workers"),
        (WHOLE + 'executor="threads"', "executor"),
        (WHOLE + 'preset="3s"', "preset"),
        (WHOLE + "economics=3", "economics"),
        (WHOLE + "nonsense=1", "nonsense"),
    ],
)
def test_a_bad_configuration_is_said_with_its_path_and_key(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / CONFIG_FILE).write_text(text)
    with pytest.raises(InvalidInput, match="Correct th") as error:
        read_config(tmp_path)
    assert error.value.where == f"{tmp_path / CONFIG_FILE}" + (f", {key}" if key else "")
    assert error.value.remedy == ("Correct this key." if key else "Correct the file.")


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("threds=2", "threads"), ('[object_storage]\nbuckt="b"', "bucket"), ("[economic]", "economics")],
)
def test_an_unknown_key_is_told_the_nearest(tmp_path: Path, text: str, nearest: str) -> None:
    (tmp_path / CONFIG_FILE).write_text(WHOLE + text)
    with pytest.raises(InvalidInput) as error:
        read_config(tmp_path)
    assert str(error.value.expected).endswith(f"; the nearest is {nearest}")


# The environment
def test_a_variable_stands_in_the_place_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / CONFIG_FILE).write_text(WHOLE + "threads=1")
    overrides = {
        "THREADS": "3",
        "WHOLE_DATASET": "true",
        "METRICS_PORT": "9101",
        "DEPLOYMENT": "~/other.json",
        "TENSORBOARD_DIR": "~/board",
        # A container's platform may set such ones for its own ends.
        "PORT": "tcp://10.0.0.1:80",
    }
    for name, text in overrides.items():
        monkeypatch.setenv(f"TOUCHSTONE_{name}", text)
    monkeypatch.setenv("HOME", "/somewhere")
    config = read_config(tmp_path)
    assert (config.threads, config.whole_dataset, config.metrics_port) == (3, True, 9101)
    assert config.metrics_host == "127.0.0.1"
    assert (config.deployment, config.rpc_url) == ("/somewhere/other.json", "u")
    assert config.tensorboard_dir == "/somewhere/board"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("THREDS", "3", "TOUCHSTONE_THREADS, or another"),
        ("ACCOUNTS_PASSWORD", "s3cr3t", "in a file of mode 0600, named by TOUCHSTONE_PASSWORD_FILE"),
        ("PRIVATE_KEY", "s3cr3t", "TOUCHSTONE_PASSWORD_FILE"),
        ("MNEMONIC", "s3cr3t", "TOUCHSTONE_PASSWORD_FILE"),
        ("THREADS", "s3cr3t", "a value that threads in config.toml may have"),
        ("THREADS", "0", "a value that threads in config.toml may have"),
        ("DEVICE", "mps", "cpu, cuda, or cuda:"),
    ],
)
def test_a_variable_that_cannot_stand_is_named_and_never_shown(
    tmp_path: Path, name: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / CONFIG_FILE).write_text(WHOLE)
    monkeypatch.setenv(f"TOUCHSTONE_{name}", text)
    with pytest.raises(InvalidInput) as error:
        read_config(tmp_path)
    assert error.value.where == f"TOUCHSTONE_{name}" and said in str(error.value.expected)
    assert "s3cr3t" not in str(error.value)


def test_the_account_of_a_home_is_not_taken_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / CONFIG_FILE).write_text(WHOLE)
    monkeypatch.setenv("TOUCHSTONE_ACCOUNT", "0x" + 40 * "2")
    assert read_config(tmp_path).account == "0x" + 40 * "1"


def test_paths_in_a_configuration_may_begin_with_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    text = WHOLE.replace('"d"', '"~/d.json"') + 'password_file="~/secret"'
    (tmp_path / CONFIG_FILE).write_text(text)
    config = read_config(tmp_path)
    assert (config.deployment, config.password_file) == ("/somewhere/d.json", "/somewhere/secret")


def test_an_option_that_could_not_be_read_again_is_refused_by_its_name() -> None:
    assert check_config(CONFIG) == CONFIG
    with pytest.raises(InvalidInput, match="Correct this option") as error:
        check_config(replace(CONFIG, memory_mb=-1))
    assert error.value.where == "--memory-mb"
    with pytest.raises(InvalidInput, match="Correct this option") as error:
        check_config(replace(CONFIG, device="mps"))
    assert error.value.expected == "cpu, cuda, or cuda: with the number of a card"


def test_a_key_with_choices_is_told_them(tmp_path: Path) -> None:
    (tmp_path / CONFIG_FILE).write_text(WHOLE + 'preset="3s"')
    with pytest.raises(InvalidInput) as error:
        read_config(tmp_path)
    assert error.value.expected == "12s, 2s or local"
    (tmp_path / CONFIG_FILE).write_text(WHOLE + 'executor="threads"')
    with pytest.raises(InvalidInput) as error:
        read_config(tmp_path)
    assert error.value.expected == "process or ray"
    (tmp_path / CONFIG_FILE).write_text(WHOLE + 'device="mps"')
    with pytest.raises(InvalidInput) as error:
        read_config(tmp_path)
    assert error.value.expected == "cpu, cuda, or cuda: with the number of a card"


def test_a_folder_that_is_no_home_sends_to_init(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no home.*touchstone init.* or pass --home") as error:
        read_config(tmp_path)
    assert error.value.where == str(tmp_path / CONFIG_FILE)


def test_a_half_made_home_is_told_that_its_key_is_used(tmp_path: Path) -> None:
    create_home(tmp_path / "home", CONFIG, "secret", is_devnet=True)
    (tmp_path / "home" / CONFIG_FILE).unlink()
    said = "incomplete.*Run `touchstone init` with the same --home: it goes on with the key that is there"
    with pytest.raises(InvalidInput, match=said):
        read_config(tmp_path / "home")


def test_a_file_is_no_home(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    for use in (read_config, lambda home: create_home(home, CONFIG, "secret", is_devnet=True)):
        with pytest.raises(InvalidInput) as error:
            use(path)
        assert (error.value.expected, error.value.actual) == ("a folder", "a file")
        assert error.value.where == str(path)


def test_a_half_made_home_is_finished_with_its_key_or_says_what_it_lacks(
    tmp_path: Path, password_file: Path
) -> None:
    home = tmp_path / "home"
    key = create_home(home, CONFIG, "secret", is_devnet=True)
    (home / CONFIG_FILE).unlink()
    with pytest.raises(InvalidInput):
        create_home(home, CONFIG, "another", is_devnet=True)
    assert create_home(home, CONFIG, "secret", is_devnet=True).address == key.address
    assert unlock_key(home, password_file).address == key.address
    (home / KEYSTORE_FILE).unlink()
    with pytest.raises(InvalidInput, match="has no key.*touchstone init"):
        unlock_key(home, password_file)
    another = create_home(home, CONFIG, "secret", is_devnet=True).address
    assert another != key.address and read_config(home).account == another


def test_a_full_disk_leaves_no_half_of_a_configuration(
    tmp_path: Path, password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would pass for a whole home, which init does not touch."""

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    home = tmp_path / "home"
    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space left.*config\.toml"):
        patch.setattr("touchstone.scripts.home.home_folder.replace_private_file", refuse)
        create_home(home, CONFIG, "secret", is_devnet=True)
    assert not (home / CONFIG_FILE).exists()
    key = create_home(home, CONFIG, "secret", is_devnet=True)
    assert unlock_key(home, password_file).address == key.address
