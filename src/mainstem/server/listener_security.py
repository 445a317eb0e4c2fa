"""What stands between the sockets of each listener and its sessions, by the settings: TLS and proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mainstem.model.endpoints import TLS_SUFFIX
from mainstem.server.registry import REGISTERED
from mainstem.transport.entrance import Encryption
from mainstem.transport.listener import Network, Security
from mainstem.transport.tls_credentials import Credentials

if TYPE_CHECKING:
    from mainstem.server.settings import Settings


class ListenerSecurity:
    """Of all listeners of a server."""

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError for what cannot be served."""
        self._settings = settings
        self._listening = {name for name, addresses in settings.listen.items() if addresses}
        self._credentials: Credentials | None = None
        tls = settings.tls
        if tls.certificate_file or tls.key_file or any(name.endswith(TLS_SUFFIX) for name in self._listening):
            self._credentials = Credentials(tls)
            self._check_names("tls.client_certificates_by_listener", self._credentials.listeners_named())
        self._proxies = _networks(settings.proxy.trusted)
        self._check_names("proxy.listeners", settings.proxy.listeners)
        if settings.proxy.listeners and not self._proxies:
            raise ValueError("proxy.listeners needs proxy.trusted: without it nobody's header is believed")

    @property
    def has_files(self) -> bool:
        """Whether there are certificates that may change."""
        return self._credentials is not None

    def of(self, name: str) -> Security:
        """What a listener of this name has."""
        registration = REGISTERED[name.removesuffix(TLS_SUFFIX)]
        tls, encryption = self._settings.tls, Encryption.NEVER
        if name.endswith(TLS_SUFFIX):
            encryption = Encryption.ALWAYS
        elif registration.takes_both and self._credentials is not None:
            encryption = Encryption.EITHER
        security = Security(
            encryption,
            proxies=self._proxies if name in self._settings.proxy.listeners else (),
            handshakes_max=tls.handshakes_max,
            handshake_timeout_ms=tls.handshake_timeout_ms,
        )
        if encryption is Encryption.NEVER or self._credentials is None:
            return security
        terms = self._credentials.terms(name, registration.application_protocols)
        self._credentials.context(terms)  # What cannot be served is found now, and not by the first client.
        return security._replace(credentials=self._credentials, terms=terms)

    def check_clear_text(self) -> None:
        """Refuse what others on the network could read, unless that was said to be right. Raises ValueError."""
        if self._settings.security.without_tls:
            return
        for name, addresses in self._settings.listen.items():
            for address in addresses:
                if not name.endswith(TLS_SUFFIX) and not _is_loopback(address.host):
                    raise ValueError(
                        f"{name}={address} would carry passwords and messages in clear text beyond this machine: "
                        f"use --listen {name}{TLS_SUFFIX}={address} with a certificate, or set security.without_tls=true"
                    )

    def look(self) -> None:
        """Read certificates again where their files have changed."""
        if self._credentials is not None:
            self._credentials.renew()

    def read_again(self) -> None:
        """Read certificates again."""
        if self._credentials is not None:
            self._credentials.renew(is_asked=True)

    def _check_names(self, setting: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._listening:
                raise ValueError(f"{setting} names {name!r}, which does not listen")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(map(ipaddress.ip_network, texts))
    except ValueError as error:
        raise ValueError(f"proxy.trusted: {error}") from None
