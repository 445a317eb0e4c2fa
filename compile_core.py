"""Compile the modules that have a `.pxd` beside them; see `src/mainstem/compiled.py` and docs/decisions/0006.

    python compile_core.py            compile what is not up to date
    python compile_core.py --check    exit 1 unless all is compiled

Without a C compiler, Python's headers or Cython it says so in one sentence and ends well: the modules run as Python.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "src"
sys.path.insert(0, str(SOURCES))
os.environ["MAINSTEM_PURE"] = "1"

from mainstem.compiled import DIRECTORY, NATIVE, PACKAGE, SUFFIX, file_names, source_of  # noqa: E402

DIRECTIVES = ("language_level=3", "annotation_typing=False", "embedsignature=False")
"""C types come from the `.pxd` alone; bounds and None are checked as Python checks them unless a module says otherwise."""
FLAGS = ("-O2", "-DNDEBUG", "-fwrapv", "-fno-strict-aliasing", "-w")
"""Integers that overflow wrap, and Python's own assertions are off, as in every extension module that pip builds."""


class CannotCompile(Exception):
    """Something that compiling needs is not here; the message says what."""


def modules() -> list[str]:
    """Names of the modules to be compiled."""
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.pxd") if path != NATIVE)
    return sorted(".".join(path.parts) for path in paths)


def compile_all() -> list[Path]:
    """Compile what is not up to date and remove files of other sources; returns the files. Raises CannotCompile."""
    wanted = file_names(modules())
    missing = [name for name, file in wanted.items() if not (DIRECTORY / file).exists()]
    if missing:
        compiler = _find_compiler()
        DIRECTORY.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(_compile, name, wanted[name], compiler, Path(scratch)) for name in missing]
            for job in jobs:
                job.result()
    if DIRECTORY.exists():
        for path in DIRECTORY.iterdir():
            if path.name.endswith(SUFFIX) and path.name not in wanted.values():
                path.unlink()
    return [DIRECTORY / file for file in wanted.values()]


def _find_compiler() -> list[str]:
    """The command that links an extension module, with this interpreter's own flags."""
    if importlib.util.find_spec("Cython") is None:
        raise CannotCompile("Cython is not installed")
    command = shlex.split(sysconfig.get_config_var("LDSHARED") or "")
    if not command or shutil.which(command[0]) is None:
        command[:1] = [shutil.which("cc") or ""]
    if not command[0]:
        raise CannotCompile("no C compiler was found")
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").exists():
        raise CannotCompile(f"the headers of Python are not in {include}")
    shared = shlex.split(sysconfig.get_config_var("CCSHARED") or "-fPIC")
    return [*command, *shared, *FLAGS, f"-I{include}", f"-I{sysconfig.get_path('platinclude')}", f"-I{SOURCES}"]


def _compile(name: str, file: str, compiler: list[str], scratch: Path) -> None:
    c_file, built = scratch / f"{name}.c", scratch / file
    directives = [part for directive in DIRECTIVES for part in ("-X", directive)]
    source = [str(source_of(name)), "-I", str(SOURCES), "--module-name", name, "-o", str(c_file)]
    _run([sys.executable, "-m", "cython", *directives, *source])
    _run([*compiler, str(c_file), "-o", str(built)])
    # Under its name only when it is whole: a broken build leaves nothing that could be loaded.
    kept = DIRECTORY / f".{file}.part"
    shutil.move(built, kept)
    kept.rename(DIRECTORY / file)


def _run(command: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if outcome.returncode:
        raise CannotCompile(f"{' '.join(command)}\n{outcome.stdout}{outcome.stderr}")


def main() -> int:
    """Compile, and say what became of it."""
    if "--check" in sys.argv[1:]:
        current = all((DIRECTORY / file).exists() for file in file_names(modules()).values())
        return 0 if current else 1
    before = set(DIRECTORY.iterdir()) if DIRECTORY.exists() else set()
    try:
        files = compile_all()
    except CannotCompile as reason:
        print(f"hot modules run as Python, not as machine code: {reason}", file=sys.stderr)  # noqa: T201
        return 0
    if new := len(set(files) - before):
        print(f"compiled {new} hot modules")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
