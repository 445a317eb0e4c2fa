"""Limits of clients: for whom, of what, and which of several holds.

An entity is a user, a client id, both together, or an address; `None` in place of a name means: of each that has no limit of its
own. The most particular limit holds, in Kafka's order.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from mainstem.coordination.errors import InvalidQuota

USER, CLIENT, ADDRESS = "user", "client-id", "ip"

PRODUCED_BYTES = "producer_byte_rate"
CONSUMED_BYTES = "consumer_byte_rate"
REQUEST_TIME = "request_percentage"
MUTATIONS = "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"

CLIENT_KEYS: Mapping[str, float] = {
    PRODUCED_BYTES: 2.0**63,
    CONSUMED_BYTES: 2.0**63,
    REQUEST_TIME: math.inf,
    MUTATIONS: math.inf,
}
"""What users and clients can be limited in, and the bound of whole numbers, as Kafka has them; infinite: any number."""
ADDRESS_KEYS: Mapping[str, float] = {CONNECTIONS: 2.0**31}
NAME_CHARACTERS_MAX = 1_024

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Kinds with names, in the order of the kinds."""


class Limit(NamedTuple):
    """A number, and who shares it: a user, a client id, or one client id of a user."""

    number: float
    bearer: tuple[str, str]


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity of these parts, in order. Raises InvalidQuota."""
    entity = tuple(sorted(parts, key=lambda part: part[0]))
    kinds = [kind for kind, _ in entity]
    if not kinds:
        raise InvalidQuota("Invalid empty client quota entity")
    if len(set(kinds)) < len(kinds):
        raise InvalidQuota("Invalid client quota entity: a type is there twice")
    for kind, name in entity:
        if kind not in (USER, CLIENT, ADDRESS):
            raise InvalidQuota(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidQuota(f"Empty {kind} not supported")
        if name is not None and len(name) > NAME_CHARACTERS_MAX:
            raise InvalidQuota(f"The name of the {kind} is longer than {NAME_CHARACTERS_MAX} characters")
    if ADDRESS in kinds:
        if len(kinds) > 1:
            raise InvalidQuota(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        _check_address(entity[0][1])
    return entity


def _check_address(address: str | None) -> None:
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise InvalidQuota(f"{address} is not a valid IP") from None


def check_limit(entity: Entity, key: str, number: float | None) -> None:
    """Whether an entity can have such a limit; None: not any more. Raises InvalidQuota."""
    keys = ADDRESS_KEYS if entity[0][0] == ADDRESS else CLIENT_KEYS
    bound = keys.get(key)
    if bound is None:
        raise InvalidQuota(f"Invalid configuration key {key}")
    if number is None:
        return
    if not number > 0 or math.isinf(number):
        raise InvalidQuota(f"Quota {key} must be greater than 0")
    if not math.isinf(bound) and (number != int(number) or number >= bound):
        raise InvalidQuota(f"Quota {key} must be a whole number below {int(bound)}")


class LimitTable:
    """All limits of one key."""

    def __init__(self, numbers: Mapping[Entity, float]) -> None:
        self._numbers = dict(numbers)

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def of_client(self, user: str, client: str) -> Limit | None:
        """What holds for a client of a user: the first there is, in the order of Kafka's documentation."""
        numbers = self._numbers
        both, alone, client_alone = (user, client), (user, ""), ("", client)
        for wanted, bearer in (
            (((CLIENT, client), (USER, user)), both),
            (((CLIENT, None), (USER, user)), both),
            (((USER, user),), alone),
            (((CLIENT, client), (USER, None)), both),
            (((CLIENT, None), (USER, None)), both),
            (((USER, None),), alone),
            (((CLIENT, client),), client_alone),
            (((CLIENT, None),), client_alone),
        ):
            number = numbers.get(wanted)
            if number is not None:
                return Limit(number, bearer)
        return None

    def of_address(self, address: str) -> Limit | None:
        """What holds for clients that connect from there."""
        number = self._numbers.get(((ADDRESS, address),), self._numbers.get(((ADDRESS, None),)))
        return None if number is None else Limit(number, (address, ""))
