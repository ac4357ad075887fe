"""Certificates and node keys of a deployment on one machine."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from exhume.errors import MissingExtraError
from exhume.files import PRIVATE, atomic_file

__all__ = ["write_certificate", "write_key"]

_DAYS = 30


def _libraries() -> Any:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingExtraError("a deployment with TLS", "flower") from error
    return x509, hashes, serialization, ec


def write_certificate(folder: Path, host: str) -> None:
    """Write ``ca.pem``, ``server.pem`` and ``server.key`` for an address, unless they are there."""
    if (folder / "server.pem").exists():
        return
    x509, hashes, serialization, ec = _libraries()
    now = datetime.datetime.now(datetime.UTC)

    def named(name: str) -> Any:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

    def draft(subject: str, key: Any) -> Any:
        made = x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named("exhume test authority"))
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        start = now - datetime.timedelta(hours=1)
        return made.not_valid_before(start).not_valid_after(now + datetime.timedelta(days=_DAYS))

    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    own = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    authority = draft("exhume test authority", root).add_extension(x509.BasicConstraints(True, 0), True)
    authority = authority.add_extension(usage, True).add_extension(own, False).sign(root, hashes.SHA256())
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)), x509.DNSName("localhost")])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
    server = draft(host, leaf).add_extension(x509.BasicConstraints(False, None), True).add_extension(names, False)
    server = server.add_extension(issuer, False).sign(root, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    _write_private(folder / "server.key", leaf.private_bytes(pem, *plain))
    (folder / "server.pem").write_bytes(server.public_bytes(pem))


def write_key(path: Path) -> None:
    """Write a node's private key (P-384, OpenSSH format) and its public one beside it, unless they are there."""
    if path.with_suffix(".pub").exists():
        return
    _, _, serialization, ec = _libraries()
    key, ssh = ec.generate_private_key(ec.SECP384R1()), serialization.PublicFormat.OpenSSH
    form = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    _write_private(path, key.private_bytes(serialization.Encoding.PEM, *form))
    path.with_suffix(".pub").write_bytes(key.public_key().public_bytes(serialization.Encoding.OpenSSH, ssh))


def _write_private(path: Path, data: bytes) -> None:
    with atomic_file(path, PRIVATE) as stream:
        stream.write(data)
