"""Certificates for tests of TLS: a whole world of them, made once per process, and files where the program wants files."""

import functools
import ssl
from pathlib import Path

from mainstem.server.certificate_authority import LOCAL_NAMES, Identity, issue_client, issue_server, make_authority


@functools.cache
def authority() -> Identity:
    """The one that broker and clients trust."""
    return make_authority("Test Authority")


@functools.cache
def other_authority() -> Identity:
    """The one that nobody trusts."""
    return make_authority("Another Authority")


@functools.cache
def server(name: str = "broker") -> Identity:
    """The broker."""
    return issue_server(authority(), name, [*LOCAL_NAMES, f"{name}.example"])


@functools.cache
def client(name: str = "ana", days: int = 10) -> Identity:
    """A client; one of -1 days has expired."""
    return issue_client(authority(), name, days)


@functools.cache
def stranger() -> Identity:
    """A client of the other authority."""
    return issue_client(other_authority(), "ana")


def write(directory: Path) -> list[str]:
    """The broker's files and the authority's, and the options of the program that name them."""
    directory.mkdir(exist_ok=True)
    (directory / "ca.crt").write_bytes(authority().certificate_pem())
    certificate, key = server().write(directory, "server")
    files = {"certificate_file": certificate, "key_file": key, "client_ca_file": directory / "ca.crt"}
    return [word for name, path in files.items() for word in ("--set", f"tls.{name}={path}")]


def client_context(directory: Path, identity: Identity | None = None, version: str = "") -> ssl.SSLContext:
    """For a client that trusts the authority, and is somebody where an identity is given."""
    context = ssl.create_default_context(cadata=authority().certificate_pem().decode())
    if identity is not None:
        name = identity.certificate.subject.rfc4514_string().removeprefix("CN=") + str(
            identity.certificate.serial_number
        )
        context.load_cert_chain(*identity.write(directory, name))
    if version == "1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif version == "1.3":
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
