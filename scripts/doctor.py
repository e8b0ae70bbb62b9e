"""`touchstone doctor`: what is wrong with a home, its machine, its chain and its seats, before it costs.

Each check is one function. It returns what it found in a few words, raises the error that an operator can
mend, or says why it could not look. Nothing is sent or staked.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from protocol.spec.errors import TouchstoneError
from scripts import chain_checks, home_checks
from scripts.command_results import Document, ExitCode, describe_error, explain_disk, is_of_disk, render_error
from scripts.console import Console
from scripts.home_checks import NotTested, Patient

CHECKS: dict[str, Callable[[Patient], Awaitable[str]]] = {
    "configuration": home_checks.check_configuration,
    "writing": home_checks.check_writing,
    "key": home_checks.check_key,
    "endpoint": home_checks.check_endpoint,
    "port": home_checks.check_port,
    "reach": home_checks.check_reach,
    "chain": chain_checks.check_chain,
    "task": chain_checks.check_task,
    "head": chain_checks.check_head,
    "gas": chain_checks.check_gas,
    "stake": chain_checks.check_stake,
    "disk": home_checks.check_disk,
    "versions": chain_checks.check_versions,
    "bits": chain_checks.check_bits,
}
"""In this order: later ones use what earlier ones have found out."""


@dataclass(frozen=True)
class Verdict:
    """What a check came to: `ok`, `fault` or `not tested`, and in what words."""

    name: str
    result: str
    said: str
    error: TouchstoneError | None = field(default=None, repr=False)


def run_doctor(options: argparse.Namespace) -> Document:
    """Look at a home and say what is wrong; the exit status is 1 where something is."""
    patient, console = Patient(options.home, options.task, password_file=options.password_file), Console()
    verdicts = asyncio.run(examine(patient, console))
    faults = [one for one in verdicts if one.error is not None]
    console.say(f"{len(faults)} faults" if faults else "no fault was found")
    if faults:
        options.exit_status = ExitCode.FOUND
    return {"faults": len(faults), "checks": [_describe(one) for one in verdicts]}


def _describe(verdict: Verdict) -> Document:
    error = None if verdict.error is None else describe_error(verdict.error, ExitCode.FOUND)["error"]
    return {"check": verdict.name, "result": verdict.result, "said": verdict.said, "error": error}


async def examine(patient: Patient, console: Console) -> list[Verdict]:
    """Every check, one after the other, each told as it ends."""
    verdicts = []
    async with patient.opened:
        for name, check in CHECKS.items():
            verdicts.append(verdict := await _look(name, check, patient))
            console.say(f"{verdict.result:10} {name}: {verdict.said}")
            if verdict.error is not None:
                console.rich.print(render_error(verdict.error), markup=False, soft_wrap=True)
    return verdicts


async def _look(name: str, check: Callable[[Patient], Awaitable[str]], patient: Patient) -> Verdict:
    try:
        return Verdict(name, "ok", await check(patient))
    except NotTested as reason:
        return Verdict(name, "not tested", str(reason))
    except TouchstoneError as error:
        return Verdict(name, "fault", error.what, error)
    except OSError as error:
        if not is_of_disk(error):
            raise
        return Verdict(name, "fault", explain_disk(error).what, explain_disk(error))
