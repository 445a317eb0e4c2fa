"""Who is at the other end of a connection, as far as its session has learned it."""

from __future__ import annotations

TEXT_CHARACTERS_MAX = 256
"""Of what a client says about itself, this much is kept."""


class Peer:
    """A session fills it in as the client speaks; what a protocol does not know stays empty."""

    __slots__ = ("library", "name", "namespace", "user", "version")

    def __init__(self) -> None:
        self.name = ""
        """What the client calls itself."""
        self.library = ""
        self.version = ""
        """Of the library."""
        self.user = ""
        """Who has proven to be it; empty where nobody is asked."""
        self.namespace = ""

    def introduce(self, library: str, version: str = "") -> None:
        """What the client says it is made with."""
        self.library = library[:TEXT_CHARACTERS_MAX]
        self.version = version[:TEXT_CHARACTERS_MAX]
