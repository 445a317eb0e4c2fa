"""10,000 wrong passwords against the real program, while a good client goes on.

    make wrong-passwords [ARGS=10000]

Fails when more than one password a second is looked at, once what is free is used up, or when the good client's 99th percentile
is both three times its base and above 50 ms.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from mainstem.broker.users.logins import FREE_OF_PAIR
from tests.support.serving.program import ANY_PORT, running
from tests.system.commands import Shell

COUNT = 10_000
GUESSERS = 400
PATIENCE_S = 1.5
"""A guesser who is made to wait tries elsewhere."""
BASE_S = 3.0
PACE_S = 0.005
FACTOR_MAX, MS_MAX = 3.0, 50.0
METRIC = 'mainstem_login_failures_total{protocol="http"}'


def request(user: str, password: str, path: str = "/v1/node") -> bytes:
    proof = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {proof}\r\n\r\n".encode()


async def ask(address: str, said: bytes) -> bytes:
    """One request on a connection of its own: the whole answer's head, and what came with it."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(said)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return head + await reader.readexactly(int(length.partition(b":")[2]))
    finally:
        writer.close()


async def be_good(address: str, until: asyncio.Event, times: list[float]) -> None:
    """A client with the right password, which connects each time."""
    while not until.is_set():
        begun = time.perf_counter()
        assert (await ask(address, request("good", "secret"))).startswith(b"HTTP/1.1 200")
        times.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(PACE_S)


async def guess(address: str, numbers: list[int], answers: dict[bytes, int]) -> None:
    while numbers:
        said = request("victim", f"wrong{numbers.pop()}")
        answer = b"left"
        with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(PATIENCE_S):
                answer = (await ask(address, said)).split(b" ", 2)[1]
        answers[answer] = answers.get(answer, 0) + 1


async def checked(address: str) -> float:
    """Wrong passwords that were looked at."""
    text = (await ask(address, request("good", "secret", "/metrics"))).decode()
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(METRIC))


def percentile_99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


async def attack(address: str, count: int) -> None:
    """In a process of its own, so that the good client waits for the broker alone."""
    answers: dict[bytes, int] = {}
    numbers = list(range(count))
    begun = time.perf_counter()
    await asyncio.gather(*(guess(address, numbers, answers) for _ in range(GUESSERS)))
    said = {answer.decode(): number for answer, number in sorted(answers.items())}
    print(f"{count} wrong passwords in {time.perf_counter() - begun:.1f} s: {said}", flush=True)
    assert b"200" not in answers


async def run(address: str, count: int) -> int:
    base: list[float] = []
    under: list[float] = []
    over = asyncio.Event()
    task = asyncio.create_task(be_good(address, over, base))
    await asyncio.sleep(BASE_S)
    over.set()
    await task
    over = asyncio.Event()
    begun = time.perf_counter()
    task = asyncio.create_task(be_good(address, over, under))
    words = ("-m", "tests.system.users.wrong_passwords", "attack", address, str(count))
    attacker = await asyncio.create_subprocess_exec(sys.executable, *words)
    status = await attacker.wait()
    elapsed_s = time.perf_counter() - begun
    over.set()
    await task
    looked_at = await checked(address)
    print(f"{looked_at:.0f} were looked at")
    print(f"a good client: 99 % within {percentile_99(base):.1f} ms before, {percentile_99(under):.1f} ms meanwhile")
    is_slowed = status == 0 and looked_at <= FREE_OF_PAIR + 1 + elapsed_s
    is_served = percentile_99(under) <= max(FACTOR_MAX * percentile_99(base), MS_MAX)
    print("slower than one a second:", is_slowed, "; good clients are served:", is_served)
    return 0 if is_slowed and is_served else 1


def main() -> int:
    if sys.argv[1:2] == ["attack"]:
        asyncio.run(attack(sys.argv[2], int(sys.argv[3])))
        return 0
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with tempfile.TemporaryDirectory() as home, running(Path(home) / "data", "--listen", ANY_PORT) as program:
        address = program.wait_ready()["http"][0]
        shell = Shell(address, Path(home))
        for name in ("good", "victim"):
            shell.run("user", "create", name, "--role", "administrator", given="secret\n")
        return asyncio.run(run(address, count))


if __name__ == "__main__":
    raise SystemExit(main())
