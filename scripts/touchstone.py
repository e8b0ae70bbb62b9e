"""The `touchstone` command: a table of subcommands, and errors in four short lines.

Each subcommand names the function that does it, imported only when it runs: `--help` must not wait for torch.
"""

import argparse
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import Any

from protocol.spec.calibration_rules import DEFAULT_SEGMENTS
from protocol.spec.errors import TouchstoneError
from scripts.command_form import HOME, PARTY, PASSWORD, TASK, YES, Command, Option
from scripts.data_command_table import DATA_COMMANDS
from scripts.failures import explain_disk, is_of_disk, render_bug, render_error
from scripts.paths import read_path

DEFAULT_HOME = "~/.touchstone"
EXIT_ERROR = 2
EXIT_BUG = 70
"""EX_SOFTWARE of sysexits.h: not the operator's fault."""
EXIT_INTERRUPTED = 130
Act = Callable[[argparse.Namespace], None]
GROUPS = {
    "data": "pack texts for a task: touchstone data --help",
    "task": "write, check, post, halt and close a task: touchstone task --help",
}
"""What is said of the commands that begin with the same word."""


STAKE = Option("--stake", "whole tokens to stake; left out: what the task asks for", {"metavar": "AMOUNT"})
WEIGHTS = Option(
    "--weights", "a folder with the weights that the task begins with: none are fetched", {"type": read_path}
)
EXECUTOR = Option(
    "--executor",
    "what runs replays: process, or ray (an extra); left out: as config.toml says",
    {"choices": ("process", "ray")},
)
SEAT = (TASK, STAKE, WEIGHTS, YES, *PARTY)

COMMANDS = (
    Command(
        "devnet",
        "run a test network: Anvil, the contracts, money from a tap, a clock that skips idle time",
        "touchstone devnet --port 8545 --parties 9",
        "scripts.chain_commands:run_devnet",
        (
            Option(
                "--port", "port of the JSON-RPC endpoint; 0 takes a free one", {"type": int, "default": 0}
            ),
            Option("--out", "deployment file to write", {"type": read_path}),
            Option(
                "--fund",
                "address to give coin and tokens (may be repeated)",
                {"action": "append", "default": []},
            ),
            Option(
                "--parties",
                "skip idle time once so many have announced themselves",
                {"type": int, "default": 1},
            ),
            Option("--no-skip", "two blocks a second, always", {"action": "store_true"}),
        ),
    ),
    Command(
        "init",
        "make a home: keystore, TLS certificate, configuration",
        "touchstone init --home ~/alice --deployment deployments/31337.json --devnet",
        "scripts.chain_commands:run_init",
        (
            HOME,
            PASSWORD,
            Option("--rpc-url", "JSON-RPC endpoint of the chain", {"default": "http://127.0.0.1:8545"}),
            Option(
                "--deployment",
                "file with the contracts' addresses",
                {"type": read_path, "default": Path("deployments/31337.json")},
            ),
            Option(
                "--listen-host",
                "address of this machine to serve blobs on; 0.0.0.0 (all of them) needs --public-url",
                {"default": "127.0.0.1"},
            ),
            Option(
                "--listen-port",
                "port to serve blobs on; 0 takes a free one at each start",
                {"type": int, "default": 0},
            ),
            Option(
                "--public-url",
                "https://HOST:PORT where other machines reach this node, if not where it listens",
                {"default": ""},
            ),
            Option("--threads", "threads to train with", {"type": int, "default": 1}),
            Option("--device", "where to compute steps: cpu, cuda, cuda:1 ...", {"default": "cpu"}),
            Option("--memory-mb", "memory to use, 0: as it comes", {"type": int, "default": 0}),
            Option(
                "--limits",
                "preset for this chain's time of a block, by which tasks are judged; with --devnet: local",
                {"choices": ("12s", "2s", "local")},
            ),
            Option(
                "--devnet",
                "quick keystore, and coin and tokens from the test network's tap",
                {"action": "store_true"},
            ),
        ),
    ),
    Command(
        "stake",
        "add to the stake of a seat that this account has in a task",
        "touchstone stake 0x3fa9 100 --home ~/alice",
        "scripts.money_commands:run_stake",
        (TASK, Option("amount", "whole tokens, decimals allowed", {"metavar": "AMOUNT"}), *PARTY),
    ),
    Command(
        "leave",
        "give up a seat; its stake becomes credit once nothing holds it",
        "touchstone leave 0x3fa9 --home ~/alice",
        "scripts.money_commands:run_leave",
        (TASK, YES, *PARTY),
    ),
    Command(
        "withdraw",
        "take out all credit (pay, stakes that were given back, bonds, escrow), paying out own seats first",
        "touchstone withdraw --wait --home ~/alice",
        "scripts.money_commands:run_withdraw",
        (
            Option(
                "--wait",
                "wait for the stakes of seats that have left, or whose task is over",
                {"action": "store_true"},
            ),
            *PARTY,
        ),
    ),
    *DATA_COMMANDS,
    Command(
        "task create",
        "post a task with its escrow and serve its dataset until it is closed",
        "touchstone task create --config task.toml --home ~/submitter",
        "scripts.task_creation:run_task_create",
        (
            Option(
                "--config",
                "task file (TOML): dataset, model, schedule, windows, amounts",
                {"type": read_path, "required": True},
            ),
            YES,
            *PARTY,
        ),
    ),
    Command(
        "task example",
        "write a task file to begin with, and a small corpus for it",
        "touchstone task example --out example",
        "scripts.example:run_task_example",
        (
            Option(
                "--out",
                "folder for task.toml and corpus.bin",
                {"type": read_path, "default": Path("example")},
            ),
        ),
    ),
    Command(
        "task close",
        "pay out all seats of a task that is over, and close it; the rest of its escrow becomes credit",
        "touchstone task close 0x3fa9 --home ~/submitter",
        "scripts.closing_commands:run_close",
        (TASK, *PARTY),
    ),
    Command(
        "task halt",
        "end an own task: the round that runs is finished, none follows",
        "touchstone task halt 0x3fa9 --home ~/submitter",
        "scripts.closing_commands:run_halt",
        (TASK, YES, *PARTY),
    ),
    Command(
        "calibrate",
        "measure how far this machine's kernels differ on a task, and sign the result",
        "touchstone calibrate task.toml --out profile.json --home ~/alice",
        "scripts.calibrate_commands:run_calibrate",
        (
            Option("task", "a task file (TOML), or the id of a posted task", {"metavar": "TASK"}),
            Option("--out", "profile to write", {"type": read_path, "required": True}),
            Option(
                "--segments", "start states to replay, at least", {"type": int, "default": DEFAULT_SEGMENTS}
            ),
            Option("--rounds", "rounds of the task to train; 0: all", {"type": int, "default": 0}),
            *PARTY,
        ),
    ),
    Command(
        "policy",
        "merge signed profiles of several operators into the limits of a task",
        "touchstone policy alice.json bob.json carol.json",
        "scripts.limit_policy:run_policy",
        (
            Option(
                "profiles",
                "files that `touchstone calibrate` wrote",
                {"type": read_path, "nargs": "+", "metavar": "PROFILES"},
            ),
            Option("--out", "file to write the tables to as well", {"type": read_path}),
        ),
    ),
    Command(
        "solve",
        "train in every round of a task, claim the results, answer disputes",
        "touchstone solve 0x3fa9 --home ~/alice",
        "scripts.role_commands:run_solve",
        SEAT,
    ),
    Command(
        "verify",
        "replay drawn segments of a task blind and vote",
        "touchstone verify 0x3fa9 --home ~/bob",
        "scripts.role_commands:run_verify",
        (*SEAT, EXECUTOR),
    ),
    Command(
        "watch",
        "audit a task late, check its roots, dispute what is wrong",
        "touchstone watch 0x3fa9 --home ~/carol",
        "scripts.role_commands:run_watch",
        (*SEAT, EXECUTOR),
    ),
    Command(
        "status",
        "show tasks and rounds, seats and credit, and what can be taken out when",
        "touchstone status --home ~/alice",
        "scripts.chain_commands:run_status",
        (HOME,),
    ),
    Command(
        "export",
        "write the trained model as a folder that transformers loads",
        "touchstone export 0x3fa9 --out build/model --home ~/alice",
        "scripts.role_commands:run_export",
        (
            TASK,
            Option("--out", "folder to write", {"type": read_path, "required": True}),
            Option("--tokenizer", "the task's tokenizer.json, or a folder with it", {"type": read_path}),
            *PARTY,
        ),
    ),
)


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="touchstone",
        description="Strangers train one model together; cheats are caught, convicted on chain and slashed.",
        epilog="Example: touchstone devnet --port 8545",
    )
    groups = {"": parser.add_subparsers(required=True, metavar="COMMAND")}
    for command in COMMANDS:
        *path, name = command.words.split()
        group = _find_group(groups, " ".join(path))
        _add_command(group, name, command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; return the exit status: 2 for an error that the operator can mend."""
    options = make_parser().parse_args(arguments)
    options.home = options.home if getattr(options, "home", None) else find_home()
    logging.basicConfig(level=logging.INFO if options.debug else logging.WARNING, format="%(message)s")
    _hear_signals()
    try:
        act: Act = resolve_name(options.act)
        act(options)
    except TouchstoneError as error:
        return _fail(render_error(error), EXIT_ERROR, options.debug)
    except KeyboardInterrupt:
        return _fail("stopped", EXIT_INTERRUPTED, options.debug)
    except Exception as error:
        if isinstance(error, OSError) and is_of_disk(error):
            return _fail(render_error(explain_disk(error)), EXIT_ERROR, options.debug)
        return _fail(render_bug(error), EXIT_BUG, options.debug)
    return 0


def find_home() -> Path:
    """$TOUCHSTONE_HOME, else ~/.touchstone."""
    return read_path(os.environ.get("TOUCHSTONE_HOME", DEFAULT_HOME))


def _fail(text: str, status: int, is_debug: bool) -> int:
    if is_debug:
        traceback.print_exc()
    print(text, file=sys.stderr)
    return status


def _hear_signals() -> None:
    """Asked to end, end as with Ctrl-C: children are stopped and files closed. A script's shell has a command
    in the background ignore SIGINT: it goes on doing so, but asyncio has to know how to be interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """SIGTERM does what SIGINT does, even where that is blocked: asyncio takes it between two callbacks, so
    nothing is left half done and nothing is printed."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _find_group(groups: dict[str, Any], path: str) -> Any:
    if path not in groups:
        parser = groups[""].add_parser(
            path, help=GROUPS[path], description=GROUPS[path].capitalize().split(":")[0] + "."
        )
        groups[path] = parser.add_subparsers(required=True, metavar="COMMAND")
    return groups[path]


def _tell_default(option: Option) -> str:
    """What an option is where it is left out, unless that is nothing."""
    default = option.settings.get("default")
    return "" if default in (None, "", []) else f" (default: {default})"


def _add_command(group: Any, name: str, command: Command) -> None:
    parser = group.add_parser(
        name,
        # A slip must not be taken for another option.
        allow_abbrev=False,
        help=command.summary,
        description=command.summary[0].upper() + command.summary[1:] + ".",
        epilog=f"Example:\n  {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option in command.options:
        parser.add_argument(option.name, help=option.help + _tell_default(option), **option.settings)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(act=command.act)


if __name__ == "__main__":
    sys.exit(main())
