"""What is wrong with a definition: each fact with the file and the line where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.pipelines.errors import PipelineError


class FileLine(NamedTuple):
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Problem(NamedTuple):
    """One fact."""

    place: FileLine
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class DefinitionRefused(PipelineError):
    """The definition cannot be run; all that is wrong with it is told at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)
