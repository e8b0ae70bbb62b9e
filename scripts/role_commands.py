"""Subcommands that take part in a task; the roles themselves live in node, verifier and whistleblower.

Before a seat is taken the operator sees what it costs and is asked, and the task is judged: its terms by the
limits of this home, its amounts by the figures of this home. The role itself then checks the rest.
"""

import argparse
import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

from node import export
from node.model_folder import import_start
from protocol.actions.audit.replay_pool import load_ray
from protocol.actions.runtime.config import JOURNAL_FILE, STORE_FOLDER, PartyConfig, limit_memory
from protocol.actions.runtime.joining import SeatWish, compute_dataset_bytes, require_joinable
from protocol.actions.runtime.task_inputs import compute_start_bytes
from protocol.adapters.chain.chain_client import GameChain, open_game_chain
from protocol.adapters.chain.deployment import read_game_deployment
from protocol.adapters.chain.refusal_words import format_tokens
from protocol.adapters.journal import require_free
from protocol.adapters.store import BlobStore
from protocol.compute.determinism import require_device
from protocol.spec.codec import decode_training
from protocol.spec.errors import GameRefusal, InvalidInput
from protocol.spec.game.calls import JoinSeat
from protocol.spec.game.fates import find_seat, get_required_stake
from protocol.spec.game.logs import LoggedGame
from protocol.spec.game.state import Seat, SeatRole
from protocol.spec.game.terms import LIMITS, GameTerms, make_spec
from protocol.spec.statements import VoteWord
from protocol.spec.task_rules import find_training_malformations, refuse_broken
from scripts.console import Console, Document, ExitCode, parse_tokens, show_progress, spell_id
from scripts.figures import read_figures, refuse_bad_money, refuse_bad_terms, refuse_other_limits
from scripts.home import CONFIG_FILE, HomeConfig, read_config, unlock_key
from scripts.task_file import compute_disk_bytes
from scripts.wallet import (
    find_game,
    read_state,
    require_agreement,
    require_coin,
    require_tokens,
    show_seat,
    show_task,
    tell_missing,
)
from verifier import verifier

Result = TypeVar("Result")

ROLES = {
    SeatRole.SOLVER: "node.solver:run",
    SeatRole.VERIFIER: "verifier.verifier:run",
    SeatRole.WHISTLEBLOWER: "whistleblower.watcher:run",
}
"""Long-running work: `async run(config, task, wish)`, whether it ended because the task is closed."""
TASK_CLOSED = "the task is closed; your pay and your stake are credit: touchstone withdraw"
SEAT_LEFT = (
    "the seat has left and is paid out; this node is not needed any more. Its stake is credit: "
    "touchstone withdraw"
)
REMEDY = "Do not stake on it; its submitter has to post a corrected task."


@dataclass(frozen=True)
class Offer:
    """What an operator offers: a role, and a stake in wei (0: what the task asks for). is_agreed: do not
    ask. weights: a folder with the weights that the task begins with, if it has them here."""

    role: SeatRole
    stake_wei: int
    is_agreed: bool
    weights: Path | None = None


def run_solve(options: argparse.Namespace) -> Document:
    """Train in every round of a task."""
    return _run_role(SeatRole.SOLVER, options)


def run_verify(options: argparse.Namespace) -> Document:
    """Audit claims of a task."""
    return _run_role(SeatRole.VERIFIER, options)


def run_watch(options: argparse.Namespace) -> Document:
    """Watch a task and dispute what is wrong."""
    return _run_role(SeatRole.WHISTLEBLOWER, options)


def run_export(options: argparse.Namespace) -> Document:
    """Write the trained model of a task."""
    tokenizer = getattr(options, "tokenizer", None)
    return asyncio.run(export_model(open_config(options, Console()), options.task, options.out, tokenizer))


async def export_model(config: PartyConfig, name: str, out: Path, tokenizer: Path | None = None) -> Document:
    """Write the newest model of the task called `name` to `out`; raises as `export.run` does."""
    async with open_game_chain(config.rpc_url, read_game_deployment(config.deployment)) as chain:
        task, _ = find_game(await read_state(chain), name)
    choice = await export.run(config, task, out, tokenizer)
    facts = {"task": spell_id(task), "folder": str(out), "outer_root": spell_id(choice.root)}
    return facts | {"rounds_trained": choice.after + 1}


def run_replay(options: argparse.Namespace) -> Document:
    """Replay one segment without a seat; the exit status is 1 where its end lies beyond the limits."""
    console = Console()
    config = open_config(options, console)
    where = (options.task, options.round, options.solver, options.segment)
    found = asyncio.run(replay_segment(config, *where, console))
    if found["result"] != VoteWord.ACCEPT.name:
        options.exit_status = ExitCode.FOUND
    return found


async def replay_segment(
    config: PartyConfig, name: str, index: int, solver: str, segment: int, console: Console
) -> Document:
    """Replay a segment of the task called `name`, and say what was found. solver: the slot of its claim, or
    its account. Raises as `verifier.replay` does."""
    async with open_game_chain(config.rpc_url, read_game_deployment(config.deployment)) as chain:
        task, game = find_game(await read_state(chain), name)
    claims = game.rounds[index].claims if index in game.rounds else {}
    slots = {claim.account: slot for slot, claim in claims.items()}
    slot = int(solver) if solver.isascii() and solver.isdigit() else slots.get(solver.lower(), -1)
    found = await verifier.replay(config, verifier.Place(task, index, slot, segment))
    for line in tell_replayed(found):
        console.say(line)
    return {
        "task": spell_id(task),
        "round": index,
        "slot": slot,
        "solver": found.solver,
        "segment": segment,
        "result": found.word.name,
        "claimed_end": spell_id(found.claimed_end),
        "own_end": None if found.own_end is None else spell_id(found.own_end),
        "distances": [
            {"quantity": quantity, "distance": distance if isfinite(distance) else None, "limit": limit}
            for quantity, distance, limit in found.distances
        ],
    }


def tell_replayed(found: verifier.Replayed) -> Iterator[str]:
    """What a replay came to, in words."""
    if found.own_end == found.claimed_end and found.word == VoteWord.ACCEPT:
        yield f"{found.word.name}: the own end has the claim's root, {spell_id(found.claimed_end)}"
        return
    for quantity, distance, limit in found.distances:
        yield f"largest distance of the {quantity}: {distance:.3g}, limit {limit:.3g}"
    meaning = {
        VoteWord.ACCEPT: "the claimed end lies inside the limits of the task",
        VoteWord.REJECT_START: "the claim does not start from what the round began with: it has other "
        "weights, other moments, or step numbers of another place",
        VoteWord.REJECT_STATE: "the claimed end is not what this machine comes to. Who is wrong a dispute "
        "computes, from one number of the segment",
    }
    yield f"{found.word.name}: {meaning[found.word]}"


def _run_role(role: SeatRole, options: argparse.Namespace) -> Document:
    console, home = Console(), read_config(options.home)
    require_device(home.device)
    require_free(options.home / JOURNAL_FILE)
    # Before the password is asked for.
    executor = choose_executor(role, getattr(options, "executor", None), home)
    config = replace(open_config(options, console), **executor)
    stake_wei = parse_tokens(options.stake) if options.stake else 0
    offer = Offer(role, stake_wei, options.yes, options.weights)
    return asyncio.run(play_role(config, home, options.task, offer, console))


def choose_executor(role: SeatRole, chosen: str | None, home: HomeConfig) -> dict[str, Any]:
    """What runs the role's replays, or trains beside a solver, as fields of its `PartyConfig`. chosen: by an
    option, before what the home says. Raises InvalidInput for Ray or workers on a graphics card, or if Ray is
    missing."""
    if role == SeatRole.SOLVER:
        if home.workers > 1 and home.device != "cpu":
            raise InvalidInput(
                what="several workers train on processors alone",
                expected='device = "cpu", or workers = 1',
                actual=f'device = "{home.device}", workers = {home.workers}',
                remedy="Change one of them in config.toml.",
            )
        return {"executor": "process", "replay_processes": 1, "workers": home.workers}
    executor = chosen or home.executor
    if executor == "ray":
        if home.device != "cpu":
            raise InvalidInput(
                what="Ray runs replays on processors alone",
                expected='device = "cpu", or executor = "process"',
                actual=f'device = "{home.device}", executor = "ray"',
                remedy="Change one of them: in config.toml, or the executor by --executor.",
            )
        load_ray(home.ray_address)
    return {"executor": executor}


async def play_role(
    config: PartyConfig, home: HomeConfig, name: str, offer: Offer, console: Console
) -> Document:
    """Agree with the operator on a seat of the task called `name`, and play it until the task is closed or
    the seat has left; returns which."""
    deployment, account = read_game_deployment(config.deployment), config.key.address.lower()
    async with open_game_chain(config.rpc_url, deployment) as chain:
        state = await read_state(chain, account)
        task, game = find_game(state, name)
        refuse_seat(task, game, account, offer, state.head_block + 1)
        if offer.weights is not None:
            spec = make_spec(state.task_terms[task], decode_training(state.texts[task]))
            refuse_broken(find_training_malformations(spec))
            limit_memory(config)
            store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
            await asyncio.to_thread(import_start, store, offer.weights, spec)
        if offer.role is SeatRole.SOLVER:
            training, count = decode_training(state.texts[task]), state.task_terms[task].parameter_count
            served_bytes = compute_dataset_bytes(training) + compute_start_bytes(training, count)
            for line in tell_solver(game.terms, count, served_bytes):
                console.say(line)
        wish = await agree_on_seat(chain, game, home, config.home / CONFIG_FILE, account, offer, console)
        run = resolve_name(ROLES[offer.role])
        is_closed = await with_company(run(config, task, wish), show_progress(chain, task, console))
    console.say(TASK_CLOSED if is_closed else SEAT_LEFT)
    return {"task": spell_id(task), "role": offer.role.name.lower(), "is_task_closed": is_closed}


def refuse_seat(task: bytes, game: LoggedGame, account: str, offer: Offer, block: int) -> None:
    """Raises InvalidInput where the task does not take the seat, so that the operator is not asked for it.
    block: the next one."""
    _refuse_closed(task, game)
    if find_seat(game, account) is not None:
        return
    try:
        require_joinable(game, JoinSeat(offer.role, _choose_stake(game, offer)), account, block)
    except GameRefusal as refusal:
        raise InvalidInput(
            what=f"the task does not take this seat ({refusal.name})",
            expected=refusal.expected,
            actual=refusal.actual,
            where=show_task(task),
            remedy=refusal.remedy,
        ) from refusal


def _refuse_closed(task: bytes, game: LoggedGame) -> None:
    if game.is_closed:
        raise InvalidInput(
            what="the task is closed",
            expected="a task that takes seats",
            actual="closed",
            where=show_task(task),
            remedy="Choose another task: `touchstone status` lists them.",
        )


def tell_solver(terms: GameTerms, count: int, served_bytes: int) -> Iterator[str]:
    """What a solver has to have: disk, and where `respond` is short, speed. served_bytes: of the dataset and
    of given weights."""
    disk_bytes = compute_disk_bytes(terms, count, served_bytes)
    yield f"a solver takes up to {disk_bytes / 1e6:,.0f} MB of disk"
    respond, train_min = terms.windows.respond, terms.windows.train_min
    if respond < train_min:
        yield (
            "WARNING: an answer in a dispute on an older round may take the training of that round again. It "
            f"has {respond} blocks (respond), a round {train_min} (train_min): join only with a machine that "
            f"trains a whole round in less than {respond} blocks, or silence can cost the stake"
        )


def tell_format(terms: GameTerms) -> Iterator[str]:
    """What a member of an exact task has to know before it stakes."""
    if terms.is_exact:
        yield (
            "an exact task: a result counts only with the bits that every other machine gets. Such tasks are "
            "new: lock only what you can lose"
        )


async def agree_on_seat(
    chain: GameChain,
    game: LoggedGame,
    home: HomeConfig,
    path: Path,
    account: str,
    offer: Offer,
    console: Console,
) -> SeatWish:
    """The seat that the operator agrees to take, and the figures by which the node judges the task again.
    path: of the configuration. Raises InvalidInput where the task could hurt, where the money is not there,
    or where the operator does not agree."""
    figures = read_figures(home.economics, game.terms, path)
    seat = find_seat(game, account)
    if seat is not None:
        _refuse_other_role(seat, offer.role)
        console.say(f"going on as {show_seat(seat)}")
        return SeatWish(seat.role)
    await require_coin(chain, account)
    limits = LIMITS[home.limits]
    refuse_other_limits(chain.limits, limits)
    refuse_bad_terms(game.terms, limits, REMEDY)
    refuse_bad_money(game.terms, figures, console, f"{REMEDY} Or judge it by other figures: [economics].")
    stake_wei = _choose_stake(game, offer)
    await require_tokens(chain, account, stake_wei)
    line = (
        f"a seat as {offer.role.name.lower()} locks {format_tokens(stake_wei)} until you leave (`touchstone "
        "leave`) or the task is over, and for some time after; a fault that is proven costs all of it"
    )
    lines = [line, *tell_format(game.terms), *_tell_company(game)]
    require_agreement(console, lines, "Lock it?", offer.is_agreed)
    return SeatWish(offer.role, stake_wei, figures)


def _choose_stake(game: LoggedGame, offer: Offer) -> int:
    least_wei = get_required_stake(game, offer.role)
    if 0 < offer.stake_wei < least_wei:
        raise InvalidInput(
            what="the stake is too small for this seat",
            expected=f"at least {format_tokens(least_wei)}",
            actual=format_tokens(offer.stake_wei),
            remedy="Leave --stake out to bring what the task asks for.",
        )
    return offer.stake_wei or least_wei


def _refuse_other_role(seat: Seat, role: SeatRole) -> None:
    if seat.role != role:
        raise InvalidInput(
            what="this account has a seat of another role in the task",
            expected=role.name.lower(),
            actual=show_seat(seat),
            remedy="Start the command of that role, or use the home of another account.",
        )


def _tell_company(game: LoggedGame) -> list[str]:
    missing = tell_missing(game)
    return [f"before you join, the task lacks {missing}: its rounds wait for them"] if missing else []


async def with_company(work: Coroutine[Any, Any, Result], company: Coroutine[Any, Any, None]) -> Result:
    """What `work` comes to, with `company` beside it: that ends with it, and its failure is of no weight."""
    beside = asyncio.create_task(company)
    try:
        return await work
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


def open_config(options: argparse.Namespace, console: Console) -> PartyConfig:
    """The party of the home folder in `options`, its key unlocked."""
    config = read_config(options.home)
    return PartyConfig(
        home=options.home,
        deployment=Path(config.deployment),
        rpc_url=config.rpc_url,
        key=unlock_key(options.home, options.password_file),
        listen_host=config.listen_host,
        listen_port=config.listen_port,
        public_url=config.public_url,
        threads=config.threads,
        device=config.device,
        memory_mb=config.memory_mb,
        dataset_cache_mb=config.dataset_cache_mb,
        whole_dataset=config.whole_dataset,
        replay_processes=config.replay_processes,
        executor=config.executor,
        ray_address=config.ray_address,
        object_storage=config.object_storage,
        metrics_host=config.metrics_host,
        metrics_port=config.metrics_port,
        say=console.say,
    )
