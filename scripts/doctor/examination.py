"""`touchstone doctor`: finds what is wrong with a home, its machine, its chain and its seats, before it costs
money.

Each check is one function. It returns its result in a few words, raises an error that an operator can fix, or
says why it could not check. No transaction is sent and nothing is staked; peers are asked one question.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.scripts.command_line.command_errors import (
    describe_fault,
    explain_disk,
    is_of_disk,
    render_error,
)
from touchstone.scripts.command_line.command_results import FaultFound
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.doctor import (
    deployment_checks,
    endpoint_checks,
    home_checks,
    peer_checks,
    provider_checks,
    room_checks,
)
from touchstone.scripts.doctor.chain_checks import check_chain, check_contracts, check_head, check_task
from touchstone.scripts.doctor.machine_checks import check_bits, check_versions
from touchstone.scripts.doctor.money_checks import check_gas, check_stake
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.documents.home_documents import CheckDocument, CheckResult, DoctorDocument

CHECKS: dict[str, Callable[[Patient], Awaitable[str]]] = {
    "configuration": home_checks.check_configuration,
    "writing": home_checks.check_writing,
    "key": home_checks.check_key,
    "endpoint": endpoint_checks.check_endpoint,
    "port": endpoint_checks.check_port,
    "reach": endpoint_checks.check_reach,
    "provider": provider_checks.check_provider,
    "chain": check_chain,
    "limits": deployment_checks.check_limits,
    "contracts": check_contracts,
    "task": check_task,
    "peers": peer_checks.check_peers,
    "head": check_head,
    "fee": deployment_checks.check_fee,
    "gas": check_gas,
    "stake": check_stake,
    "disk": room_checks.check_disk,
    "memory": room_checks.check_memory,
    "use": room_checks.check_use,
    "versions": check_versions,
    "bits": check_bits,
}
"""The checks in order: later ones use the results of earlier ones."""


@dataclass(frozen=True)
class Verdict:
    """The result of a check: `ok`, `fault` or `not tested`, and words that explain it."""

    name: str
    result: str
    said: str
    error: TouchstoneError | None = field(default=None, repr=False)


def examine_home(home: Path, task: str | None, password_file: Path | None) -> DoctorDocument | FaultFound:
    """Checks a home and says what is wrong."""
    patient, console = Patient(home, task, password_file=password_file), Console()
    verdicts = asyncio.run(examine(patient, console))
    faults = [one for one in verdicts if one.error is not None]
    found = f"{len(faults)} fault{'s were' if len(faults) > 1 else ' was'}" if faults else "no fault was"
    console.notify(f"{found} found")
    document = DoctorDocument(len(faults), [_describe(one) for one in verdicts])
    return FaultFound(document) if faults else document


def _describe(verdict: Verdict) -> CheckDocument:
    error = None if verdict.error is None else describe_fault(verdict.error)
    return CheckDocument(verdict.name, CheckResult(verdict.result), verdict.said, error)


async def examine(patient: Patient, console: Console) -> list[Verdict]:
    """Runs every check, one after the other, and reports each as it ends."""
    verdicts = []
    async with patient.opened:
        for name, check in CHECKS.items():
            verdicts.append(verdict := await _look(name, check, patient))
            console.notify(f"{verdict.result:10} {name}: {verdict.said}")
            if verdict.error is not None:
                console.rich.print(
                    render_error(verdict.error), markup=False, soft_wrap=not console.rich.is_terminal
                )
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
