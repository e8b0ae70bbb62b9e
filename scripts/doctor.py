"""touchstone doctor: what is wrong with a home, its machine, its chain and its seats, before it costs.

Each check is one function. It returns what it found in a few words, raises the error that an operator can
mend, or says why it could not look. No transaction is sent and nothing is staked; peers are asked one
question.

Checks of the chain, of an account's money and seat on it, and of the machine are here; those of the home's
own files are in `home_checks`, those of its endpoint in `endpoint_checks`, those of the chain's endpoints in
`provider_checks`. Whether a training step gives the same bits again is seen without a task's data.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from touchstone.node.kit.config import describe_machine
from touchstone.node.kit.gas_factor import measure_gas_factor
from touchstone.node.kit.stored_step import open_step
from touchstone.node.submit import sketch_task
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.gate import BLOCK_S
from touchstone.protocol.adapters.chain.transactions import COIN_REMEDY
from touchstone.protocol.adapters.machine.determinism_fingerprint import read_bits
from touchstone.protocol.adapters.wire.request_signing import MAX_AGE_SECONDS
from touchstone.protocol.compute.determinism import pin_kernels, require_device
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import advance, begin_round
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.economics.gas_costs import price_gas
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, TouchstoneError
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake, get_stake
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.game.state import Seat
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.protocol.spec.training_codec import decode_training
from touchstone.scripts import endpoint_checks, home_checks, provider_checks
from touchstone.scripts.chain_commands import CORPUS_BYTES, TASK_FILE, judge_contracts
from touchstone.scripts.console import (
    Console,
    Document,
    ExitCode,
    describe_error,
    explain_disk,
    is_of_disk,
    render_error,
)
from touchstone.scripts.home import HomeConfig
from touchstone.scripts.home_checks import NotTested, Patient
from touchstone.scripts.task_file import read_task_file
from touchstone.scripts.wallet import find_game, read_state, show_seat, show_task

LATE_BLOCKS = 3
"""So many blocks may be missed, or late, in a row."""
LOOK_S = 1.0
CATCH_UP = 3.0
"""So many seconds of the chain in one of the machine's are those of a node that catches up."""
CONTEST_LEVELS = 12
"""Without a task; they change nothing in what a round costs."""
KEPT_GAS = 48_000_000
"""A seat's account keeps coin for so much gas at the price of now: the answer that takes most, 12 million,
with its margin and at twice the price. The alert `CoinLow` has the same figure."""
TOLD_FACTOR = 1.1
"""Smaller differences are those of two versions."""


async def check_chain(patient: Patient) -> str:
    """The chain answers, has the right id, and the contracts of the deployment."""
    config = patient.get_config()
    urls = config.endpoints if patient.sound_urls is None else patient.sound_urls
    if not urls:
        raise NotTested("no endpoint shows the deployment's chain")
    deployment = config.read_deployment()
    patient.chain = await patient.opened.enter_async_context(open_game_chain(urls, deployment))
    patient.state = await read_state(patient.chain, config.account)
    return f"chain id {deployment.chain_id}, block {patient.state.head_block}"


async def check_contracts(patient: Patient) -> str:
    """All contracts of the deployment are those of this version, and were created by its code."""
    return await judge_contracts(patient.get_chain())


async def check_task(patient: Patient) -> str:
    """The task that was named is one of the chain."""
    state = patient.get_state()
    if patient.task_name is None:
        raise NotTested("no task was named")
    patient.task, _ = find_game(state, patient.task_name)
    return show_task(patient.task)


async def check_head(patient: Patient) -> str:
    """The newest block is not old, and the clocks of chain and machine agree: peers refuse a request that is
    older or younger than a minute."""
    chain, block_s = patient.get_chain(), BLOCK_S.get(patient.get_config().limits)
    if await chain.connection.request("eth_syncing"):
        raise _lagging(chain, "its node says that it is catching up")
    if block_s is None:
        raise NotTested("the clock of a test network skips")
    head = await chain.head()
    ahead_s = patient.now() - head.timestamp_s
    if -MAX_AGE_SECONDS <= ahead_s <= MAX_AGE_SECONDS + LATE_BLOCKS * block_s:
        return f"block {head.number} is {ahead_s:.0f} s old"
    if ahead_s > 0:
        await _require_growth(patient, chain, head, LATE_BLOCKS * block_s)
    raise _wrong_clock(head, ahead_s)


async def _require_growth(patient: Patient, chain: GameChain, first: Head, within_s: float) -> None:
    """Old blocks are the clock's fault where new ones come with the same distance, at the usual pace."""
    began_s = patient.now()
    while (spent_s := patient.now() - began_s) < within_s:
        await asyncio.sleep(LOOK_S)
        head = await chain.head()
        if head.number > first.number:
            grown_s, took_s = head.timestamp_s - first.timestamp_s, max(patient.now() - began_s, LOOK_S)
            if grown_s > CATCH_UP * took_s + within_s:
                raise _lagging(chain, f"it went on by {grown_s} s in {took_s:.0f} s: it is catching up")
            return
    age_s = patient.now() - first.timestamp_s
    raise _lagging(chain, f"block {first.number}, {age_s:.0f} s old, and no other in {spent_s:.0f} s")


def _lagging(chain: GameChain, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="the head of the chain lags behind",
        expected="blocks as they are made",
        actual=actual,
        where=chain.connection.place,
        remedy="Wait until that node has caught up, or set rpc_url in config.toml to another one.",
    )


def _wrong_clock(head: Head, ahead_s: float) -> EnvironmentFault:
    return EnvironmentFault(
        what="the clock of this machine is wrong",
        expected=f"within {MAX_AGE_SECONDS} s of the chain's, or peers refuse its requests",
        actual=f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} block {head.number}",
        remedy="Let it be set by NTP: `timedatectl set-ntp true`, then `timedatectl`.",
    )


# --- Money --------------------------------------------------------------------------------------------------
async def check_gas(patient: Patient) -> str:
    """The account can pay the gas of a round."""
    chain, account = patient.get_chain(), patient.get_config().account
    head, factor = await chain.head(), await measure_gas_factor(chain)
    price_wei = head.base_fee_wei + await chain.connection.priority_fee()
    needed_wei = max(1, round(factor * _compute_round_wei(patient, account, price_wei)))
    coin_wei = await chain.connection.balance_of(account)
    if coin_wei < needed_wei:
        raise InvalidInput(
            what="the account cannot pay the gas of one round",
            expected=f"{needed_wei / 1e18:.9f} coin at {price_wei} wei for one gas",
            actual=f"{coin_wei / 1e18:.9f} coin",
            where=account,
            remedy=COIN_REMEDY,
        )
    said = f"{coin_wei / 1e18:.4f} coin, enough for {coin_wei // needed_wei} rounds"
    kept = round(KEPT_GAS * factor)
    if coin_wei < kept * price_wei:
        said += (
            f"; WARNING: at the price of now that is {coin_wei / max(1, price_wei) / 1e6:.1f} million gas, "
            f"and a seat's account keeps coin for {kept / 1e6:.0f}: {kept * price_wei / 1e18:.4f} in all"
        )
    if factor > TOLD_FACTOR:
        said += (
            f"; calls take {factor:.1f} times as much gas on this chain as where the figures of tasks were "
            "measured: raise gas_price in [economics] as much"
        )
    return said


def _compute_round_wei(patient: Patient, account: str, price_wei: int) -> int:
    """What a round costs in the role of the seat, or a solver where there is none."""
    try:
        _, game = patient.get_game()
    except NotTested:
        return price_gas(price_wei, CONTEST_LEVELS, 0).solver_round
    terms, seat = game.terms, find_seat(game, account)
    costs = price_gas(
        price_wei, terms.contest_levels, 0, terms.solver_seats, terms.draws, terms.least_solvers
    )
    return costs.solver_round if seat is None or seat.role == SeatRole.SOLVER else costs.vote


async def check_stake(patient: Patient) -> str:
    """The seats of this account have what they need to sit in a round."""
    state, account = patient.get_state(), patient.get_config().account.lower()
    games = dict([patient.get_game()]) if patient.task is not None else state.games
    seats = [(task, game, seat) for task, game in games.items() if (seat := find_seat(game, account))]
    for task, game, seat in seats:
        has_wei, least_wei = get_stake(game, seat.number), get_required_stake(game, seat.role)
        if not game.is_closed and has_wei < least_wei:
            raise _small_stake(task, seat, has_wei, least_wei)
    if not seats:
        return await _tell_needed_tokens(patient)
    return f"{len(seats)} seat{'s' if len(seats) > 1 else ''}, with at least what the task asks for at stake"


async def _tell_needed_tokens(patient: Patient) -> str:
    """Whether the account could stake for a seat of the task that was named."""
    try:
        _, game = patient.get_game()
    except NotTested:
        return "no seat yet"
    chain, account = patient.get_chain(), patient.get_config().account
    has_wei = await chain.purse.credit_of(account) + await chain.token.balance_of(account)
    solver_wei, auditor_wei = (get_required_stake(game, one) for one in (SeatRole.SOLVER, SeatRole.VERIFIER))
    needed = f"{format_tokens(solver_wei)} as a solver, {format_tokens(auditor_wei)} as an auditor"
    if has_wei < min(solver_wei, auditor_wei):
        raise InvalidInput(
            what="the account has too few tokens for a seat of this task",
            expected=f"{needed}, and some for bonds",
            actual=f"{format_tokens(has_wei)} in wallet and credit",
            where=account,
            remedy="Send it tokens of the deployment, or choose another task.",
        )
    warning = "WARNING: too few for a seat in each role; " if has_wei < max(solver_wei, auditor_wei) else ""
    return f"no seat yet; {warning}a seat takes {needed}, the account has {format_tokens(has_wei)}"


def _small_stake(task: bytes, seat: Seat, has_wei: int, least_wei: int) -> InvalidInput:
    return InvalidInput(
        what="a seat has less at stake than its task asks for: it sits in no further round",
        expected=f"at least {format_tokens(least_wei)}",
        actual=format_tokens(has_wei),
        where=f"{show_seat(seat)} of {show_task(task)}",
        remedy="Fill it up with `touchstone stake`, or leave with `touchstone leave`.",
    )


# --- The machine --------------------------------------------------------------------------------------------
async def check_versions(patient: Patient) -> str:
    """What computes is what computed in the last run of this home."""
    config = patient.get_config()
    known, now = read_bits(patient.home), await asyncio.to_thread(_describe_as_node, config)
    if patient.task is not None:
        known = {name: one for name, one in known.items() if name == patient.task.hex()}
    for name, one in known.items():
        if one.machine != now:
            parts = [set(text.split(", ")) for text in (one.machine, now)]
            raise EnvironmentFault(
                what="torch, numpy, Python, Touchstone or the machine is another than in the last run",
                expected=", ".join(sorted(parts[0] - parts[1])),
                actual=", ".join(sorted(parts[1] - parts[0])),
                where=f"0x{name[:12]}",
                remedy="Bring the earlier one back until the rounds that this node took part in are settled; "
                "or start the node: it tests whether the bits are the same.",
            )
    if not known:
        raise NotTested(
            f"no node of this home has worked on {'any' if patient.task is None else 'this'} task yet"
        )
    return "as in the last run"


def _describe_as_node(config: HomeConfig) -> str:
    """As the home's node describes the machine: once it has pinned its kernels."""
    pin_kernels(config.threads, device=config.device)
    return describe_machine()


async def check_bits(patient: Patient) -> str:
    """A training step gives the same bits again."""
    config = patient.get_config()
    try:
        training = read_sound_training(patient)
    except NotTested:
        training = sketch_training()
    await asyncio.to_thread(require_repeated_bits, training, config.threads, config.device)
    return f"two runs of a step of {get_step(training).parameters:,} parameters gave the same bits"


def read_sound_training(patient: Patient) -> TrainingSpec:
    """The training of the task that was named. Raises NotTested where none was, InvalidInput where no node
    would join it: what a stranger has posted could take any amount of memory."""
    task, _ = patient.get_game()
    state = patient.get_state()
    spec = make_spec(state.task_terms[task], decode_training(state.texts[task]))
    refuse_broken(find_training_malformations(spec))
    home_checks.read_own(patient.home, spec, open_step)
    return spec.training


# --- All of them --------------------------------------------------------------------------------------------
CHECKS: dict[str, Callable[[Patient], Awaitable[str]]] = {
    "configuration": home_checks.check_configuration,
    "writing": home_checks.check_writing,
    "key": home_checks.check_key,
    "endpoint": endpoint_checks.check_endpoint,
    "port": endpoint_checks.check_port,
    "reach": endpoint_checks.check_reach,
    "provider": provider_checks.check_provider,
    "chain": check_chain,
    "limits": provider_checks.check_limits,
    "contracts": check_contracts,
    "task": check_task,
    "peers": endpoint_checks.check_peers,
    "head": check_head,
    "fee": provider_checks.check_fee,
    "gas": check_gas,
    "stake": check_stake,
    "disk": home_checks.check_disk,
    "memory": home_checks.check_memory,
    "use": home_checks.check_use,
    "versions": check_versions,
    "bits": check_bits,
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
    found = f"{len(faults)} fault{'s were' if len(faults) > 1 else ' was'}" if faults else "no fault was"
    console.say(f"{found} found")
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


RUNS = 2


def sketch_training() -> TrainingSpec:
    """The training of the example task."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / TASK_FILE.name
        path.write_bytes(TASK_FILE.read_bytes())
        (path.parent / "corpus.bin").write_bytes(bytes(CORPUS_BYTES))
        return sketch_task(read_task_file(path).plan, CORPUS_BYTES).training


def require_repeated_bits(training: TrainingSpec, threads: int, device: str) -> None:
    """Compute one step of a task again and again. Raises EnvironmentFault where the states after it differ,
    InvalidInput where this machine has no such device."""
    require_device(device)
    pin_kernels(threads, device=device)
    roots = [compute_step_root(training) for _ in range(RUNS)]
    if len(set(roots)) > 1:
        raise EnvironmentFault(
            what="this machine computes a training step with other bits each time",
            expected=f"root {roots[0].hex()} again",
            actual=next(root.hex() for root in roots if root != roots[0]),
            remedy="Do not stake from it: it could not repeat its own claim in a dispute. Test its memory, "
            "undo overclocking, or choose another device.",
            retryable=False,
        )


def compute_step_root(training: TrainingSpec) -> bytes:
    """The root of the state after one step from fresh weights, on tokens that a fixed seed draws."""
    shape = (training.sequences_per_step, training.sequence_tokens + 1)
    drawn = torch.randint(training.vocabulary_size, shape, generator=torch.Generator().manual_seed(1))
    start = begin_round(draw_weights(get_step(training).layout, 1), 0)
    end, _ = advance(start, Batch(drawn[:, :-1], drawn[:, 1:]), training)
    return compute_state_root(state_header(end.bring_home()))
