"""`touchstone export`: writes the trained model of a task."""

from pathlib import Path

from touchstone.node.exports import export
from touchstone.node.exports.model_note import CONFIG_NAME
from touchstone.node.kit.config import NodeConfig
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.scripts.account.task_names import find_game, read_state
from touchstone.scripts.documents.document_fields import format_id
from touchstone.scripts.documents.model_documents import ExportDocument


async def export_model(
    config: NodeConfig, name: str, out: Path, tokenizer: Path | None = None
) -> ExportDocument:
    """Writes the newest model of the task called `name` to `out`. Raises as `export.run` does."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        task, _ = find_game(await read_state(chain), name)
    choice = await export.run(config, task, out, tokenizer)
    if (out / CONFIG_NAME).is_file():
        config.notify(
            f"Next: touchstone eval {out} --dataset FOLDER, or touchstone sample {out} --prompt TEXT"
        )
    else:
        config.notify(
            f"Next: touchstone eval {out} --step STEP --dataset FOLDER, or load_state_dict in Python"
        )
    return ExportDocument(format_id(task), str(out), format_id(choice.root), choice.after + 1)
