"""Which tests `./dev test` runs each day, in some minutes; all others run with `./dev test --all`."""

PLAYS = ("tests/e2e/test_happy_path.py",)
"""End-to-end plays of each day, of those below."""
LONG = (
    "tests/attacks/",
    "tests/e2e/",
    "tests/faults/",
    "tests/lab/",
)
"""Folders and files whose tests take long, or measure."""


def is_daily(name: str) -> bool:
    """Tells whether a test runs each day. name: as pytest has it."""
    return name.startswith(PLAYS) or not name.startswith(LONG)
