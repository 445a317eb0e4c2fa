"""Brings our code to workers that do not have it.

An archive with this package and the few compiled ones it needs, which Spark copies to every executor and unpacks there. Spark
itself, pyarrow, numpy and pandas are taken to be there, as for any Arrow work; and Spark insists on the same Python.
"""

from __future__ import annotations

import atexit
import functools
import importlib.metadata
import importlib.util
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

UNPACKED = "mainstem_code"
PACKAGES = ("mainstem", "pyspark_mainstem")
NEEDED = ("crc32c", "cramjam", "msgspec")
WELCOME = ("fastavro", "protobuf")
"""Shipped where the driver has them: value formats."""


def shipping_settings() -> dict[str, str]:
    """Settings of Spark that make executors import our code from the archive."""
    return {
        "spark.archives": f"{code_archive()}#{UNPACKED}",
        "spark.executorEnv.PYTHONPATH": f"./{UNPACKED}",
    }


@functools.cache
def code_archive() -> Path:
    """Made once, and removed when the process ends."""
    directory = tempfile.TemporaryDirectory(prefix="mainstem-code-")
    atexit.register(directory.cleanup)
    archive = Path(directory.name) / "mainstem.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path, name in sorted(_files(), key=lambda entry: entry[1]):
            out.write(path, name)
    return archive


def _files() -> Iterator[tuple[Path, str]]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        root = Path(spec.origin).parent
        for path in root.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path, str(Path(package) / path.relative_to(root))
    for name in (*NEEDED, *WELCOME):
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            if name in NEEDED:
                raise
            continue
        for file in files:
            path = Path(str(file.locate()))
            if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                yield path, str(file)
