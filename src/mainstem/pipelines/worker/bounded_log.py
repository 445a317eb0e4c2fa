"""The log of a driver: two files that never grow beyond a bound, and the newest of it by position."""

from __future__ import annotations

from pathlib import Path

FILE_BYTES_MAX = 2 << 20
"""Of each of the two files."""
TAIL_CHARACTERS_MAX = 64 << 10
"""What is at hand to be sent to the broker."""


class BoundedLog:
    """Written by the worker with whatever a driver says."""

    def __init__(
        self, path: Path, file_bytes_max: int = FILE_BYTES_MAX, tail_characters_max: int = TAIL_CHARACTERS_MAX
    ) -> None:
        self._path = path
        self._file_bytes_max = file_bytes_max
        self._tail_characters_max = tail_characters_max
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._begin = 0
        self._tail = _last(path, tail_characters_max)

    @property
    def end(self) -> int:
        """The position behind the last character."""
        return self._begin + len(self._tail)

    def append(self, data: bytes) -> None:
        """What the driver has written."""
        if self._file.tell() + len(data) > self._file_bytes_max:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = self._path.open("wb")
        self._file.write(data)
        self._file.flush()
        self._tail += data.decode("utf-8", "replace")
        if (over := len(self._tail) - self._tail_characters_max) > 0:
            self._begin += over
            self._tail = self._tail[over:]

    def after(self, position: int, size_max: int) -> tuple[int, str]:
        """What is behind a position and at hand, and where it begins."""
        begin = min(max(position, self._begin), self.end)
        text = self._tail[begin - self._begin :]
        return begin, text[:size_max]

    def close(self) -> None:
        """It is not written any more."""
        self._file.close()


def _last(path: Path, characters_max: int) -> str:
    """What an earlier worker has written."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - characters_max))
        return file.read().decode("utf-8", "replace")
