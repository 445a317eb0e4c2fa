"""A schema whose text is not looked into."""

from __future__ import annotations

from mainstem.wire.schemas.schema import Difference, Texts, unknown_form


class OpaqueSchema:
    """See `schema.Parsed`. Two are compatible when their texts are the same."""

    def __init__(self, text: str, texts: Texts) -> None:
        self.canonical = self.normal = text

    def text_in(self, form: str) -> str:
        """There is no other form."""
        raise unknown_form(form)

    def differences(self, written: OpaqueSchema) -> list[Difference]:
        """None, or that they are not the same."""
        if self.canonical == written.canonical:
            return []
        return [Difference("SCHEMA_CHANGED", "/", "the schema is another one")]
