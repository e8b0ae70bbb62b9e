"""One tree of errors: the type alone says whose fault an error is and what the caller may do.

    TouchstoneError
    |-- InvalidInput        the caller's: an argument, an option, a file of one's own. Fix it, call again.
    |   `-- Declined        its answer to a question was no.
    |-- ProtocolFault       the counterparty's: it broke a rule. The fields are evidence; do not retry.
    `-- EnvironmentFault    no party's: a chain, a disk, a network. Retry where `retryable`, else stop.

Every error says what went wrong, what was expected, what was found, and what to do about it.
"""

from functools import partial
from typing import Any


class TouchstoneError(Exception):
    """Base of all errors that Touchstone raises on purpose; any other exception is a bug of ours."""

    def __init__(self, *, what: str, expected: object, actual: object, remedy: str, where: str = "") -> None:
        """what: the rule that failed; expected, actual: values, shown as they are; remedy: the next thing to
        do; where: the place (a field, a file, a byte offset), empty when `what` already says it."""
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
        # Keyword-only errors do not survive a process pool without this: the pool rebuilds them from `args`.
        return partial(type(self), **self.__dict__), ()


class InvalidInput(TouchstoneError):
    """The caller passed something that no rule allows. Nothing was changed."""


class Declined(InvalidInput):
    """The operator was asked and did not agree, or does not want it any more. Nothing is wrong."""


class ProtocolFault(TouchstoneError):
    """A counterparty broke a rule of the protocol; the fields are what a dispute would show."""

    def __init__(
        self, *, what: str, expected: object, actual: object, remedy: str, where: str = "", culprit: str = ""
    ) -> None:
        """culprit: the address or endpoint at fault, empty if the function cannot know it."""
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
        """retryable: whether the same call may succeed later although the caller changes nothing."""
        self.retryable = retryable
        super().__init__(what=what, expected=expected, actual=actual, remedy=remedy, where=where)
