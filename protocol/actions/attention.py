"""Audit reports between nodes, and where a whistleblower looks first.

    own audit --> report, signed --> store, and its address in /status --> read by whistleblowers
    reports of a round --> ledger --> flags --+
    reports: unserved, rejected, grey --------+--> claims in the order in which they are worth a look

Reports are words, and turn eyes only: whoever is looked at is replayed, and a dispute computes.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from protocol.actions.party import Party
from protocol.actions.past import PastFile
from protocol.actions.replay import Comparison, NotServed, ask_until, get_schedule_proof
from protocol.actions.report import MAX_TENSORS, AuditReport, StepScreen, read_report, sign_report
from protocol.actions.states import StoredState, open_state
from protocol.actions.steps import screen_steps
from protocol.adapters.blobs import BlobKey, BlobKind, BlobRef
from protocol.adapters.messages import Form, encode_message
from protocol.adapters.wire.answers import MAX_LISTED, ListedReport, NodeStatus
from protocol.adapters.wire.session import Peer
from protocol.compute.calibrate import ACCEPT_MARGIN
from protocol.compute.determinism import name_hardware
from protocol.compute.residuals import iterate_residuals, reduce_residuals
from protocol.compute.screens import measure_tensors, screen_step
from protocol.compute.segment_screen import screen_segment
from protocol.compute.step import PiecewiseState
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.errors import EnvironmentFault, ProtocolFault, TouchstoneError
from protocol.spec.ledger import Ledger, Observation
from protocol.spec.statuses import AuditRef
from protocol.spec.tolerance import Judgement
from protocol.spec.typed_data import SigningDomain

LEDGER = Form(Ledger, 64 * 1024 * 1024, "the ledger cannot be read", is_exact=True)

PEER_SECONDS = 60.0
"""A report server has this long for all of its reports: a slow one costs nobody the round."""
PEERS_AT_ONCE = 4

log = logging.getLogger(__name__)


# --- Publishing ---------------------------------------------------------------------------------------------
async def publish_audit(
    party: Party, audit: AuditRef, segment: int, start: StateHeader, seen: Comparison
) -> None:
    """Publish what a replay of this node from `start` on found where the ends differ. A report is owed to
    nobody: what goes wrong with it is noted and stops nothing."""
    try:
        status = await ask_status(party, party.round(audit.round).solvers[audit.slot])
        rate_sum, _ = get_schedule_proof(party, audit.round, segment)
        begun = await asyncio.to_thread(open_state, party, start)
        hardware = status.hardware if status else ""
        arguments = (party, audit, segment, rate_sum, begun, seen, hardware)
        async with party.joined.locks["past", party.round(audit.round).solvers[audit.slot]]:
            report = await asyncio.to_thread(make_report, *arguments)
        screens = await _ask_for_steps(party, report, (start, seen.claimed.header))
        publish(party, replace(report, screens=(*report.screens, *screens)))
    except TouchstoneError as fault:
        log.warning("the audit is not reported: %s", fault)


async def _ask_for_steps(
    party: Party, report: AuditReport, ends: tuple[StateHeader, StateHeader]
) -> tuple[StepScreen, ...]:
    """Screens of the single steps of what is odd, where the solver shows their states within half of a window
    of openings."""
    if party.spec.terms.segment_steps == 1 or not is_odd(report):
        return ()
    until_block = party.view.head_block + party.spec.terms.windows.open // 2
    roots = (compute_state_root(ends[0]), compute_state_root(ends[1]))

    async def ask() -> tuple[StepScreen, ...]:
        peer = party.view.network.find(report.solver)
        return await screen_steps(party, peer, report.round, report.segment, roots)

    try:
        return await ask_until(party, ask, until_block, "the states after the steps of a segment")
    except NotServed as fault:
        log.info("%s", fault)
        return ()


def is_odd(report: AuditReport) -> bool:
    """Whether a replay found more than noise: what makes step states worth their bytes."""
    is_far = report.judgement is not Judgement.ACCEPT or is_loud(report)
    return is_far or report.is_inconsistent


def is_loud(report: AuditReport) -> bool:
    """Whether a residual as a whole is as large as the largest honest element."""
    return any(projection.rms > LOUD_RMS for projection in report.projections)


async def ask_status(party: Party, account: str) -> NodeStatus | None:
    """What a peer says of itself; None where it does not answer, or with nonsense."""
    try:
        return await party.client.get_status(party.view.network.find(account))
    except (ProtocolFault, EnvironmentFault) as fault:
        log.info("%s", fault)
        return None


def make_report(
    party: Party,
    audit: AuditRef,
    segment: int,
    rate_sum: int,
    start: StoredState,
    seen: Comparison,
    solver_hardware: str,
) -> AuditReport:
    """The report on an audit of this node, whose replay began at `start`; the residual joins those that this
    node saw of the solver before. `rate_sum` in units of 2^-64."""
    state, spec = party.round(audit.round), party.spec
    assert state.draw_seed is not None
    ends, solver = (seen.claimed, seen.replayed), state.solvers[audit.slot]
    file = PastFile(party.config.home, party.task, solver, start.elements)
    past, place = file.load(), (audit.round, audit.slot, segment)
    before = None if place in past.places else past.residuals
    limits = (rate_sum, spec.terms.accept)
    residuals = reduce_residuals(*ends, start, *limits, state.draw_seed, before)
    try:
        file.add(place, iterate_residuals(*ends, *limits), residuals.norms)
    except EnvironmentFault as fault:
        log.warning("%s", fault)
    tensors = measure_tensors(*ends, start, spec.training.model)
    return AuditReport(
        task=party.task,
        round=audit.round,
        slot=audit.slot,
        segment=segment,
        solver=solver,
        auditor=party.account,
        hardware=f"{solver_hardware}/{name_hardware()}",
        judgement=seen.verdict.judgement,
        excess=seen.verdict.excess,
        distances=residuals.distances,
        tensors=tuple(sorted(tensors, key=lambda tensor: -tensor.worst)[:MAX_TENSORS]),
        screens=(screen_claim(start, seen.claimed, spec.training),),
        projections=residuals.projections,
    )


def screen_claim(start: PiecewiseState, end: PiecewiseState, spec: TrainingSpec) -> StepScreen:
    """What the two claimed ends of a segment say of themselves: exactly where they are one step apart."""
    steps = end.local_step - start.local_step
    found = screen_step(start, end, spec) if steps == 1 else screen_segment(start, end, spec)
    counts = (found.wrong_weights, found.wrong_moments)
    return StepScreen(0, steps, *counts, found.implied_norm, found.is_consistent)


def publish_unserved(party: Party, audit: AuditRef, segment: int) -> None:
    """Publish that the solver did not serve a state of this audit. Stops nothing, whatever goes wrong."""
    solver = party.round(audit.round).solvers[audit.slot]
    where = (party.task, audit.round, audit.slot, segment, solver, party.account)
    try:
        publish(party, AuditReport(*where, f"/{name_hardware()}", None, 0.0))
    except TouchstoneError as fault:
        log.warning("the audit is not reported: %s", fault)


def publish(party: Party, report: AuditReport) -> BlobRef:
    """Sign a report, keep it to be served, and list it in /status."""
    ref = party.store.put_bytes(sign_report(report, party.config.key, get_domain(party)))
    entry = ListedReport(ref.key.root, ref.size_bytes)
    if entry not in party.status.reports:
        party.status.reports.append(entry)
    del party.status.reports[:-MAX_LISTED]
    return ref


def get_domain(party: Party) -> SigningDomain:
    """Where this node's signatures count."""
    return SigningDomain(party.view.chain_id, party.view.registry)


# --- Reading ------------------------------------------------------------------------------------------------
async def fetch_reports(party: Party, peer: Peer) -> list[AuditReport]:
    """The reports that a peer lists and signed itself, on solvers of this task as the chain knows them; what
    cannot be had or used is left out."""
    found = []
    for ref in list_refs(await party.client.get_status(peer)):
        is_here = party.store.has(ref)
        try:
            await party.client.fetch_from_any([peer], ref)
            found.append(await asyncio.to_thread(_read, party, ref, peer))
        except ProtocolFault as fault:
            log.warning("left out: %s", fault)
        except TouchstoneError as fault:
            log.info("%s", fault)
        if not is_here:
            party.store.delete(ref.key)
    return found


async def gather_reports(party: Party, accounts: Iterable[str], index: int) -> list[AuditReport]:
    """What these accounts report of one round: of each what it lists, nothing of whoever does not deliver
    within PEER_SECONDS."""
    gate, segments = asyncio.Semaphore(PEERS_AT_ONCE), party.spec.terms.segment_count

    async def ask(account: str) -> list[AuditReport]:
        try:
            async with gate, asyncio.timeout(PEER_SECONDS):
                found = await fetch_reports(party, party.view.network.find(account))
        except TimeoutError:
            log.warning("%s: did not deliver its reports within %g s", account, PEER_SECONDS)
        except TouchstoneError as fault:
            log.warning("%s: %s", account, fault)
        else:
            return [report for report in found if report.round == index and report.segment < segments]
        return []

    return [report for some in await asyncio.gather(*map(ask, accounts)) for report in some]


def list_refs(status: NodeStatus) -> list[BlobRef]:
    """The reports that a node lists."""
    return [BlobRef(BlobKey(BlobKind.BYTES, entry.root), entry.size_bytes) for entry in status.reports]


def _read(party: Party, ref: BlobRef, peer: Peer) -> AuditReport:
    report = read_report(party.store.get(ref), get_domain(party), peer.account)
    rounds = party.view.tasks[party.task].rounds
    is_known = report.task == party.task and report.round < len(rounds)
    solvers = rounds[report.round].solvers if is_known else ()
    is_known = report.slot < len(solvers) and solvers[report.slot] == report.solver
    if not is_known or report.auditor != peer.account:
        raise ProtocolFault(
            what="an audit report is about nothing that the chain knows",
            expected=f"a report of {peer.account} on a solver of this task",
            actual=f"of {report.auditor} on slot {report.slot} of round {report.round}",
            culprit=peer.account,
            remedy="Leave it out.",
        )
    return report


# --- The ledger ---------------------------------------------------------------------------------------------
def gather_observations(reports: Iterable[AuditReport]) -> list[Observation]:
    """What the reports of one round say of each solver: one report a segment, all of the hardware classes
    that most of them name, since noise of other classes has another centre."""
    found: dict[str, dict[str, dict[int, AuditReport]]] = defaultdict(lambda: defaultdict(dict))
    for report in sorted(reports, key=lambda report: (report.place, report.auditor)):
        if report.projections and report.judgement in (Judgement.ACCEPT, Judgement.GREY):
            found[report.solver][report.hardware].setdefault(report.segment, report)
    observations = []
    for solver, classes in sorted(found.items()):
        hardware, segments = max(classes.items(), key=lambda item: (len(item[1]), item[0]))
        audits = tuple(report.projections for report in segments.values())
        observations.append(Observation(solver, hardware, audits))
    return observations


def get_ledger_path(home: Path, task: bytes) -> Path:
    """The ledger of one task in a node's home."""
    return home / f"ledger-{task.hex()[:16]}.json"


def save_ledger(path: Path, ledger: Ledger) -> None:
    """Writes a ledger, whole or not at all."""
    temporary = path.with_suffix(".new")
    temporary.write_bytes(encode_message(ledger))
    temporary.replace(path)


def load_ledger(path: Path) -> Ledger:
    """The ledger in a file; an empty one where there is none. Raises InvalidInput for a damaged file."""
    if not path.exists():
        return Ledger()
    return LEDGER.read_file(path, "Move the file away: the ledger begins anew.")


# --- Where to look ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Attention:
    """A claim that is worth a look, and why. place: (round, slot, segment); excess: the largest that anybody
    reports, in reject limits; tensor: the farthest parameter tensor, empty where none is named."""

    place: tuple[int, int, int]
    solver: str
    reasons: tuple[str, ...]
    excess: float
    tensor: str


REASONS = ("inconsistent", "rejected", "unserved", "grey", "loud", "flagged", "apart")
"""In the order of their weight: what is wrong by itself, what one replay found, what cannot be seen, what is
odd, what is odd as a whole though no element is, what is odd only in sum, and what only its own word on its
hardware explains."""
LOUD_RMS = 1 / ACCEPT_MARGIN
"""In accept limits: a residual whose elements are, in the mean, as large as the largest honest one that was
measured."""


def rank_claims(reports: Sequence[AuditReport], ledger: Ledger) -> tuple[Attention, ...]:
    """All reported segments, those first that are most worth an own replay: by the weightiest reason, then by
    excess, then by place. Pure."""
    places: dict[tuple[int, int, int], list[AuditReport]] = defaultdict(list)
    for report in reports:
        places[report.place].append(report)
    found = [_weigh(group, ledger) for group in places.values()]
    return tuple(sorted(found, key=_get_rank))


def _get_rank(attention: Attention) -> tuple[int, float, tuple[int, int, int]]:
    first = REASONS.index(attention.reasons[0]) if attention.reasons else len(REASONS)
    return first, -attention.excess, attention.place


def _weigh(reports: Sequence[AuditReport], ledger: Ledger) -> Attention:
    solver = reports[0].solver
    holds = {
        "inconsistent": any(report.is_inconsistent for report in reports),
        "rejected": any(report.judgement is Judgement.REJECT for report in reports),
        "unserved": any(report.judgement is None for report in reports),
        "grey": any(report.judgement is Judgement.GREY for report in reports),
        "loud": any(map(is_loud, reports)),
        "flagged": solver in ledger.list_flagged(),
        "apart": solver in ledger.list_apart(),
    }
    worst = max(reports, key=lambda report: report.excess)
    reasons = tuple(reason for reason in REASONS if holds[reason])
    tensor = worst.tensors[0].name if worst.tensors else ""
    return Attention(reports[0].place, solver, reasons, worst.excess, tensor)
