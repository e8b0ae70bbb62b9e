import hashlib
import ssl
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from touchstone.protocol.adapters.wire.tls_contexts import (
    OtherCertificate,
    make_client_context,
    make_pinned_context,
    make_public_context,
    make_server_context,
)
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.errors import InvalidInput


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


def shake(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """The version of TLS on which both ends agree, in memory. Raises ssl.SSLError where they do not."""
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(one, other, server_hostname="node")
    asked = server.wrap_bio(other, one, server_side=True)
    for _ in range(4):
        for end in (asking, asked):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return str(asking.version())


def change(context: ssl.SSLContext, other: str) -> None:
    """Have an end speak with this group alone, or in an older version of TLS."""
    if other == "TLS 1.2":
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        return
    try:
        context.set_ecdh_curve(other)
    except ssl.SSLError:
        pytest.skip(f"this Python cannot have an end speak {other}: it sets elliptic curves only")


OTHERS = ["TLS 1.2", "ffdhe2048", "ffdhe8192", "secp521r1"]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("is_client", [False, True])
def test_no_other_end_chooses_what_this_one_computes_with(
    tmp_path: Path, is_client: bool, other: str
) -> None:
    """A hello of one kilobyte, or a server's answer to one, had a node compute with 8,192 bits in the thread
    that answers everybody; a server that spoke TLS 1.2 with 10,000, for a second."""
    client, server = make_client_context(), make_server_context(load_or_create_identity(tmp_path))
    assert shake(client, server) == "TLSv1.3"
    change(client if is_client else server, other)
    with pytest.raises(ssl.SSLError):
        shake(client, server)


def test_a_bucket_chooses_no_numbers_either(tmp_path: Path) -> None:
    """A peer names whose bucket to ask, and anybody gets the certificate of an authority."""
    context = make_public_context()
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert {one["kea"] for one in context.get_ciphers()} <= {"kx-ecdhe", "kx-any"}
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    server = make_server_context(load_or_create_identity(tmp_path))
    assert shake(context, server) == "TLSv1.3"
    change(server, "ffdhe8192")
    with pytest.raises(ssl.SSLError):
        shake(context, server)


def test_a_pin_lets_one_certificate_through(tmp_path: Path) -> None:
    one, two = (load_or_create_identity(tmp_path / name) for name in ("one", "two"))
    pin = make_pinned_context(one.fingerprint)
    assert make_pinned_context(one.fingerprint) is pin, "connections are kept by it"
    assert shake(pin, make_server_context(one)) == "TLSv1.3"
    with pytest.raises(OtherCertificate) as error:
        shake(pin, make_server_context(two))
    assert error.value.shown == two.fingerprint
    for other in OTHERS:
        server = make_server_context(one)
        change(server, other)
        with pytest.raises(ssl.SSLError):
            shake(pin, server)
