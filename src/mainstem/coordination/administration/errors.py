"""What cannot be done in administration, named by the fact.

PeerError
`-- AdministrationError
    |-- UnknownNamespace, UnknownUser, UnknownEntry
    `-- InvalidEntry
"""

from mainstem.model.errors import PeerError


class AdministrationError(PeerError):
    """Something about what operators set cannot be."""


class UnknownNamespace(AdministrationError):
    """No such namespace."""


class UnknownUser(AdministrationError):
    """No such user."""


class UnknownEntry(AdministrationError):
    """Nothing was set by this name."""


class InvalidEntry(AdministrationError):
    """It cannot be set so."""
