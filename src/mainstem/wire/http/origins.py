"""Pages of other sites must not change anything here.

A browser sends a form, plain text or nothing for a page of any site, with the password that it keeps for us, and asks us first
only about other kinds of content. But it says where the page comes from: all browsers in `Origin`, newer ones also in
`Sec-Fetch-Site`, and no page can change these. Programs like curl and rabbitmqadmin send neither, and say any content type.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from mainstem.wire.http.errors import CrossSiteRequest
from mainstem.wire.http.messages import Request

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""A page of another site cannot see the answer."""
OWN = frozenset({"same-origin", "none"})
"""Of our own page, or typed in by the user."""


def check_origin(request: Request) -> None:
    """Whether a request that may change something was not made by another site. Raises CrossSiteRequest."""
    if request.method in READING:
        return
    site, origin = request.header(b"sec-fetch-site"), request.header(b"origin")
    if site is not None:
        is_own = site in OWN
    else:
        is_own = origin is None or _authority(origin) == (request.header(b"host") or "").lower()
    if not is_own:
        raise CrossSiteRequest(f"requests of pages from {origin or 'other sites'} are not taken")


def _authority(origin: str) -> str | None:
    """HOST:PORT as `Host` writes it. The scheme may differ: a proxy in front of us may speak TLS."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
