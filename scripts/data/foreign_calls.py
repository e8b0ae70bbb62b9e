"""Turns errors of foreign libraries into errors that name the input."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from touchstone.protocol.spec.errors import InvalidInput, TouchstoneError

MAX_WORDS = 200
"""The most characters of a library's own message that are shown."""


@contextmanager
def guard(refuse: Callable[[str], InvalidInput]) -> Iterator[None]:
    """Raises the error that `refuse` makes of a library's words, whatever the library raises: a panic of Rust
    is not even an `Exception`. An error of the disk, which has a number, passes. Nothing may be yielded
    inside."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError, TouchstoneError):
        raise
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        words = str(error) or type(error).__name__
        raise refuse(words[:MAX_WORDS]) from error
