"""What is wrong with a request, whatever it asks for: each fact with its status and its stable name.

HttpError
|-- about the bytes     InvalidRequest 400, RequestTimeout 408, BodyTooLarge 413, HeadTooLarge 431, UnsupportedVersion 505
`-- about their way     CrossSiteRequest 403, MisdirectedRequest 421
"""

from __future__ import annotations


class HttpError(Exception):
    """The request failed."""

    status = 500
    name = "internal-error"

    @classmethod
    def title(cls) -> str:
        """The same for every occurrence."""
        return (cls.__doc__ or cls.name).splitlines()[0].rstrip(".")

    def headers(self) -> list[tuple[str, str]]:
        """What the status obliges us to say beside the content."""
        return []

    def members(self) -> dict[str, str]:
        """What a program can use, beside the sentence for its reader."""
        return {}


# About the bytes


class InvalidRequest(HttpError):
    """Not a request that can be understood."""

    status = 400
    name = "invalid-request"


class RequestTimeout(HttpError):
    """The rest of the request did not come in time."""

    status = 408
    name = "request-timeout"


class BodyTooLarge(HttpError):
    """More content than is taken."""

    status = 413
    name = "body-too-large"


class HeadTooLarge(HttpError):
    """Request line and headers are longer than is taken."""

    status = 431
    name = "head-too-large"


class UnsupportedVersion(HttpError):
    """Neither HTTP/1.1 nor HTTP/1.0."""

    status = 505
    name = "unsupported-version"


class CrossSiteRequest(HttpError):
    """A browser sent the request for a page of another site."""

    status = 403
    name = "cross-site-request"


class MisdirectedRequest(HttpError):
    """The request was meant for another host."""

    status = 421
    name = "misdirected-request"
