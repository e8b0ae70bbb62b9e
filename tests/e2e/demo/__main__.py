"""`./dev demo`: strangers train a model over a local chain; a cheat is caught, disputed down to one number,
and slashed. Exit status 1 where anything is wrong; a slow machine is not."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from tests.e2e.demo.plan import DEFAULT, LEAST_AUDITORS, QUICK, build_plan, read_dataset
from tests.e2e.demo.roster import make_roster
from tests.e2e.demo.run import Setting, demonstrate
from tests.e2e.demo.stage import Folders
from tests.task_plans import respecify_plan
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.params import FORMAT_ALIASES
from touchstone.scripts.toolchain import ROOT

COUNTS = {
    "rounds": (3, 2, 1),
    "solvers": (3, 2, 1),
    "verifiers": (3, 3, LEAST_AUDITORS),
    "whistleblowers": (3, 1, 0),
}
"""By option: usually, with --quick, and the least."""

ABOUT = {
    "rounds": "rounds of the task",
    "solvers": "honest solvers",
    "verifiers": "verifiers",
    "whistleblowers": "whistleblowers, who audit late where there are three",
}
FAULTS = ("subtract", "add", "multiply", "divide", "square_root", "reciprocal_root", "sigmoid")
"""Operations whose last error in a step always reaches the weights, the first one unless told otherwise."""
FORMATS = ("float32", "exact")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds of a tiny model, fewer parties")
    about = "one solver that errs on purpose: one; with none, honest parties only"
    parser.add_argument("--cheats", choices=("one", "none"), default="one", help=about)
    for name, about in ABOUT.items():
        usual, quick, least = COUNTS[name]
        said = f"{about}: {usual}, with --quick {quick}; {least} or more"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=said)
    parser.add_argument(
        "--fault", choices=FAULTS, default=FAULTS[0], help="in which operation the cheat errs"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="exact: the same bits on every processor"
    )
    about = "open a web page of the run in the browser; it stays until Ctrl-C"
    parser.add_argument("--explorer", action="store_true", help=about)
    parser.add_argument("--seed", type=int, default=1, help="of the untrained model: 1")
    options = parser.parse_args(arguments)
    for name, (usual, quick, least) in COUNTS.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else usual)
        if getattr(options, name) < least:
            parser.error(f"--{name}: expected {least} or more, got {getattr(options, name)}")
    return options


def make_setting(options: argparse.Namespace) -> Setting:
    """What the command line asks for."""
    counts = (options.solvers, options.verifiers, options.whistleblowers)
    size = QUICK if options.quick else DEFAULT
    return Setting(
        plan=respecify_plan(
            build_plan(size, options.rounds, *counts, options.seed),
            numeric_format=FORMAT_ALIASES.get(options.format, options.format),
        ),
        members=make_roster(*counts, with_cheat=options.cheats == "one"),
        dataset=read_dataset(),
        fault=options.fault.upper(),
        folders=Folders(ROOT / "build" / "demo"),
        with_explorer=options.explorer,
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
