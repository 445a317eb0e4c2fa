"""What can be wrong with bytes that a peer sent, named by the fact.

    PeerError
    |-- MalformedBytes           a message that cannot be read
    |   |-- BufferUnderflow      it ends before a field does
    |   |-- TrailingBytes        it goes on after its last field
    |   |-- InvalidVarint        more bytes than the type has bits for
    |   |-- InvalidLength        negative where it must not be, or longer than what follows
    |   |-- InvalidText          not UTF-8
    |   |-- UnexpectedNull       null where the schema has none
    |   `-- TooManyElements      an array or tag section above its limit
    |-- UnknownMessage           no such API, or not in this version
    `-- InvalidBatch             (model) not one well-formed v2 record batch
        |-- BatchTruncated       the buffer ends before the batch does
        |-- UnsupportedMagic     a message format other than v2
        |-- InvalidRecordCount   the count contradicts the offsets or the size
        |-- InvalidProducerFields  producer id, epoch and sequence contradict each other
        |-- UnknownCompression   a codec number that Kafka has not assigned
        |-- UndecodableCompression  the codec refuses the bytes
        |-- DecompressedTooLarge the content is above the limit of the reader
        |-- MalformedRecords     the records inside cannot be read
        `-- InvalidMarker        a control batch that ends no transaction

A reader of batches only ever sees `InvalidBatch`; a reader of messages only `MalformedBytes` and `UnknownMessage`.
"""

from mainstem.model.errors import InvalidBatch, PeerError


class MalformedBytes(PeerError):
    """The bytes are not the message that they claim to be."""


class BufferUnderflow(MalformedBytes):
    """The buffer ends before the value does."""


class TrailingBytes(MalformedBytes):
    """Bytes are left after the last field."""


class InvalidVarint(MalformedBytes):
    """A varint is longer than its type allows."""


class InvalidLength(MalformedBytes):
    """A length is negative where it must not be, or larger than the bytes that follow."""


class InvalidText(MalformedBytes):
    """A string is not UTF-8."""


class UnexpectedNull(MalformedBytes):
    """Null, for a field that the schema does not let be null."""


class TooManyElements(MalformedBytes):
    """An array announces more elements than the limit, or than the bytes that follow could hold."""


class UnknownMessage(PeerError):
    """No message is known under this API key and version."""


class BatchTruncated(InvalidBatch):
    """The buffer ends before the batch does."""


class UnsupportedMagic(InvalidBatch):
    """The batch is of a message format other than v2."""


class InvalidRecordCount(InvalidBatch):
    """The record count contradicts the offsets, or the size, of the batch."""


class InvalidProducerFields(InvalidBatch):
    """Producer id, epoch, sequence and attributes contradict each other."""


class UnknownCompression(InvalidBatch):
    """The attributes name a codec that does not exist."""


class UndecodableCompression(InvalidBatch):
    """The compressed bytes are not what their codec writes."""


class DecompressedTooLarge(InvalidBatch):
    """Decompressed, the records are larger than the reader allows."""


class MalformedRecords(InvalidBatch):
    """The records of the batch cannot be read."""


class InvalidMarker(InvalidBatch):
    """The batch is not a control batch that ends a transaction."""
