"""Certificates of our own: an authority for trying TLS, and what a listener has that nobody gave a certificate."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
AUTHORITY_DAYS, CERTIFICATE_DAYS = 3650, 825
"""Apple's systems refuse certificates of servers that are valid for longer than 825 days."""
EARLIER = datetime.timedelta(hours=1)
"""Clocks of other machines may be late."""


class Identity(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        """For everybody."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """For nobody else."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """As NAME.crt and NAME.key, which only their owner reads."""
        paths = directory / f"{name}.crt", directory / f"{name}.key"
        for path, content in zip(paths, (self.certificate_pem(), self.key_pem()), strict=True):
            write_secret(path, content)
        return paths


def write_secret(path: Path, content: bytes) -> None:
    """A file that only its owner reads, from its first moment on; whole, or not there."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def make_authority(name: str) -> Identity:
    """An authority that signs certificates of servers and clients."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Identity(builder.sign(key, hashes.SHA256()), key)


def issue_server(authority: Identity | None, name: str, hosts: Sequence[str], days: int = CERTIFICATE_DAYS) -> Identity:
    """For a server that is reached by these names and addresses; without an authority it signs itself."""
    alternatives = x509.SubjectAlternativeName(list(map(_host, hosts)))
    return _issue(authority, name, alternatives, ExtendedKeyUsageOID.SERVER_AUTH, days)


def issue_client(authority: Identity, name: str, days: int = CERTIFICATE_DAYS) -> Identity:
    """For a client that says who it is by it."""
    return _issue(authority, name, None, ExtendedKeyUsageOID.CLIENT_AUTH, days)


def _issue(
    authority: Identity | None,
    name: str,
    alternatives: x509.SubjectAlternativeName | None,
    purpose: x509.ObjectIdentifier,
    days: int,
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    issuer = subject if authority is None else authority.certificate.subject
    signer = key if authority is None else authority.key
    builder = _builder(subject, issuer, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(authority_key, critical=False)
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return Identity(builder.sign(signer, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    ends = now + datetime.timedelta(days=days)
    begins = min(now, ends) - EARLIER
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
