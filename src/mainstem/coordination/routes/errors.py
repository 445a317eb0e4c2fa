"""What cannot be done with exchanges and bindings, named by the fact.

PeerError
`-- RouteError
    |-- UnknownExchange, UnknownExchangeKind
    |-- ExchangeDiffers, ExchangeInUse
    |-- DefaultExchange, ReservedExchange
    `-- InvalidExchangeArgument, InvalidBinding
"""

from mainstem.model.errors import PeerError


class RouteError(PeerError):
    """Something about an exchange or a binding cannot be."""


class UnknownExchange(RouteError):
    """No exchange of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no exchange '{name}'")
        self.name = name


class UnknownExchangeKind(RouteError):
    """There is no such kind of exchange."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"unknown exchange type '{kind}'")
        self.kind = kind


class ExchangeDiffers(RouteError):
    """An exchange of this name is there, and is another one."""

    def __init__(self, name: str, field: str, wanted: object, present: object) -> None:
        super().__init__(f"exchange '{name}': {field} is {present!r}, not {wanted!r}")
        self.name = name
        self.field = field
        self.wanted = wanted
        self.present = present


class ExchangeInUse(RouteError):
    """Bindings begin at the exchange."""

    def __init__(self, name: str) -> None:
        super().__init__(f"exchange '{name}' in use")
        self.name = name


class DefaultExchange(RouteError):
    """The exchange without a name is neither declared, deleted nor bound."""

    def __init__(self) -> None:
        super().__init__("operation not permitted on the default exchange")


class ReservedExchange(RouteError):
    """Names that begin with `amq.` are the broker's own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        self.name = name


class InvalidExchangeArgument(RouteError):
    """An argument of an exchange is not what it must be."""


class InvalidBinding(RouteError):
    """Exchanges of this kind have no such bindings."""
