"""One tree of errors: the type alone says whose fault an error is and what the caller may do.

    TouchstoneError
    |-- InvalidInput        the caller's fault: an argument, an option, an own file. Fix it, call again.
    |   `-- Declined        the operator answered no.
    |-- ProtocolFault       the counterparty's fault: it broke a rule. The fields are evidence; do not retry.
    `-- EnvironmentFault    nobody's fault: a chain, a disk, a network. Retry if `retryable`, else stop.

Every error says what went wrong, what was expected, what was found, and what to do about it.
"""

from functools import partial
from typing import Any


class TouchstoneError(Exception):
    """The base of all errors that Touchstone raises on purpose. Any other exception is a bug."""

    def __init__(self, *, what: str, expected: object, actual: object, remedy: str, where: str = "") -> None:
        """Makes an error. `what` is the rule that failed, `expected` and `actual` are values, `remedy` is the
        next thing to do. `where` is the place (a field, a file, a byte offset), empty if `what` already says
        it."""
        self.what = what
        self.expected = expected
        self.actual = actual
        self.remedy = remedy
        self.where = where
        super().__init__(self.message())

    def message(self) -> str:
        """Returns the fields as one sentence for people."""
        place = f" at {self.where}" if self.where else ""
        return f"{self.what}{place}: expected {self.expected}, got {self.actual}. {self.remedy}"

    def __reduce__(self) -> tuple[Any, ...]:
        # A process pool rebuilds errors from `args`, which would fail for keyword-only arguments.
        return partial(type(self), **self.__dict__), ()


class InvalidInput(TouchstoneError):
    """The caller passed something that is not allowed. Nothing was changed."""


class Declined(InvalidInput):
    """The operator was asked and did not agree, or has changed its mind. Nothing is wrong."""


class ProtocolFault(TouchstoneError):
    """A counterparty broke a rule of the protocol. The fields are what a dispute would show."""

    def __init__(
        self, *, what: str, expected: object, actual: object, remedy: str, where: str = "", culprit: str = ""
    ) -> None:
        """Makes an error. `culprit` is the address or endpoint at fault, empty if unknown."""
        self.culprit = culprit
        super().__init__(what=what, expected=expected, actual=actual, remedy=remedy, where=where)

    def message(self) -> str:
        """Returns the fields as one sentence for people, with the culprit first if it is known."""
        return f"{self.culprit}: {super().message()}" if self.culprit else super().message()


class EnvironmentFault(TouchstoneError):
    """Something outside the protocol failed: a chain that does not answer, a full disk, a peer that is
    down."""

    def __init__(
        self,
        *,
        what: str,
        expected: object,
        actual: object,
        remedy: str,
        where: str = "",
        retryable: bool = True,
    ) -> None:
        """Makes an error. `retryable` says that the same call may succeed later although the caller changes
        nothing."""
        self.retryable = retryable
        super().__init__(what=what, expected=expected, actual=actual, remedy=remedy, where=where)
