"""Every module that goes another way where it is compiled is compared with itself as Python."""

from __future__ import annotations

import re
from pathlib import Path

from mainstem.compiled import PACKAGE

HERE = Path(__file__).parent


def test_every_module_with_two_ways_is_compared() -> None:
    branching = {
        "mainstem." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if "cython.compiled" in path.read_text() and path.with_suffix(".pxd").exists()
    }
    compared = {
        name for path in HERE.glob("test_*.py") for name in re.findall(r'both_ways\("(.+?)"\)', path.read_text())
    }
    assert branching, "no module has two ways"
    assert branching <= compared
