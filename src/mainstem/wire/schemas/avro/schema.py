"""An Avro schema that was read."""

from __future__ import annotations

from mainstem.wire.schemas.avro.comparison import compare_avro
from mainstem.wire.schemas.avro.parsing import parse_avro, write_avro
from mainstem.wire.schemas.schema import Difference, Texts, unknown_form


class AvroSchema:
    """See `schema.Parsed`."""

    def __init__(self, text: str, texts: Texts) -> None:
        self.node, outside = parse_avro(text, texts)
        self.canonical = write_avro(self.node, outside)
        self.normal = write_avro(self.node, outside, is_normal=True)

    def text_in(self, form: str) -> str:
        """`resolved`: with the types of its references."""
        if form != "resolved":
            raise unknown_form(form)
        return write_avro(self.node)

    def differences(self, written: AvroSchema) -> list[Difference]:
        """By Avro's schema resolution."""
        return compare_avro(self.node, written.node)
