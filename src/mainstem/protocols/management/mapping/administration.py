"""Virtual hosts, users, permissions, policies and parameters <-> what is sent and shown, and what definitions hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mainstem.broker.administration import (
    HASHINGS,
    ApplyTo,
    Namespace,
    Parameter,
    Permission,
    Policy,
    TopicPermission,
    User,
    hashing_of,
    is_password_hash,
)
from mainstem.protocols.management.errors import BadRequest
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.listing import Row
from mainstem.protocols.management.mapping.words import host_of

PROTECTED = "protected_from_deletion"
"""What is said of a virtual host that is not to be deleted by mistake; kept among its metadata."""


def namespace_from(namespace: str, body: Mapping[str, Any], present: Namespace | None) -> Namespace:
    """As it is to be: what is not said stays."""
    old = present or Namespace(namespace)
    given = fields.table(body, "metadata")
    described = {**given, **body}
    kind = described.get("default_queue_type") or old.default_queue_kind
    if not isinstance(kind, str) or kind not in ("", "undefined", "classic", "quorum", "stream"):
        raise BadRequest(f"unknown default queue type {kind!r}")
    metadata = {**old.metadata, **given}
    if PROTECTED in described:
        metadata = {**metadata, PROTECTED: fields.flag(described, PROTECTED)}
    return Namespace(
        namespace,
        fields.text(described, "description", old.description),
        fields.tags(described) if "tags" in described else old.tags,
        "" if kind == "undefined" else kind,
        old.limits,
        metadata,
    )


def namespace_row(namespace: Namespace) -> Row:
    """A virtual host."""
    kind = namespace.default_queue_kind or "classic"
    return {
        "name": host_of(namespace.name),
        "description": namespace.description,
        "tags": list(namespace.tags),
        "default_queue_type": kind,
        PROTECTED: namespace.metadata.get(PROTECTED, False),
        "metadata": {
            PROTECTED: False,
            **namespace.metadata,
            "description": namespace.description,
            "tags": list(namespace.tags),
            "default_queue_type": kind,
        },
        "tracing": False,
        "cluster_state": {},
    }


def user_from(name: str, body: Mapping[str, Any], present: User | None) -> tuple[User, str]:
    """A user as it is to be, and its new password; empty: none. Raises BadRequest."""
    hashing = fields.text(body, "hashing_algorithm", hashing_of(fields.text(body, "password_hash", "")))
    if hashing not in HASHINGS:
        raise BadRequest(f"unknown hashing algorithm {hashing!r}")
    password = fields.text(body, "password") if body.get("password") else ""
    stored = "" if password else fields.text(body, "password_hash", "")  # Neither: nobody logs in as them.
    if not is_password_hash(stored, hashing):
        raise BadRequest("the password hash is not one")
    if "tags" not in body:
        raise BadRequest("key_missing: tags")
    limits = fields.table(body, "limits") or (present.limits if present is not None else {})
    is_disabled = present is not None and present.is_disabled
    # The same hash is of the same password: so what SCRAM needs stays right.
    is_same = present is not None and bool(stored) and present.password_hash == stored
    verifiers = present.verifiers if present is not None and is_same else {}
    numbers = {key: fields.number(limits, key) for key in limits}
    return User(name, stored, hashing, fields.tags(body), numbers, is_disabled, verifiers=verifiers), password


def user_row(user: User) -> Row:
    """A user."""
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def permission_from(user: str, namespace: str, body: Mapping[str, Any]) -> Permission:
    """What a user may do in a virtual host."""
    patterns = (fields.text(body, name) for name in ("configure", "write", "read"))
    return Permission(user, namespace, *patterns)


def permission_row(permission: Permission) -> Row:
    """What a user may do in a virtual host."""
    return {
        "user": permission.user,
        "vhost": host_of(permission.namespace),
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def topic_permission_from(user: str, namespace: str, body: Mapping[str, Any]) -> TopicPermission:
    """What a user may do with routing keys."""
    patterns = (fields.text(body, name) for name in ("exchange", "write", "read"))
    return TopicPermission(user, namespace, *patterns)


def topic_permission_row(permission: TopicPermission) -> Row:
    """What a user may do with routing keys."""
    return {
        "user": permission.user,
        "vhost": host_of(permission.namespace),
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }


def policy_from(namespace: str, name: str, body: Mapping[str, Any], *, is_operators: bool) -> Policy:
    """A policy; older tools write `apply-to` with an underscore."""
    apply_to = body.get("apply-to", body.get("apply_to", "all"))
    if not isinstance(apply_to, str):
        raise BadRequest("apply-to must be a string")
    return Policy(
        namespace,
        name,
        fields.text(body, "pattern"),
        fields.table(body, "definition"),
        fields.number(body, "priority", 0),
        cast(ApplyTo, apply_to),  # checked with the rest of the policy
        is_operators,
    )


def policy_row(policy: Policy) -> Row:
    """A policy."""
    return {
        "vhost": host_of(policy.namespace),
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def parameter_row(parameter: Parameter) -> Row:
    """A parameter of a component."""
    return {
        "vhost": host_of(parameter.namespace),
        "component": parameter.component,
        "name": parameter.name,
        "value": parameter.value,
    }
