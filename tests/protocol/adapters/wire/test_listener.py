import hashlib
import ssl
import stat
from pathlib import Path

import pytest

from protocol.adapters.wire.listener import load_or_create_identity, make_server_context
from protocol.spec.errors import InvalidInput


def test_an_identity_stays_the_same(tmp_path: Path) -> None:
    first, second = load_or_create_identity(tmp_path / "tls"), load_or_create_identity(tmp_path / "tls")
    assert first == second
    der = ssl.PEM_cert_to_DER_cert(first.certificate_path.read_text())
    assert first.fingerprint == hashlib.sha256(der).digest()


def test_each_identity_is_another(tmp_path: Path) -> None:
    one, two = load_or_create_identity(tmp_path / "one"), load_or_create_identity(tmp_path / "two")
    assert one.fingerprint != two.fingerprint


def test_the_key_is_private(tmp_path: Path) -> None:
    identity = load_or_create_identity(tmp_path / "tls")
    assert stat.S_IMODE(identity.key_path.stat().st_mode) == 0o600
    identity.key_path.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        load_or_create_identity(tmp_path / "tls")


def test_a_key_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "certificate-key.pem").write_text("half")
    make_server_context(load_or_create_identity(tmp_path))


def test_a_malformed_certificate_is_told(tmp_path: Path) -> None:
    identity = load_or_create_identity(tmp_path)
    identity.certificate_path.write_text("no certificate")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_or_create_identity(tmp_path)


def test_old_protocols_are_refused(tmp_path: Path) -> None:
    context = make_server_context(load_or_create_identity(tmp_path))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
