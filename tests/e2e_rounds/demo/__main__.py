"""`./dev demo`: strangers train a model over a local chain; a cheat is caught, disputed down to one number,
and slashed. Exit status 1 where anything is wrong; a slow machine is not."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from protocol.spec.errors import TouchstoneError
from protocol.spec.program import Operation
from scripts.toolchain import ROOT
from tests.e2e_rounds.demo.number import UNREADABLE
from tests.e2e_rounds.demo.plan import DEFAULT, LEAST_AUDITORS, QUICK, build_plan, read_dataset
from tests.e2e_rounds.demo.roster import make_roster
from tests.e2e_rounds.demo.run import Setting, demonstrate
from tests.e2e_rounds.demo.stage import Folders

ROUNDS, QUICK_ROUNDS, SOLVERS = 4, 2, 3
FAULTS = sorted(one.name.lower() for one in Operation if one not in UNREADABLE)
FAULT = Operation.PRODUCT_SUM.name.lower()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds of a tiny model, fewer parties")
    parser.add_argument("--no-cheat", action="store_true", help="honest parties only")
    parser.add_argument("--rounds", type=int, help=f"of the task; {ROUNDS}, with --quick {QUICK_ROUNDS}")
    parser.add_argument("--solvers", type=int, help=f"honest ones; {SOLVERS}, with --quick 2")
    parser.add_argument("--verifiers", type=int, default=LEAST_AUDITORS, help="3 or more; 3")
    parser.add_argument("--whistleblowers", type=int, help="3 or more audit late too; 3, with --quick 1")
    parser.add_argument("--fault", choices=FAULTS, default=FAULT, help=f"where the cheat errs; {FAULT}")
    parser.add_argument("--seed", type=int, default=1, help="of the untrained model; 1")
    options = parser.parse_args(arguments)
    quick = options.quick
    for name, usual, short in (
        ("rounds", ROUNDS, QUICK_ROUNDS),
        ("solvers", SOLVERS, 2),
        ("whistleblowers", 3, 1),
    ):
        if getattr(options, name) is None:
            setattr(options, name, short if quick else usual)
    for name, least in (("rounds", 1), ("solvers", 1), ("verifiers", LEAST_AUDITORS), ("whistleblowers", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name}: expected {least} or more, got {getattr(options, name)}")
    return options


def make_setting(options: argparse.Namespace) -> Setting:
    """What the command line asks for."""
    counts = (options.solvers, options.verifiers, options.whistleblowers)
    size = QUICK if options.quick else DEFAULT
    return Setting(
        plan=build_plan(size, options.rounds, *counts, options.seed),
        members=make_roster(*counts, with_cheat=not options.no_cheat),
        dataset=read_dataset(),
        fault=options.fault.upper(),
        folders=Folders(ROOT / "build" / "demo"),
    )


def main() -> int:
    """Run the demo; 0 only where nothing is wrong."""
    # Asked to end, end as with Ctrl-C: no party outlives the demo.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return 0 if asyncio.run(demonstrate(make_setting(parse()))) else 1
    except TouchstoneError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
