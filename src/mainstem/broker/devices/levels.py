"""Whether a name fits a filter."""

from mainstem.coordination.devices.topic_filters import SEPARATOR, parts_of


def fits(text: str, name: str) -> bool:
    """A single question; for many filters there is the trie."""
    levels = text.split(SEPARATOR)
    return parts_of(levels, name) is not None or text == f"{name}/#"
