"""What a subcommand of `touchstone` is made of, and the options that many of them share."""

from dataclasses import dataclass, field
from typing import Any

from touchstone.scripts.command_line.log_lines import LEVELS
from touchstone.scripts.command_line.typed_input import read_path


@dataclass(frozen=True)
class Option:
    """One argument of a subcommand, as argparse takes it."""

    name: str
    help: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """One subcommand; `act` is `module:function`, called with the parsed arguments. first: another one, which
    is called before `act` is even loaded."""

    words: str
    summary: str
    example: str
    act: str
    options: tuple[Option, ...] = ()
    first: str = ""


HOME = Option("--home", "folder of key, certificate, journal and blobs", {"type": read_path})
PASSWORD = Option("--password-file", "file with the password of the keystore", {"type": read_path})
TASK = Option(
    "task", "id of a task, or the first digits of it, as `touchstone status` shows it", {"metavar": "TASK"}
)
YES = Option("--yes", "do it without asking", {"action": "store_true"})
PARTY = (HOME, PASSWORD)
LOGS = (
    Option(
        "--log-level",
        "least weight of a line to be shown and written; left out: info, and from libraries warning",
        {"choices": LEVELS},
    ),
    Option("--log-file", "file to which each line is written as well", {"type": read_path}),
)
"""Of commands that run for long."""
