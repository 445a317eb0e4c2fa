"""Who a client is by its certificate, and which user that is."""

from __future__ import annotations

import functools
import re
from typing import Literal, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.x509.oid import NameOID

from mainstem.model.endpoints import ClientCertificate

UserSource: TypeAlias = Literal["subject", "common_name", "dns", "email", "uri"]

_KNOWN = frozenset(
    {
        NameOID.COMMON_NAME,
        NameOID.LOCALITY_NAME,
        NameOID.STATE_OR_PROVINCE_NAME,
        NameOID.ORGANIZATION_NAME,
        NameOID.ORGANIZATIONAL_UNIT_NAME,
        NameOID.COUNTRY_NAME,
        NameOID.STREET_ADDRESS,
        NameOID.DOMAIN_COMPONENT,
        NameOID.USER_ID,
    }
)
"""Attributes that RFC 2253 writes by a short name; others are a number and the bytes of their value."""
_RULE = re.compile(r"\s*((DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(,|$)")
_REFERENCE = re.compile(r"\$(\d)")


class Rule(NamedTuple):
    """Makes the name of a user from a name of a certificate."""

    pattern: re.Pattern[str] | None
    """None takes every name as it is."""
    replacement: str = ""
    case: str = ""


class UserRules:
    """Kafka's `ssl.principal.mapping.rules`: the first rule whose pattern fits the whole name."""

    def __init__(self, source: UserSource, rules: str) -> None:
        """Raises ValueError."""
        self._source = source
        self._rules = parse_rules(rules)

    def user_of(self, certificate: ClientCertificate) -> str:
        """The name of its user; empty where it has no such name, or no rule fits."""
        name = self._name(certificate)
        if not name:
            return ""
        for rule in self._rules:
            if rule.pattern is None:
                return name
            match = rule.pattern.fullmatch(name)
            if match is not None:
                user = _REFERENCE.sub(functools.partial(_group, match), rule.replacement)
                return {"L": user.lower(), "U": user.upper()}.get(rule.case, user)
        return ""

    def _name(self, certificate: ClientCertificate) -> str:
        if self._source == "subject":
            return certificate.subject
        if self._source == "common_name":
            return certificate.common_name
        return next((value for kind, value in certificate.alternative_names if kind == self._source), "")


def _group(match: re.Match[str], reference: re.Match[str]) -> str:
    """A group that took no part is nothing, and so is one that is not there."""
    number = int(reference.group(1))
    return (match.group(number) or "") if number <= match.re.groups else ""


def parse_rules(text: str) -> list[Rule]:
    """From `RULE:pattern/replacement/L,DEFAULT`. Raises ValueError."""
    rules, place = [], 0
    while place < len(text):
        match = _RULE.match(text, place)
        if match is None:
            raise ValueError(
                f"{text[place:]!r} is no rule: expected DEFAULT or RULE:PATTERN/REPLACEMENT/, then L, U or nothing"
            )
        if match.group(2):
            rules.append(Rule(None))
        else:
            pattern = match.group(3).replace("\\/", "/")
            try:
                rules.append(Rule(re.compile(pattern), match.group(4).replace("\\/", "/"), match.group(5)))
            except re.error as error:
                raise ValueError(f"{pattern!r} is no pattern: {error}") from None
        place = match.end()
    if not rules:
        raise ValueError("there is no rule; DEFAULT takes every name as it is")
    return rules


def identify(certificate: bytes, rules: UserRules) -> ClientCertificate:
    """Read a certificate in DER, which was verified. Raises ValueError."""
    try:
        read = x509.load_der_x509_certificate(certificate)
        common = read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        name = str(common[0].value) if common else ""
        found = ClientCertificate(write_name(read.subject), name, tuple(_alternatives(read)))
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ValueError(str(error)) from None
    return found._replace(user=rules.user_of(found))


def identify_name(common_name: str, rules: UserRules) -> ClientCertificate:
    """By the one name that a proxy tells."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    found = ClientCertificate(write_name(name), common_name)
    return found._replace(user=rules.user_of(found))


def write_name(name: x509.Name) -> str:
    """As RFC 2253 says, and Java's `X500Principal.getName()` writes it."""
    return ",".join("+".join(map(_write_attribute, part)) for part in reversed(name.rdns))


def _write_attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    if attribute.oid in _KNOWN:
        return attribute.rfc4514_string()
    # SEQUENCE { SET { SEQUENCE { OID, value } } }: the value is what is left behind the identifier.
    whole = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        whole = whole[_content(whole) :]
    start = _content(whole)
    return f"{attribute.oid.dotted_string}=#{whole[start + _length(whole) :].hex()}"


def _content(der: bytes) -> int:
    """Where the content begins, behind tag and length."""
    return 2 if der[1] < 0x80 else 2 + (der[1] & 0x7F)


def _length(der: bytes) -> int:
    return der[1] if der[1] < 0x80 else int.from_bytes(der[2 : 2 + (der[1] & 0x7F)])


def _alternatives(certificate: x509.Certificate) -> list[tuple[str, str]]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    found = []
    for name in names:
        if isinstance(name, x509.DNSName):
            found.append(("dns", name.value))
        elif isinstance(name, x509.RFC822Name):
            found.append(("email", name.value))
        elif isinstance(name, x509.UniformResourceIdentifier):
            found.append(("uri", name.value))
        elif isinstance(name, x509.IPAddress):
            found.append(("ip", str(name.value)))
    return found
