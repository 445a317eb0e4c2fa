"""The OpenAPI document, made from the routes that are served."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from mainstem.protocols.http.codec import Problem
from mainstem.protocols.http.errors import (
    TYPE_PREFIX,
    HttpError,
    InvalidContent,
    InvalidParameter,
    UnsupportedMediaType,
)
from mainstem.protocols.http.handlers.routes import Events, Octets, Route, Text
from mainstem.wire.http.messages import EVENTS, JSON, LINES, PROBLEM

OPENAPI = "3.1.0"
ACCEPT = "Accept"
"""A header that OpenAPI describes by the types of the answer."""
ANY_HEADER = "Mainstem-Header-*"
"""Stands for headers of a record: any number of them."""
REFERENCE = "#/components/schemas/{name}"


def describe_routes(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The document."""
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route, schemas)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "Mainstem",
            "version": version,
            "summary": "Topics, groups, stages and the condition of a broker",
        },
        "paths": paths,
        "components": {"schemas": schemas.components},
    }


class _Schemas:
    """JSON schemas of all that the routes take and answer."""

    def __init__(self, routes: Sequence[Route]) -> None:
        types: dict[Any, None] = {Problem: None}
        for route in routes:
            forms = (*route.answers.values(), route.content, route.steps, route.query)
            types |= {form: None for form in forms if form not in (None, Text, Octets, Events)}
        references, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
        self._references: dict[Any, Any] = dict(zip(types, references, strict=True))
        parameters = {form.__name__ for route in routes for form in (route.steps, route.query) if form}
        self._properties = {name: components[name]["properties"] for name in parameters}
        self.components = {name: schema for name, schema in components.items() if name not in parameters}

    def of(self, form: Any) -> Any:
        """A reference to the schema of a type."""
        return self._references[form]

    def parameters(self, form: type[msgspec.Struct] | None, place: str) -> list[dict[str, Any]]:
        """The fields of a form, which come from the path or the query."""
        if form is None:
            return []
        described = []
        for field in msgspec.structs.fields(form):
            schema = dict(self._properties[form.__name__][field.name])
            text = schema.pop("description", None)
            parameter = {"name": field.name, "in": place, "required": field.required, "schema": schema}
            described.append(parameter | ({"description": text} if text else {}))
        return described


def _describe(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": (inspect.getdoc(route.handler) or "").partition("\n")[0],
        "responses": _responses(route, schemas),
    }
    parameters = [*schemas.parameters(route.steps, "path"), *schemas.parameters(route.query, "query")]
    parameters += [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in route.header_names
        if name not in (ACCEPT, ANY_HEADER)
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.content is not None:
        kinds: dict[str, Any] = {JSON: {"schema": schemas.of(route.content)}}
        kinds |= {kind: {"schema": {"type": "string"}} for kind in route.media_types}
        operation["requestBody"] = {"required": True, "content": kinds}
    return operation


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, form in route.answers.items():
        response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if form is Text:
            response["content"] = {"text/plain": {"schema": {"type": "string"}}}
        elif form is Events:
            response["content"] = {EVENTS: {"schema": {"type": "string"}}}
        elif form is Octets:
            response["content"] = {"application/octet-stream": {}}
        elif form is not None:
            response["content"] = {JSON: {"schema": schemas.of(form)}}
            if ACCEPT in route.header_names:
                response["content"][LINES] = {"schema": {"type": "string"}}
        responses[str(status)] = response
    problem = {PROBLEM: {"schema": schemas.of(Problem)}}
    for status, kinds in _by_status(refusals_of(route)).items():
        names = ", ".join(f"`{TYPE_PREFIX}{kind.name}`" for kind in kinds)
        responses[str(status)] = {"description": f"{HTTPStatus(status).phrase}: {names}", "content": problem}
    responses["default"] = {"description": "Any other problem", "content": problem}
    return responses


def refusals_of(route: Route) -> list[type[HttpError]]:
    """Those that a route names, and those that follow from what it takes."""
    refusals: list[type[HttpError]] = []
    if route.steps is not None or route.query is not None:
        refusals.append(InvalidParameter)
    if route.content is not None:
        refusals += [InvalidContent, UnsupportedMediaType]
    return [*refusals, *route.refusals]


def _by_status(refusals: Iterable[type[HttpError]]) -> dict[int, list[type[HttpError]]]:
    by_status: dict[int, list[type[HttpError]]] = {}
    for kind in refusals:
        by_status.setdefault(kind.status, []).append(kind)
    return by_status
