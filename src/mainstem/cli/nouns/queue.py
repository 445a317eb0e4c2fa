"""`mainstem queue`: what queries of Spark have acquired, and letting it go. Asks a running broker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of, with_query
from mainstem.cli.terminal.contexts import choose
from mainstem.cli.terminal.exits import WRONG_USE, fail
from mainstem.cli.terminal.options import (
    DEFAULT_NAMESPACE,
    Address,
    ContextName,
    Curl,
    DryRun,
    Limit,
    Namespace,
    OldAddress,
    Output,
    Search,
    Yes,
)
from mainstem.cli.terminal.output import Form, write_list, write_one
from mainstem.cli.terminal.times import parse_time
from mainstem.model.errors import MainstemError

TIMEOUT_S = 5.0
LISTED_MAX = 1_000
HELD = ("leased", "pinned")
EXIT_FAILED = 1

queue_app = typer.Typer(
    help="Queues: list, show, create, pause, rewind, purge; and what Spark has acquired.", no_args_is_help=True
)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The name of a queue.")]
DeadLetters: TypeAlias = Annotated[
    str | None, typer.Option("--dead-letters", metavar="QUEUE", help="Where what it gives up goes.")
]
DeliveryLimit: TypeAlias = Annotated[
    int | None, typer.Option("--delivery-limit", metavar="N", min=0, help="Give up what failed more often.")
]
Retry: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--retry", metavar="TEXT", help="How long what failed rests: 'exponential delay_ms=1000 retries_max=5'."
    ),
]
Lease: TypeAlias = Annotated[
    int | None, typer.Option("--lease-ms", metavar="N", min=100, help="How long a consumer may work on a message.")
]


@queue_app.callback()
def queue() -> None:
    """Queues: list, show, create, pause, rewind, purge; and what Spark has acquired."""


@queue_app.command("list")
def list_queues(
    search: Search = "",
    namespace: Namespace = DEFAULT_NAMESPACE,
    limit: Limit = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show queues: what waits, and what consumers have."""
    broker = connect(address, context, curl=curl)
    found = broker.pages("/v1/queues", "queues", limit, search=search, namespace=namespace)
    write_list(found, ("name", "kind", "ready", "unsettled", "consumers", "paused"), output)


@queue_app.command()
def show(
    name: Name,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show a queue: lag, lanes, rules in force."""
    write_one(connect(address, context, curl=curl).get(path_of("v1", "queues", name), namespace=namespace), output)


@queue_app.command()
def create(
    name: Name,
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="classic, quorum or stream.")] = "classic",
    dead_letters: DeadLetters = None,
    delivery_limit: DeliveryLimit = None,
    retry: Retry = None,
    lease_ms: Lease = None,
    ordering: Annotated[
        str | None, typer.Option("--ordering", metavar="NAME", help="shared, key, exclusive or failover.")
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Declare a queue."""
    wish: dict[str, Any] = {"name": name, "kind": kind, "namespace": namespace}
    wish |= _given(dead_letters, delivery_limit, retry, lease_ms)
    if ordering is not None:
        wish["ordering"] = ordering
    write_one(connect(address, context, curl=curl).ask("POST", "/v1/queues", wish), output)


def _given(
    dead_letters: str | None, delivery_limit: int | None, retry: str | None, lease_ms: int | None
) -> dict[str, Any]:
    named = {
        "dead_letter_queue": dead_letters,
        "delivery_limit": delivery_limit,
        "retry": retry,
        "lease_ms": lease_ms,
    }
    return {name: value for name, value in named.items() if value is not None}


@queue_app.command()
def alter(
    name: Name,
    dead_letters: DeadLetters = None,
    delivery_limit: DeliveryLimit = None,
    retry: Retry = None,
    lease_ms: Lease = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="NAME", help="Take a limit away, as lease_ms or retry; repeatable."),
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Change what a queue allows, for the messages that wait too."""
    change = _given(dead_letters, delivery_limit, retry, lease_ms) | dict.fromkeys(without or ())
    if not change:
        fail(["nothing is to change"], WRONG_USE)
    path = with_query(path_of("v1", "queues", name), {"namespace": namespace})
    write_one(connect(address, context, curl=curl).ask("PATCH", path, change), output)


@queue_app.command()
def delete(
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Delete a queue with what waits in it."""
    _destroy(name, "deleted", "DELETE", "", yes, dry_run, namespace, address, context, curl)


@queue_app.command()
def purge(
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Settle all that waits."""
    _destroy(name, "purged", "POST", "/purge", yes, dry_run, namespace, address, context, curl)


def _destroy(
    name: str, done: str, method: str, step: str, yes: bool, dry_run: bool, namespace: str,
    address: str | None, context: str | None, curl: bool,
) -> None:  # fmt: skip
    broker = connect(address, context, curl=curl)
    path = path_of("v1", "queues", name)
    if not curl:
        found = broker.get(path, namespace=namespace)
        if dry_run:
            print(f"Queue {name} with {found['ready']:,} messages would be {done}.")
            return
        confirm(f"Queue {name} with {found['ready']:,} messages will be {done}", name, yes=yes)
    broker.ask(method, with_query(path + step, {"namespace": namespace}))
    print(f"Queue {name} is {done}.")


@queue_app.command()
def pause(
    name: Name,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Give nothing out, until it is resumed."""
    _pause(name, True, namespace, address, context, curl)


@queue_app.command()
def resume(
    name: Name,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Give out again."""
    _pause(name, False, namespace, address, context, curl)


def _pause(name: str, paused: bool, namespace: str, address: str | None, context: str | None, curl: bool) -> None:
    path = with_query(path_of("v1", "queues", name), {"namespace": namespace})
    connect(address, context, curl=curl).ask("PATCH", path, {"paused": paused})
    print(f"Queue {name} is {'paused' if paused else 'resumed'}.")


@queue_app.command()
def rewind(
    name: Name,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="As 2026-11-18T14:03:20, or 15m ago.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", min=0, help="Of each lane.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Let all from a time or offset on wait again, and settle all before."""
    time_ms = None if to_time is None else parse_time(to_time)
    if (time_ms is None) is (to_offset is None):
        fail(["either --to-time, as 2026-11-18T14:03:20 or 15m, or --to-offset"], WRONG_USE)
    broker = connect(address, context, curl=curl)
    if not curl:
        ready = broker.get(path_of("v1", "queues", name), namespace=namespace)["ready"]
        if dry_run:
            print(f"Queue {name}, in which {ready:,} messages wait, would be rewound.")
            return
        confirm(f"Queue {name}, in which {ready:,} messages wait, will be rewound", name, yes=yes)
    wish = {"offset": to_offset} if time_ms is None else {"time_ms": time_ms}
    path = with_query(path_of("v1", "queues", name, "seek"), {"namespace": namespace})
    write_one(broker.ask("POST", path, wish), output)


@queue_app.command()
def messages(
    name: Name,
    limit: Limit = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show messages that are not settled, without taking them."""
    broker = connect(address, context, curl=curl)
    found = broker.pages(path_of("v1", "queues", name, "messages"), "messages", limit, namespace=namespace)
    write_list(found, ("place", "timestamp_ms", "given_out", "key", "value", "headers"), output, name="place")


@queue_app.command()
def acquisitions(
    subscription: Annotated[
        str, typer.Option("--subscription", metavar="NAME", help="Of this queue or subscription alone.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Those too that have ended.")] = False,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    address: Address = None,
    context: ContextName = None,
    http: OldAddress = None,
    output: Output = None,
) -> None:
    """Print what is acquired and not settled, the oldest first."""
    from mainstem.sdk.acquisitions import Acquisitions

    try:
        found = Acquisitions(choose(address or http, context).address, timeout_s=TIMEOUT_S).list(
            subscription, LISTED_MAX
        )
    except MainstemError as error:
        fail([str(error)], EXIT_FAILED)
    shown = [one for one in found if everything or one["condition"] in HELD]
    if output is not None or as_json:
        columns = ("id", "subscription", "condition", "records", "opened_ms")
        write_list(shown, columns, output or Form.JSONL, name="id")
        return
    for one in shown:
        print(_line(one))


@queue_app.command()
def release(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Which, as `acquisitions` names them.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    http: OldAddress = None,
) -> None:
    """Let others have the records of acquisitions. Their query, if it runs again, is told so and ends."""
    from mainstem.sdk.acquisitions import Acquisitions

    if dry_run:
        print(f"{', '.join(ids)} would be released.")
        return
    confirm(f"{len(ids)} acquisitions will be released", ids[0], yes=yes)
    calls = Acquisitions(choose(address or http, context).address, timeout_s=TIMEOUT_S)
    for name in ids:
        try:
            released = calls.release(name)
        except MainstemError as error:
            fail([str(error)], EXIT_FAILED)
        if released["condition"] == "released":
            print(f"{released['records']} records of {released['subscription']} are free")
        else:
            print(f"{name} is {released['condition']}: nothing was to be released")


def _line(one: Mapping[str, Any]) -> str:
    age_s = max(time.time() - one["opened_ms"] / 1000, 0)
    of = (
        one["subscription"]
        if one.get("namespace") in (None, "default")
        else f"{one['namespace']}/{one['subscription']}"
    )
    queries = ", ".join(one.get("queries", [])) or "-"
    return f"{one['id']}  {one['condition']:<8}  {one['records']:>8}  {age_s:>8.0f} s  {of}  {queries}"
