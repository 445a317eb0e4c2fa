"""The sink with places at which it kills: the driver it works for, or the broker it writes to.

    staged     a task has staged its rows, and has not told the driver
    before     the driver is about to commit
    after      the broker has committed, and the driver does not know
    returned   the driver knows, and Spark is about to write its own commit

What is to happen is in a file that the variable PLAN names; each entry happens once.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from mainstem.pipelines.data_source import DefaultSource
from mainstem.pipelines.sink.sink import SinkOptions, TopicStreamWriter

PLAN = "MAINSTEM_TEST_KILL_PLAN"
POINTS = ("staged", "before", "after", "returned")
TARGETS = ("driver", "broker")
RETURN_S = 0.01


class KillingSource(DefaultSource):
    """The data source, with the killing sink."""

    @classmethod
    def name(cls) -> str:
        return "mainstem-killed"

    def streamWriter(self, schema, overwrite):
        return KillingWriter(SinkOptions(self.options, schema))


class KillingWriter(TopicStreamWriter):
    def write(self, iterator):
        staged = super().write(iterator)
        reach("staged", staged.key.batch)
        return staged

    def commit(self, messages, batchId):  # noqa: N803
        reach("before", batchId)
        super().commit(messages, batchId)
        reach("after", batchId)
        reach("returned", batchId)


def reach(point: str, batch: int) -> str | None:
    """Kill, if that is planned here; answers whom."""
    path = os.environ.get(PLAN)
    if not path:
        return None
    plan = json.loads(Path(path).read_text())
    target = plan["kills"].get(f"{point}/{batch}")
    if target is None:
        return None
    try:
        Path(f"{path}.{point}.{batch}").touch(exist_ok=False)
    except FileExistsError:
        return None
    pids = [int(pid) for pid in Path(plan[target]).read_text().split()]
    if point == "returned":
        # From another process, a moment after this one has answered.
        subprocess.Popen(
            [sys.executable, "-c", f"import os, time; time.sleep({RETURN_S})\nfor p in {pids}: os.kill(p, 9)"]
        )
        return str(target)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return str(target)
