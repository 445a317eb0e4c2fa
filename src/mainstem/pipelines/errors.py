"""What a Spark user can have asked wrongly, as one sentence that says what to do."""

from mainstem.model.errors import MainstemError


class PipelineError(MainstemError):
    """Base of everything that Spark is told instead of a row or an acknowledgement."""


class InvalidOption(PipelineError):
    """An option that is not known, is missing, or has a value that cannot be."""


class SchemaMismatch(PipelineError):
    """The columns are not those that the source has or the sink takes."""


class DataLost(PipelineError):
    """Records that the query has not read yet are gone."""
