"""Statements from a terminal, each ended by a semicolon; what begins with a backslash is for the shell."""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from mainstem.model.errors import MainstemError
from mainstem.pipelines.errors import sentence_in
from mainstem.pipelines.sql.results import FORMATS, write_result
from mainstem.pipelines.sql.session import SqlSession
from mainstem.pipelines.sql.statements import quoted, split_statements, words_of

PROMPT, GOING_ON = "mainstem> ", "      ... "
HISTORY = Path("~/.mainstem_sql_history")
HISTORY_LINES_MAX = 1_000
HELP = """\
Statements are Spark SQL, and end with a semicolon. Every topic is a table.
  \\d                  what there is        \\d NAME            the columns of a table
  \\schema TOPIC DDL   columns of its JSON  \\format FORMAT     table, json or csv
  \\limit N            rows shown; 0: all   \\?  \\q             this help; the end
Ctrl-C cancels a statement, Ctrl-D ends the shell."""


class Shell:
    """Reads, runs, writes."""

    def __init__(self, session: SqlSession, *, out: TextIO, form: str, limit: int | None) -> None:
        self._session = session
        self._out = out
        self._form = form
        self._limit = limit

    def run(self, read: Callable[[str], str]) -> None:
        """Until the input ends. `read` asks for a line, with a prompt."""
        waiting = ""
        while True:
            try:
                line = read(GOING_ON if waiting else PROMPT)
            except EOFError:
                if words_of(waiting):
                    self.execute(waiting)
                return
            except KeyboardInterrupt:
                waiting = ""
                self._say("")
                continue
            if not waiting and line.lstrip().startswith("\\"):
                if not self._command(line.strip()):
                    return
                continue
            statements, waiting = split_statements(waiting + line + "\n")
            waiting = waiting if words_of(waiting) else ""
            for statement in statements:
                self.execute(statement)

    def execute(self, statement: str) -> bool:
        """Run one and show its answer, or one sentence that says why there is none."""
        try:
            with self._session.running(statement) as frame:
                write_result(frame, self._out, self._form, self._limit)
            self._out.flush()
        except KeyboardInterrupt:
            with contextlib.suppress(Exception):
                self._session.cancel()
            self._complain("cancelled")
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - of Spark's errors no base is common
            self._complain(plain_sentence(error))
        else:
            return True
        return False

    def _command(self, line: str) -> bool:
        """False: the end."""
        word, _, rest = line.partition(" ")
        rest = rest.strip().rstrip(";").strip()
        match word:
            case "\\q":
                return False
            case "\\d" if not rest:
                self.execute("SHOW TABLES")
            case "\\d":
                self.execute(f"DESCRIBE {rest if rest.startswith('`') else '.'.join(map(quoted, rest.split('.')))}")
            case "\\schema" if " " in rest:
                topic, _, ddl = rest.partition(" ")
                self._session.topics.schemas[topic] = ddl.strip()
            case "\\format" if rest in FORMATS:
                self._form = rest
            case "\\limit" if rest.isdigit():
                self._limit = int(rest) or None
            case _:
                self._say(HELP)
        return True

    def _say(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def _complain(self, sentence: str) -> None:
        self._out.flush()
        print(f"error: {sentence}", file=sys.stderr, flush=True)  # noqa: T201


def plain_sentence(error: BaseException) -> str:
    """Without Spark's codes, plan and stack."""
    if isinstance(error, MainstemError):
        return str(error)
    sentence = sentence_in(error)
    return sentence.split(" SQLSTATE:")[0].strip()


def terminal_reader() -> Callable[[str], str]:
    """Lines with editing and a history that outlives the shell."""
    if not sys.stdin.isatty():
        return _read_piped
    with contextlib.suppress(ImportError):
        import readline

        path = HISTORY.expanduser()
        with contextlib.suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(HISTORY_LINES_MAX)

        def remember() -> None:
            with contextlib.suppress(OSError):
                readline.write_history_file(path)

        atexit.register(remember)
    return input


def _read_piped(_: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
