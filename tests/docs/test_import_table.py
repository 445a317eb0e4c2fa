"""ARCHITECTURE.md says which packages import which: the table is compared with the imports there are."""

import re
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
EVERYWHERE = {"compiled", "kept_memory"}
"""Modules that everybody may import; the table leaves them out."""
NONE = "standard library"
NO_PYTHON = "no Python"
"""Of a folder that holds other sources, and so imports nothing."""


def written() -> dict[str, set[str]]:
    """The last column of the code map, by the name in the first."""
    rows = re.findall(
        r"^\| `([a-z_]+)(?:/|/NAME/|\.py)` \|.*\| ([^|]*) \|$", ARCHITECTURE.split("## Code map")[1], re.MULTILINE
    )
    return {
        name: set() if imports == NONE else set(imports.split(", ")) for name, imports in rows if imports != NO_PYTHON
    }


def real() -> dict[str, set[str]]:
    """What the modules of each package import; imports for types alone do not count."""
    graph = grimp.build_graph("mainstem", exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = {top.split(".")[1]: set() for top in graph.find_children("mainstem")}
    for module in graph.modules - {"mainstem"}:
        home = module.split(".")[1]
        found[home] |= {name.split(".")[1] for name in graph.find_modules_directly_imported_by(module)} - {home}
    return {home: imports - EVERYWHERE for home, imports in found.items()}


def test_the_import_table_is_true() -> None:
    assert written() == real()
