"""Users that an earlier version kept for Kafka alone become users like all others, once, when the broker opens.

Where somebody of the same name was kept for RabbitMQ's protocol, both passwords stay right where they were: the hash for
a name with a password, the verifiers for SCRAM.
"""

from __future__ import annotations

import logging

import msgspec

from mainstem.broker.administration import Administration
from mainstem.broker.users.access import Access
from mainstem.coordination.administration.entries import Entry, User
from mainstem.coordination.administration.errors import InvalidEntry
from mainstem.storage.contract import Engine, Mutation
from mainstem.wire.scram import Verifier

log = logging.getLogger(__name__)

SCOPE = "scram_users"

_decode = msgspec.msgpack.Decoder(dict[str, Verifier]).decode


async def take_over_scram_users(engine: Engine, administration: Administration, access: Access) -> None:
    """Move them by one commit."""
    kept = (await engine.load(SCOPE)).entries
    entries: list[Entry] = []
    gone = []
    for key, value in kept.items():
        name = key.decode()
        found = access.find(name)
        user = msgspec.structs.replace(found or User(name), verifiers=_decode(value))
        try:
            user.check()
        except InvalidEntry as error:
            log.error("user %r stays where nobody finds it: %s", name[:64], error)  # noqa: TRY400 - no trace is needed
            continue
        if found is not None and access.is_first(found):
            entries += access.kept_of_guest()
        entries.append(user)
        gone.append(Mutation(SCOPE, key, None))
    if gone:
        await administration.take_over(entries, gone)
        log.info("%d users that were kept for Kafka alone are users of all protocols now", len(gone))
