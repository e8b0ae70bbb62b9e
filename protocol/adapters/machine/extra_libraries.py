"""Loads optional libraries, which only some commands need."""

from importlib import import_module
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput


def load_extra(module: str, what: str, extra: str = "data") -> Any:
    """Returns a module of an optional library. `what` is the input or option that needs it. Raises
    InvalidInput if the library is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(
            what=f"{what} needs a library that is not installed",
            expected=f"{module.split('.')[0]}, of the extra [{extra}]",
            actual=str(error),
            remedy=f"Install it, in the checkout: .venv/bin/pip install -e '.[{extra}]'",
        ) from error
