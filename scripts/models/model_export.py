"""`touchstone export`: writes the trained model of a task."""

from pathlib import Path

from touchstone.node.exports import export
from touchstone.node.exports.model_note import CONFIG_NAME
from touchstone.node.kit.config import PartyConfig
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.scripts.account.task_names import find_game, read_state
from touchstone.scripts.command_line.command_results import Document, spell_id


async def export_model(config: PartyConfig, name: str, out: Path, tokenizer: Path | None = None) -> Document:
    """Write the newest model of the task called `name` to `out`; raises as `export.run` does."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        task, _ = find_game(await read_state(chain), name)
    choice = await export.run(config, task, out, tokenizer)
    if (out / CONFIG_NAME).is_file():
        config.say(f"Next: touchstone eval {out} --dataset FOLDER, or touchstone sample {out} --prompt TEXT")
    else:
        config.say(f"Next: touchstone eval {out} --step STEP --dataset FOLDER, or load_state_dict in Python")
    facts = {"task": spell_id(task), "folder": str(out), "outer_root": spell_id(choice.root)}
    return facts | {"rounds_trained": choice.after + 1}
