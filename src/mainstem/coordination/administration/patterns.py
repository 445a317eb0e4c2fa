"""Regular expressions of others, which must not hold up the broker.

Matching goes back and tries again where it has a choice; a repetition within a repetition makes it try exponentially often. Such
patterns are refused, and so are those with many repetitions: what remains is tried often enough at worst to be
noticed, not to harm.
"""

from __future__ import annotations

import re

from mainstem.coordination.administration.errors import InvalidEntry

PATTERN_CHARACTERS_MAX = 1_024
REPETITIONS_MAX = 64
"""In all: one for each name in a list of alternatives, mostly."""

_PIECE = re.compile(
    r"""(?P<escaped> \\. )
      | (?P<class> \[ \^? \]? (?: \\. | [^\]\\] )* \] )
      | (?P<open> \( (?: \?[^)]{0,1} [:=!]? )? )
      | (?P<close> \) )
      | (?P<repeat> [*+] | \{ \d* , \d* \} )
      | (?P<other> . )""",
    re.VERBOSE | re.DOTALL,
)


def check_pattern(pattern: str) -> None:
    """Whether it is an expression, and one that is matched in bounded time. Raises InvalidEntry."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidEntry(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidEntry(f"{pattern!r} is not a regular expression: {error}") from None
    if is_costly(pattern):
        raise InvalidEntry(f"{pattern!r} repeats what repeats: matching it could take for ever")


def is_costly(pattern: str) -> bool:
    """Whether a repetition is within another one, or in a row with too many."""
    groups = [False]
    """Of each group that is open: whether something is repeated in it."""
    closed = False
    """Whether a group in which something is repeated ended just now."""
    repetitions = 0
    for piece in _PIECE.finditer(pattern):
        kind = piece.lastgroup
        if kind == "open":
            groups.append(False)
        elif kind == "close" and len(groups) > 1:
            repeats = groups.pop()
            groups[-1] = groups[-1] or repeats
            closed = repeats
            continue
        elif kind == "repeat":
            repetitions += 1
            if closed or repetitions > REPETITIONS_MAX:
                return True
            groups[-1] = True
        closed = False
    return False
