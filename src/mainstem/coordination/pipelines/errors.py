"""What cannot be done with deployed pipelines.

PeerError
`-- DeploymentError       the name or the definition cannot be
    |-- UnknownPipeline
    |-- BuiltInPipeline   it comes from something else, and goes with it
    `-- StaleLease        the worker that reports does not run the pipeline any more
"""

from mainstem.model.errors import PeerError


class DeploymentError(PeerError):
    """The name, the definition or its files cannot be kept."""


class UnknownPipeline(DeploymentError):
    """There is no such pipeline."""


class BuiltInPipeline(DeploymentError):
    """The broker itself brings it: it is neither deployed nor removed."""


class StaleLease(DeploymentError):
    """The lease is another's, or over: its former holder must stop."""
