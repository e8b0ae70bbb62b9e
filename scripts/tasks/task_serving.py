"""`touchstone task serve`: serves an own task again, after its node was stopped."""

from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.upkeep import last_model
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.account.task_names import find_game, show_task
from touchstone.scripts.command_line.command_results import Put, ignore
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.progress import show_progress, with_company
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.documents.posting_documents import TaskServeDocument
from touchstone.scripts.roles.role_nodes import Submitter


async def serve_task(config: NodeConfig, name: str, console: Console, put: Put = ignore) -> None:
    """Serves the task of this account called `name` to its end. `put` receives the document. Raises
    InvalidInput if no task or several have this name, if another account submitted it, or if it is
    closed."""
    async with open_node(config, Submitter) as node:
        await node.following.take_next()
        task, game = find_game(node.state, name)
        if game.is_closed or game.terms.submitter != node.account:
            raise InvalidInput(
                what="the task cannot be served by this account",
                expected=f"an open task of {node.account}",
                actual="closed" if game.is_closed else f"a task of {game.terms.submitter}",
                where=show_task(task),
                remedy="Name a task of your own that is open: touchstone status lists them.",
            )
        console.notify(f"serving {show_task(task)} to the end. Ctrl-C stops the serving, not the task")
        put(TaskServeDocument(format_id(task), node.account))
        await follow_task(node, task, console)


async def follow_task(node: Node, task: bytes, console: Console) -> None:
    """Serves a task to its end, and shows how it goes on."""
    await with_company(_follow(node, task, console), show_progress(node.chain, task, console))


async def _follow(node: Node, task: bytes, console: Console) -> None:
    """Serves the task to its end, sends upkeep calls that no other node sends, including the close, and keeps
    the last model."""
    await node.work_on(task)
    for lacking in last_model.list_duties(node.get_view(), node.state.head_block):
        console.notify(f"no node served {lacking.choice} in time: solvers and whistleblowers have it")
    console.notify("the task is closed; the rest of its escrow is credit: touchstone withdraw")
