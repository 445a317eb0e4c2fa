"""The Celery application that the tests drive: configured by the environment, run by real workers."""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

app = Celery("tests", broker=os.environ["CELERY_BROKER"], backend=os.environ.get("CELERY_BACKEND", "rpc://"))
QUEUE = os.environ.get("CELERY_QUEUE", "celery")
QUORUM = os.environ.get("CELERY_QUORUM") == "1"
PRIORITIES = os.environ.get("CELERY_PRIORITIES") == "1"
NOTES = Path(os.environ.get("CELERY_NOTES", "/dev/null"))

app.conf.update(
    task_default_queue=QUEUE,
    task_queues=[
        Queue(
            QUEUE,
            Exchange(QUEUE, type="topic" if QUORUM else "direct"),
            routing_key=QUEUE,
            queue_arguments={"x-queue-type": "quorum"} if QUORUM else {"x-max-priority": 10} if PRIORITIES else None,
        )
    ],
    task_default_exchange=QUEUE,
    task_default_exchange_type="topic" if QUORUM else "direct",
    task_default_routing_key=QUEUE,
    task_default_queue_type="quorum" if QUORUM else "classic",
    worker_detect_quorum_queues=QUORUM,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_send_sent_event=True,
    worker_send_task_events=True,
    result_expires=300,
    beat_schedule={"tick": {"task": "tests.note", "schedule": 0.5, "args": ("tick",)}},
)


def write_note(text: str) -> None:
    with NOTES.open("a") as notes:
        notes.write(f"{time.time():.3f} {text}\n")


@app.task(name="tests.add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="tests.total")
def total(values: list[int]) -> int:
    return sum(values)


@app.task(name="tests.note")
def note(text: str) -> str:
    write_note(text)
    return text


@app.task(name="tests.flaky", bind=True, max_retries=3)
def flaky(self: Any, failures: int) -> int:
    """Fails so often, and is retried."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.2, exc=ValueError("not yet"))
    return int(self.request.retries)


@app.task(name="tests.slow")
def slow(text: str, seconds: float) -> str:
    write_note(f"begin {text}")
    time.sleep(seconds)
    write_note(f"end {text}")
    return text
