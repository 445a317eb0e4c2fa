"""What a Spark user can have asked wrongly, as one sentence that says what to do."""

import contextlib
import os
import re
from collections.abc import Iterator

from mainstem.model.errors import MainstemError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""A variable of Spark's: its Python workers then report an error without the way to it."""


class PipelineError(MainstemError):
    """Base of everything that Spark is told instead of a row or an acknowledgement."""


class InvalidOption(PipelineError):
    """An option that is not known, is missing, or has a value that cannot be."""


class SchemaMismatch(PipelineError):
    """The columns are not those that the source has or the sink takes."""


class DataLost(PipelineError):
    """Records that the query has not read yet are gone."""


class UnreadableBatch(PipelineError):
    """A stored batch cannot be decoded."""


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Around what Spark calls: an error that is an answer is reported as its sentence alone.

    The worker process ends with its first error, so nobody else's traceback is hidden.
    """
    try:
        yield
    except MainstemError:
        os.environ[HIDE_TRACEBACK] = "true"
        raise


_SENTENCE = re.compile(r"\bmainstem\.[\w.]+: ([^\n]+)")


def sentence_in(error: BaseException) -> str:
    """What we said, out of what Spark made of it; else the first line of the error that says anything."""
    text = str(error)
    found = _SENTENCE.search(text)
    return found[1].strip() if found else (text.strip().splitlines() or [type(error).__name__])[0]
