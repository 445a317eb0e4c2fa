"""A protocol as small as can be: lines come in, and go out again."""

from collections.abc import Callable

from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.transport.session import Wake

ANSWER_LATER = b"later\n"
FINISH = b"finish\n"
BREAK = b"break\n"
FLOOD = b"flood\n"
FLOOD_BYTES = 1 << 20


class EchoSession:
    """Answers each line with itself; some lines are orders."""

    def __init__(self, wake: Wake, endpoints: Endpoints = UNKNOWN, log: list[str] | None = None) -> None:
        self.input_wanted: int | None = 1
        self.endpoints = endpoints
        self.finished = False
        self.busy = False
        self.log = log if log is not None else []
        self.late: list[Callable[[], None]] = []
        self._wake = wake
        self._output: list[bytes] = []

    def data_received(self, data: memoryview) -> int:
        line, newline, _ = bytes(data).partition(b"\n")
        if not newline:
            self.input_wanted = len(data) + 1
            return 0
        line += newline
        self.input_wanted = 1
        self._obey(line)
        return len(line)

    def _obey(self, line: bytes) -> None:
        if line == BREAK:
            raise RuntimeError("a bug")
        if line == ANSWER_LATER:
            self.busy = True
            self.input_wanted = None
        elif line == FLOOD:
            self._output.append(bytes(FLOOD_BYTES))
        else:
            self._output.append(line)
        self.finished = line == FINISH

    def answer(self) -> None:
        """What ANSWER_LATER waits for."""
        self.busy = False
        self.input_wanted = 1
        self._output.append(b"now\n")
        self._wake()

    def take_output(self) -> list[bytes]:
        output, self._output = self._output, []
        return output

    def input_ended(self) -> None:
        self.log.append("input ended")
        self.finished = True

    def output_paused(self) -> None:
        self.log.append("paused")

    def output_resumed(self) -> None:
        self.log.append("resumed")

    def time_passed(self, now: float) -> None:
        self.log.append("time")

    def drain(self) -> None:
        self.log.append("drain")
        self.finished = not self.busy

    def closed(self) -> None:
        self.log.append("closed")
