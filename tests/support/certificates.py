"""An authority of the test's own, and a server's certificate from it: what verified TLS needs."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


class Certificates(NamedTuple):
    """Files: of the authority's certificate, and of the server's and its key."""

    authority: Path
    server: Path
    key: Path


def certificates(home: Path, *, owner: str | None = None) -> Certificates:
    """For a server at 127.0.0.1. `owner`: the user who runs it, whose the files then are."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("authority of a test", authority_key, "authority of a test", authority_key, ca=True)
    server = _certificate("127.0.0.1", server_key, "authority of a test", authority_key, ca=False)
    made = Certificates(home / "authority.pem", home / "server.pem", home / "server.key")
    made.authority.write_bytes(authority.public_bytes(_PEM))
    made.server.write_bytes(server.public_bytes(_PEM))
    private = serialization.PrivateFormat.PKCS8
    made.key.touch(mode=0o600)
    made.key.write_bytes(server_key.private_bytes(_PEM, private, serialization.NoEncryption()))
    if owner is not None:
        for file in made:
            shutil.chown(file, owner)
    return made


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signs: ec.EllipticCurvePrivateKey, *, ca: bool
) -> x509.Certificate:
    usage = x509.KeyUsage(
        digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key()), critical=False)
    )
    if not ca:
        at = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
        builder = builder.add_extension(at, critical=False)
    return builder.sign(signs, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
