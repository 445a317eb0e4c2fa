"""Figures, and the report they go into."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """A measured value, what it is compared with, and the ratio or bound it should keep."""

    name: str
    value: float
    base: float | None = None
    at_least: float | None = None
    """Lowest wanted ratio value / base."""
    at_most: float | None = None
    """Highest wanted value."""
    ratio_at_most: float | None = None
    """Highest wanted ratio value / base."""

    @property
    def ratio(self) -> float | None:
        """Value to base."""
        return None if not self.base else self.value / self.base

    @property
    def met(self) -> bool | None:
        """Whether it is as wanted; None where nothing is wanted."""
        if self.at_least is not None and self.ratio is not None:
            return self.ratio >= self.at_least
        if self.ratio_at_most is not None and self.ratio is not None:
            return self.ratio <= self.ratio_at_most
        if self.at_most is not None:
            return self.value <= self.at_most
        return None

    def row(self) -> str:
        """As a row of a table."""
        wanted = f">= {self.at_least}" if self.at_least is not None else ""
        wanted = f"<= {self.at_most:,g}" if self.at_most is not None else wanted
        wanted = f"<= {self.ratio_at_most}" if self.ratio_at_most is not None else wanted
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        base = "" if self.base is None else _figures(self.base)
        verdict = {True: "yes", False: "NO", None: ""}[self.met]
        return f"| {self.name} | {_figures(self.value)} | {base} | {ratio} | {wanted} | {verdict} |"


def _figures(value: float) -> str:
    """Readable at any size."""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


HEAD = "| figure | value | base | ratio | wanted | met |\n|---|---:|---:|---:|---|---|"


def write_report(path: Path, figures: list[Figure], command: str) -> None:
    """Write all figures with where and how they were made."""
    lines = [
        "# Benchmark report",
        "",
        f"`{command}`, {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, {os.cpu_count()} cores, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}.",
        "",
        HEAD,
        *(figure.row() for figure in figures),
        "",
    ]
    path.write_text("\n".join(lines))
