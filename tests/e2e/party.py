"""One party of the demo as a process of its own: `python tests/e2e/party.py KIND --home DIR ...`.

The honest run the very code of their role. Everybody stays until told to end and serves what was committed,
so that the report can be made from what strangers can fetch.
"""

import argparse
import asyncio
import logging
import secrets
import signal
import sys
from fractions import Fraction
from pathlib import Path

from node import solver
from node.submit import create_task, follow_task
from protocol.actions.join import catch_up, join_task
from protocol.actions.party import PartyConfig, open_party
from protocol.adapters.chain import open_chain, read_deployment
from protocol.spec.errors import TouchstoneError
from scripts.home import read_config, unlock_key
from tests.e2e import first_export as export
from tests.e2e.cheats import make_inventor, make_skipper
from tests.e2e.pace import widen
from tests.e2e.plan import WINDOWS, build_plan, read_dataset
from verifier import verifier
from whistleblower import watcher

ROLES = {"solve": solver.run, "verify": verifier.run, "watch": watcher.run}
KINDS = ("submit", *ROLES, "skip", "invent")
WAITING = "waiting for the task"
SERVING = "the task is over; serving until told to end"


def say(line: str) -> None:
    """A line of the log that the demo keeps of this party."""
    print(line, flush=True)


async def run(options: argparse.Namespace) -> None:
    """Take part to the end of the task, then serve."""
    config = open_home(options.home)
    if options.kind == "submit":
        await submit(config, options)
    else:
        await play(config, options, await wait_for_task(config, options.submitter))
    await serve(config)


def open_home(home: Path) -> PartyConfig:
    """The party whose home this is, its key unlocked."""
    config = read_config(home)
    return PartyConfig(
        home=home,
        deployment=Path(config.deployment),
        rpc_url=config.rpc_url,
        key=unlock_key(home),
        listen_host=config.listen_host,
        listen_port=config.listen_port,
        public_url=config.public_url,
        threads=config.threads,
        memory_mb=config.memory_mb,
        say=say,
    )


async def submit(config: PartyConfig, options: argparse.Namespace) -> None:
    """Post the demo's task when told to by a line, follow it to its end, write the trained model."""
    windows = widen(WINDOWS, options.window_factor)
    plan, dataset = build_plan(options.rounds, windows=windows), read_dataset()
    async with open_party(config) as party:
        say(WAITING)
        await asyncio.to_thread(sys.stdin.readline)
        task = await create_task(party, plan, dataset, secrets.token_bytes(32))
        await follow_task(party, task)
    await export.run(config, task, options.model_dir)


async def play(config: PartyConfig, options: argparse.Namespace, task: bytes) -> None:
    """The role or the cheat."""
    if options.kind in ROLES:
        return await ROLES[options.kind](config, task)
    async with open_party(config) as party:
        await catch_up(party)
        await join_task(party, task)
        cheat = make_skipper(party, options.skip) if options.kind == "skip" else make_inventor(party)
        await cheat.run()


async def wait_for_task(config: PartyConfig, submitter: str) -> bytes:
    """The first task of this submitter, as soon as it is posted."""
    say(WAITING)
    async with open_chain(config.rpc_url, read_deployment(config.deployment)) as chain:
        async for batch in chain.follow():
            for event in batch.events:
                if event.name == "TaskCreated" and event.arguments["submitter"].lower() == submitter.lower():
                    task: bytes = event.arguments["task"]
                    return task
    raise AssertionError("follow() never ends")


async def serve(config: PartyConfig) -> None:
    """Show what this party's own calls on chain oblige it to show, until it is told to end."""
    async with open_party(config) as party:
        await catch_up(party)
        say(SERVING)
        await asyncio.Event().wait()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line that `stage.py` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--submitter", default="")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--window-factor", type=int, default=1, help="see pace.py")
    parser.add_argument("--skip", type=Fraction, default=Fraction(1, 3))
    parser.add_argument("--model-dir", type=Path)
    return parser.parse_args(arguments)


def main() -> int:
    """Run one party; its exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asyncio.run(run(parse()))
    except TouchstoneError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
