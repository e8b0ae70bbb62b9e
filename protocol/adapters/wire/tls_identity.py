"""Makes and loads a node's TLS identity: a self-signed certificate whose SHA-256 is registered on chain."""

import datetime
import hashlib
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from touchstone.protocol.adapters.files.private_files import require_private_file, write_private_file
from touchstone.protocol.spec.errors import InvalidInput

VALIDITY_DAYS = 3650
"""The pin counts, not the date. A certificate is renewed by registering another one."""
CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "certificate-key.pem"


@dataclass(frozen=True)
class TlsIdentity:
    """A certificate and its key on disk. `fingerprint` is the 32-byte SHA-256 of the certificate (DER)."""

    certificate_path: Path
    key_path: Path
    fingerprint: bytes


def load_or_create_identity(folder: Path) -> TlsIdentity:
    """Returns the identity in `folder`, made on the first call. Raises InvalidInput if others can read the
    key, or a file is malformed."""
    certificate_path, key_path = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if not certificate_path.exists():
        _create_identity(certificate_path, key_path)
    require_private_file(key_path)
    return TlsIdentity(certificate_path, key_path, _read_fingerprint(certificate_path))


def _create_identity(certificate_path: Path, key_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    # A crash between the two files left a key without a certificate. It was never registered, so drop it.
    key_path.unlink(missing_ok=True)
    write_private_file(key_path, _encode_key(key))
    write_private_file(certificate_path, _make_certificate(key).public_bytes(serialization.Encoding.PEM))


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _make_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "touchstone node")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALIDITY_DAYS))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )


def _read_fingerprint(certificate_path: Path) -> bytes:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
    except ValueError as error:
        raise InvalidInput(
            what="the TLS certificate cannot be read",
            expected="a PEM certificate",
            actual=str(error),
            where=str(certificate_path),
            remedy="Remove it and its key; a new pair is made, and is to be registered on chain.",
        ) from error
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest()
