"""`touchstone task create`: posts a task.

It serves the task's dataset, and its starting weights, until the task is closed.
"""

import asyncio
import secrets
from collections.abc import Sequence

from touchstone.node.joining.task_reading import compute_task_bytes
from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop.opening import open_node
from touchstone.node.submit import build_task, post_task, refuse_bad_task
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.files.mapped_files import map_file
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.economics.money_rules import MoneyRule
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.posted_terms import PostedTerms
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.requirements import require_agreement, require_coin, require_tokens
from touchstone.scripts.account.task_names import show_task
from touchstone.scripts.command_line.command_results import Put, ignore
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.json_log import note_facts
from touchstone.scripts.data.packed_dataset import NOTE_NAME
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.documents.posting_documents import TaskCreateDocument
from touchstone.scripts.home.home_config import read_config
from touchstone.scripts.roles.role_nodes import Submitter
from touchstone.scripts.tasks.task_file import TaskFile, sketch_terms
from touchstone.scripts.tasks.task_serving import follow_task
from touchstone.scripts.tasks.task_sizes import compute_disk_bytes
from touchstone.scripts.tasks.terms_checks import refuse_bad_money, refuse_bad_terms
from touchstone.scripts.tasks.trial_training import describe_trial, try_training

REMEDY = "Correct the task file."


def justify(file: TaskFile, bounds: DeploymentBounds, console: Console) -> Sequence[MoneyRule]:
    """Shows and returns why each amount is what it is. Raises InvalidInput, naming the key of a number, a
    window or an amount under which nodes would not stake: the deployment's bounds refuse it, cheating would
    pay, or honest work would not."""
    terms = sketch_terms(file.plan)
    refuse_bad_terms(terms, bounds, REMEDY)
    remedy = f'{REMEDY} `amounts = "derived"` finds the least.'
    rules, least_wei = refuse_bad_money(terms, file.figures, console, remedy), bounds.least_bond_wei
    bonds = [rule for rule in rules if rule.name.endswith("_bond")]
    raised = [rule.name for rule in bonds if rule.amount == least_wei > rule.least]
    if raised:
        least = f"{format_tokens(least_wei)}, the least that deployments of preset {bounds.name} take"
        console.notify(f"{', '.join(raised)}: {least}. An account that asks or disputes wrongly loses it")
    return rules


async def require_own_coin(config: NodeConfig) -> None:
    """Raises InvalidInput if the account cannot even pay for announcing its endpoint, or the contracts are
    not those of this version."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        await require_coin(chain, config.key.address)
        await chain.require_own_contracts()


async def create_task(
    config: NodeConfig, file: TaskFile, console: Console, *, is_agreed: bool, put: Put = ignore
) -> None:
    """Judges a task, posts it with the operator's agreement, and serves it to its end. `put` receives the
    document of the posted task."""
    await require_own_coin(config)
    justify(file, BOUNDS[read_config(config.home).preset], console)
    console.notify(describe_trial(await asyncio.to_thread(try_training, file)))
    dataset, salt = map_file(file.dataset), secrets.token_bytes(32)
    async with open_node(config, Submitter) as node:
        refuse_bad_terms(sketch_terms(file.plan), node.chain.bounds, REMEDY)
        # Into a file, if `memory_mb` says so.
        start = None if file.weights is None else await asyncio.to_thread(file.weights.read)
        terms, training = await asyncio.to_thread(build_task, file.plan, dataset, node.account, salt, start)
        refuse_other_root(file, training.dataset_root)
        escrow_wei = await asyncio.to_thread(refuse_bad_task, node.chain, terms, training)
        costs = await asyncio.to_thread(measure_costs, get_program(training).program)
        _notify_price(file, terms, escrow_wei, compute_task_bytes(training, costs), console)
        await require_tokens(node.chain, node.account, escrow_wei)
        require_agreement(console, [], "Post it?", is_agreed)
        task = await post_task(node.chain, node.store, terms, training, dataset, start)
        note_facts(task=format_id(task))
        console.notify(
            f"posted 0x{task.hex()}; serving {_describe_served(file)} to the end. Ctrl-C stops the serving; "
            f"touchstone task serve {show_task(task)} goes on. This command again posts another task"
        )
        console.notify(_describe_next(file, task))
        put(TaskCreateDocument(format_id(task), node.account, str(escrow_wei)))
        del start  # The store has it now.
        await follow_task(node, task, console)


def _describe_next(file: TaskFile, task: bytes) -> str:
    """Describes who must come before the task's first round opens, and with which commands."""
    terms = sketch_terms(file.plan)
    seats = {
        "solver": terms.least_solvers,
        "verifier": terms.least_verifiers,
        "whistleblower": terms.least_whistleblowers,
    }
    words = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in seats.items() if count)
    commands = ", ".join(f"{command} {show_task(task)}" for command in ("solve", "verify", "watch"))
    return f"Next, by at least {words}, each with a home of its own: touchstone {commands}"


def _describe_served(file: TaskFile) -> str:
    return "its dataset" if file.weights is None else "its dataset and its first weights"


def refuse_other_root(file: TaskFile, root: bytes) -> None:
    """Raises InvalidInput if the tokens are not those that were packed."""
    note = file.packed.note
    if note is not None and note.root != root.hex():
        raise InvalidInput(
            what="the tokens are not those that were packed",
            expected=f"root {note.root}, as its {NOTE_NAME} says",
            actual=root.hex(),
            where=str(file.dataset),
            remedy="Pack the dataset again with `touchstone data pack`.",
        )


def _notify_price(
    file: TaskFile, terms: PostedTerms, escrow_wei: int, task_bytes: int, console: Console
) -> None:
    count = terms.parameter_count
    disk_bytes = compute_disk_bytes(sketch_terms(file.plan), count, task_bytes)
    console.notify(f"{count:,} parameters, {terms.rounds} rounds, computed in {file.plan.numeric_format}")
    notify_cost(escrow_wei, console)
    console.notify(f"each solver needs up to {disk_bytes / 1e6:,.0f} MB of disk")


def notify_cost(escrow_wei: int, console: Console) -> None:
    """Tells the operator what a task costs."""
    console.notify(f"it costs at most {format_tokens(escrow_wei)} (what is not earned comes back)")
