"""Memory that stays with the process: the faults that it saves, and what is given back; each seen in a process of its own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")

FAULTS = """
import resource, sys
from mainstem.kept_memory import keep_memory
if sys.argv[1] == "kept":
    keep_memory(1 << 28, 1 << 27)
for turn in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    piece = bytearray(b"x") * (48 << 20)
    del piece
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
RESIDENT = """
from mainstem.kept_memory import give_memory_back, keep_memory
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
keep_memory(1 << 28, 1 << 27)
piece = bytearray(b"x") * (48 << 20)
del piece
kept = resident()
give_memory_back()
print(kept - resident())
"""


def number_from(script: str, *arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_piece_that_was_freed_is_taken_again() -> None:
    # How many pages a fault brings is the kernel's affair, so the two are compared.
    assert number_from(FAULTS, "kept") < number_from(FAULTS, "given back") / 10


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_it_is_given_back_when_asked_for() -> None:
    assert number_from(RESIDENT) > 40 << 10  # in KiB
