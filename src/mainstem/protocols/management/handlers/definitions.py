"""Definitions: everything that was declared and set, as one document in RabbitMQ's format, out and in.

What is there already stays as it is, as RabbitMQ has it: importing twice is the same as once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from mainstem.broker.administration import Parameter
from mainstem.broker.broker import Broker
from mainstem.broker.routes import Binding, Destination, DestinationKind
from mainstem.protocols.management.errors import BadRequest
from mainstem.protocols.management.handlers.bindings import bind
from mainstem.protocols.management.handlers.callers import Caller
from mainstem.protocols.management.handlers.exchanges import declare_exchange
from mainstem.protocols.management.handlers.parameters import global_rows, put_global
from mainstem.protocols.management.handlers.paths import Call, Path
from mainstem.protocols.management.handlers.queues import declare_queue
from mainstem.protocols.management.handlers.users import put_user
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.administration import (
    namespace_from,
    namespace_row,
    parameter_row,
    permission_from,
    permission_row,
    policy_from,
    policy_row,
    topic_permission_from,
    topic_permission_row,
    user_row,
)
from mainstem.protocols.management.mapping.listing import Row
from mainstem.protocols.management.mapping.rows import binding_row, exchange_row, queue_row
from mainstem.protocols.management.mapping.words import host_of, namespace_of

log = logging.getLogger(__name__)

COMPATIBLE_VERSION = "4.2.0"
OPERATOR_POLICY, LIMITS = "operator_policy", "vhost-limits"
"""Components under which RabbitMQ keeps these among the parameters."""
RESERVED_PREFIX = "amq."


class DefinitionPaths:
    """/api/definitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/definitions", self.export_all),
            Path("POST", "/definitions", self.import_all),
            Path("GET", "/definitions/{}", self.export_host),
            Path("POST", "/definitions/{}", self.import_host),
        ]

    # Out

    def export_all(self, call: Call) -> Row:
        """All of it."""
        call.caller.need()
        broker = self._broker
        names = [namespace.name for namespace in broker.namespaces.all()]
        return {
            "rabbit_version": COMPATIBLE_VERSION,
            "rabbitmq_version": COMPATIBLE_VERSION,
            "product_name": "RabbitMQ",
            "product_version": COMPATIBLE_VERSION,
            "rabbitmq_definition_format": "cluster",
            "original_cluster_name": broker.cluster_name,
            "users": [user_row(user) for user in broker.access.stored()],
            "vhosts": [
                {**_without(namespace_row(namespace), "cluster_state", "tracing"), "limits": dict(namespace.limits)}
                for namespace in broker.namespaces.all()
            ],
            "permissions": [permission_row(each) for each in broker.access.stored_permissions()],
            "topic_permissions": [topic_permission_row(each) for each in broker.access.topic_permissions.values()],
            "global_parameters": global_rows(broker),
            **self._contents(names),
        }

    def export_host(self, call: Call) -> Row:
        """What is in one virtual host; without its name, so that it can be put into another."""
        call.caller.need()
        contents = self._contents([call.caller.enter(call.steps[0])])
        return {
            "rabbit_version": COMPATIBLE_VERSION,
            "rabbitmq_version": COMPATIBLE_VERSION,
            "rabbitmq_definition_format": "single_virtual_host",
            "original_vhost_name": call.steps[0],
            **{kind: [_without(row, "vhost") for row in rows] for kind, rows in contents.items()},
        }

    def _contents(self, namespaces: list[str]) -> dict[str, list[Row]]:
        broker = self._broker
        policies = [policy for policy in broker.policies.entries.values() if policy.namespace in namespaces]
        parameters = [
            parameter_row(each)
            for each in broker.parameters.entries.values()
            if each.component and each.namespace in namespaces
        ]
        for name in namespaces:
            limits = dict(broker.namespaces.get(name).limits)
            if limits:
                parameters.append({"vhost": host_of(name), "component": LIMITS, "name": "limits", "value": limits})
        for policy in policies:
            if policy.is_operators:
                row = policy_row(policy)
                value = _without(row, "vhost", "name")
                parameters.append(
                    {"vhost": row["vhost"], "component": OPERATOR_POLICY, "name": policy.name, "value": value}
                )
        return {
            "parameters": parameters,
            "policies": [policy_row(policy) for policy in policies if not policy.is_operators],
            "queues": [row for name in namespaces for row in self._queues(name)],
            "exchanges": [row for name in namespaces for row in self._exchanges(name)],
            "bindings": [
                _without(binding_row(binding, name), "properties_key")
                for name in namespaces
                for binding in broker.routes.of(name).bindings()
                if self._is_for_all(name, binding)
            ],
        }

    def _queues(self, namespace: str) -> list[Row]:
        kept = ("name", "vhost", "durable", "auto_delete", "arguments", "type")
        rows: list[Row] = []
        for queue in self._broker.queues.all(namespace):
            if not queue.properties.exclusive:
                row = queue_row(queue, self._broker)
                # RabbitMQ writes the type among the arguments too, so that any version can read it.
                row["arguments"] = {"x-queue-type": queue.properties.kind, **row["arguments"]}
                rows.append({name: row[name] for name in kept})
        return rows

    def _is_for_all(self, namespace: str, binding: Binding) -> bool:
        """Whether a binding leads to something that others can have too."""
        if binding.destination.kind is not DestinationKind.QUEUE:
            return True
        queue = self._broker.queues.find(namespace, binding.destination.name)
        return queue is not None and not queue.properties.exclusive

    def _exchanges(self, namespace: str) -> list[Row]:
        kept = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
        found = self._broker.routes.of(namespace).exchanges()
        rows = [exchange_row(each, namespace, self._broker) for each in found if _is_own(each.name)]
        return [{name: row[name] for name in kept} for row in rows]

    # In

    async def import_all(self, call: Call) -> None:
        """Take it over; what is there already stays."""
        call.caller.need()
        body = call.fields()
        access = self._broker.access
        for row in fields.rows(body, "users"):
            await put_user(access, fields.text(row, "name"), row)
        for row in fields.rows(body, "vhosts"):
            await self._import_host(call.caller, row)
        for row in fields.rows(body, "permissions"):
            await access.put(permission_from(fields.text(row, "user"), self._namespace(row), row))
        for row in fields.rows(body, "topic_permissions"):
            await access.put(topic_permission_from(fields.text(row, "user"), self._namespace(row), row))
        for row in fields.rows(body, "global_parameters"):
            await put_global(self._broker, fields.text(row, "name"), fields.value(row, "value"))
        await self._import_contents(call.caller, body)

    async def import_host(self, call: Call) -> None:
        """Take it over into one virtual host."""
        call.caller.need()
        call.caller.enter(call.steps[0])
        kinds = ("parameters", "policies", "queues", "exchanges", "bindings")
        body = call.fields()
        there = {kind: [{**row, "vhost": call.steps[0]} for row in fields.rows(body, kind)] for kind in kinds}
        await self._import_contents(call.caller, there)

    async def _import_host(self, caller: Caller, row: Mapping[str, Any]) -> None:
        namespace = namespace_of(fields.text(row, "name"))
        present = self._broker.namespaces.find(namespace)
        wanted = namespace_from(namespace, row, present)
        limits = fields.table(row, "limits") if row.get("limits") else dict(wanted.limits)
        limits = {name: fields.number(limits, name) for name in limits}
        await self._broker.namespaces.put(msgspec.structs.replace(wanted, limits=limits))
        if present is None:
            await caller.own(namespace)

    async def _import_contents(self, caller: Caller, body: Mapping[str, Any]) -> None:
        caller = msgspec.structs.replace(caller, is_restoring=True)
        for row in fields.rows(body, "parameters"):
            await self._import_parameter(row)
        for row in fields.rows(body, "policies"):
            policy = policy_from(self._namespace(row), fields.text(row, "name"), row, is_operators=False)
            await self._broker.policies.put(policy)
        for row in fields.rows(body, "exchanges"):
            namespace, name = self._namespace(row), fields.text(row, "name")
            if _is_own(name) and self._broker.routes.of(namespace).find(name) is None:
                await declare_exchange(self._broker, caller, namespace, name, row)
        for row in fields.rows(body, "queues"):
            namespace, name = self._namespace(row), fields.text(row, "name")
            if self._broker.queues.find(namespace, name) is None:
                await declare_queue(self._broker, caller, namespace, name, row)
        for row in fields.rows(body, "bindings"):
            await self._import_binding(caller, row)

    async def _import_binding(self, caller: Caller, row: Mapping[str, Any]) -> None:
        kind = fields.text(row, "destination_type", "queue")
        if kind not in ("queue", "exchange"):
            raise BadRequest(f"unknown destination type {kind!r}")
        source = fields.text(row, "source")
        if not source:
            return  # Of the exchange without a name: every queue has that one.
        destination = Destination(DestinationKind(kind), fields.text(row, "destination"))
        key, arguments = fields.text(row, "routing_key", ""), fields.table(row, "arguments")
        await bind(self._broker, caller, self._namespace(row), source, destination, key, arguments)

    async def _import_parameter(self, row: Mapping[str, Any]) -> None:
        namespace, component, name = self._namespace(row), fields.text(row, "component"), fields.text(row, "name")
        if component == OPERATOR_POLICY:
            policy = policy_from(namespace, name, fields.table(row, "value"), is_operators=True)
            await self._broker.policies.put(policy)
        elif component == LIMITS:
            limits = fields.table(row, "value")
            there = self._broker.namespaces.get(namespace)
            numbers = {name: fields.number(limits, name) for name in limits}
            await self._broker.namespaces.put(msgspec.structs.replace(there, limits=numbers))
        else:
            await self._broker.parameters.put(Parameter(namespace, component, name, fields.value(row, "value")))

    def _namespace(self, row: Mapping[str, Any]) -> str:
        host = fields.text(row, "vhost")
        namespace = namespace_of(host)
        if self._broker.namespaces.find(namespace) is None:
            raise BadRequest(f"vhost '{host}' is not there")
        return namespace


def _is_own(name: str) -> bool:
    return bool(name) and not name.startswith(RESERVED_PREFIX)


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}
