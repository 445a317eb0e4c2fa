"""The certificates and rules of TLS that are in force, read again when their files change.

New files serve new connections; open ones keep what they agreed on. Files that cannot be used change nothing, and are reported
once: a broker must not lose its certificate because somebody copies the next one in two steps.
"""

from __future__ import annotations

import logging
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from cryptography import x509

from mainstem.model.bounds import Positive
from mainstem.transport.client_identity import UserRules, UserSource

log = logging.getLogger(__name__)

ClientCertificates: TypeAlias = Literal["none", "optional", "required"]
HANDSHAKES_MAX = 1_000
HANDSHAKE_TIMEOUT_MS = 10_000
MODES = ("none", "optional", "required")
NAMED_CERTIFICATES_MAX = 1_000
"""In the directory of certificates that are chosen by the name a client asks for."""

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsUnusable(ValueError):
    """What was set for TLS cannot be served."""


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How listeners speak TLS."""

    certificate_file: str | None = None
    """The broker's certificate and those between it and the authority, in PEM."""
    key_file: str | None = None
    """Its private key, in PEM; others must not be able to read the file."""
    certificates_directory: str | None = None
    """Further certificates, each as `NAME.crt` with `NAME.key`: served to clients that ask for one of its names (SNI)."""
    client_ca_file: str | None = None
    """Authorities whose clients are known, in PEM."""
    client_certificates: ClientCertificates = "none"
    """Whether clients may or must show a certificate."""
    client_certificates_by_listener: tuple[str, ...] = ()
    """The same for single listeners, as `http+tls=none`."""
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    """Older versions of TLS are refused."""
    user_from: UserSource = "subject"
    """Which name of a client's certificate is its user's."""
    user_rules: str = "DEFAULT"
    """How the user's name is made of it, as Kafka's `ssl.principal.mapping.rules`."""
    handshakes_max: Positive = HANDSHAKES_MAX
    """Handshakes under way per listener; a connection more is closed at once."""
    handshake_timeout_ms: Positive = HANDSHAKE_TIMEOUT_MS
    """How long a handshake may take."""


class Terms(NamedTuple):
    """On what a listener speaks TLS."""

    client_certificates: ClientCertificates = "none"
    application_protocols: tuple[str, ...] = ()
    """What clients that ask may speak (ALPN), the preferred first."""


class Credentials:
    """TLS contexts of the files as they were when they last could be used."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises TlsUnusable."""
        self._settings = settings
        self._seen: object = None
        self._contexts: dict[Terms, ssl.SSLContext] = {}
        self.rules = _rules(settings)
        self._by_listener = _modes(settings)
        self._check()
        self._seen = self._look()
        self.context(Terms())

    def terms(self, listener: str, application_protocols: tuple[str, ...]) -> Terms:
        """Of a listener, by its name."""
        mode = self._by_listener.get(listener, self._settings.client_certificates)
        return Terms(mode, application_protocols)

    def context(self, terms: Terms) -> ssl.SSLContext:
        """For a new connection."""
        found = self._contexts.get(terms)
        if found is None:
            found = self._contexts[terms] = self._build(terms)
        return found

    def listeners_named(self) -> Iterable[str]:
        """Those with a rule of their own."""
        return self._by_listener

    def renew(self, *, is_asked: bool = False) -> None:
        """Read the files again if one of them is another now."""
        seen = self._look()
        if seen == self._seen and not is_asked:
            return
        self._seen = seen
        try:
            self._check()
            self._contexts = {terms: self._build(terms) for terms in self._contexts}
        except TlsUnusable as error:
            log.error("the certificates of before stay in use: %s", error)  # noqa: TRY400 - an expected error has no trace
        else:
            log.info("certificates were read again")

    # -----------------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        settings = self._settings
        if settings.certificate_file is None or settings.key_file is None:
            raise TlsUnusable(
                "TLS needs tls.certificate_file and tls.key_file; `mainstem tls init DIR` makes them for trying it"
            )
        modes = {settings.client_certificates, *self._by_listener.values()}
        if modes != {"none"} and settings.client_ca_file is None:
            raise TlsUnusable("tls.client_certificates needs tls.client_ca_file")

    def _pairs(self) -> list[tuple[Path, Path]]:
        directory = self._settings.certificates_directory
        if directory is None:
            return []
        try:
            found = sorted(path for path in Path(directory).iterdir() if path.suffix == ".crt")
        except OSError as error:
            raise TlsUnusable(f"tls.certificates_directory cannot be read: {error}") from None
        if len(found) > NAMED_CERTIFICATES_MAX:
            raise TlsUnusable(f"tls.certificates_directory has more than {NAMED_CERTIFICATES_MAX} certificates")
        return [(path, path.with_suffix(".key")) for path in found]

    def _look(self) -> object:
        """What tells one version of the files from the next."""
        settings = self._settings
        paths = [Path(name) for name in (settings.certificate_file, settings.key_file, settings.client_ca_file) if name]
        try:
            paths += [path for pair in self._pairs() for path in pair]
        except TlsUnusable as error:
            return str(error)
        return [_mark(path) for path in paths]

    def _build(self, terms: Terms) -> ssl.SSLContext:
        settings = self._settings
        assert settings.certificate_file is not None
        assert settings.key_file is not None
        context = self._load(Path(settings.certificate_file), Path(settings.key_file), terms)
        named: dict[str, ssl.SSLContext] = {}
        for certificate, key in self._pairs():
            other = self._load(certificate, key, terms)
            for name in _names(certificate):
                named.setdefault(name, other)
        if named:
            context.sni_callback = _chooser(named)  # type: ignore[assignment]
        return context

    def _load(self, certificate: Path, key: Path, terms: Terms) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[settings.minimum_version]
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        check_secret(key)
        try:
            context.load_cert_chain(certificate, key, _no_password)
        except OSError as error:  # an SSLError is one, too
            raise TlsUnusable(f"{certificate} with {key} cannot be used: {_words(error)}") from None
        if terms.client_certificates != "none":
            assert settings.client_ca_file is not None
            try:
                context.load_verify_locations(settings.client_ca_file)
            except OSError as error:
                raise TlsUnusable(
                    f"tls.client_ca_file {settings.client_ca_file} cannot be used: {_words(error)}"
                ) from None
            context.verify_mode = _VERIFY[terms.client_certificates]
        if terms.application_protocols:
            context.set_alpn_protocols(list(terms.application_protocols))
        return context


def check_secret(path: Path) -> None:
    """Whether others cannot read or change the file. Raises TlsUnusable."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise TlsUnusable(f"{path} cannot be read: {error.strerror}") from None
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise TlsUnusable(f"{path} is a secret that others can read: chmod 600 {path}")


def _no_password() -> str:
    raise TlsUnusable("the private key is encrypted; a key without a passphrase is needed")


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is no PEM").lower().replace("_", " ")
    return error.strerror or str(error)


def _mark(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return path, error.errno
    return path, found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _names(certificate: Path) -> list[str]:
    """The names of hosts that it speaks for."""
    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    except (OSError, ValueError) as error:
        raise TlsUnusable(f"{certificate} cannot be used: {error}") from None
    return [name.lower() for name in names.get_values_for_type(x509.DNSName)]


def _chooser(named: dict[str, ssl.SSLContext]) -> object:
    def choose(tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is not None:
            name = name.lower()
            found = named.get(name) or named.get("*." + name.partition(".")[2])
            if found is not None:
                tls.context = found

    return choose


def _rules(settings: TlsSettings) -> UserRules:
    try:
        return UserRules(settings.user_from, settings.user_rules)
    except ValueError as error:
        raise TlsUnusable(f"tls.user_rules: {error}") from None


def _modes(settings: TlsSettings) -> dict[str, ClientCertificates]:
    modes: dict[str, ClientCertificates] = {}
    for text in settings.client_certificates_by_listener:
        listener, _, mode = text.partition("=")
        if mode not in MODES:
            raise TlsUnusable(
                f"tls.client_certificates_by_listener: {text!r} is not LISTENER=none, optional or required"
            )
        modes[listener.strip()] = mode  # type: ignore[assignment]
    return modes
