"""`touchstone sample`: writes how a model continues a prompt."""

import sys
from itertools import islice
from pathlib import Path

from touchstone.node.exports.model_note import CONFIG_NAME
from touchstone.node.exports.model_use import Taste, generate
from touchstone.node.exports.published_model import read_published
from touchstone.scripts.documents.model_documents import SampleDocument
from touchstone.scripts.models.model_texts import open_tokens, refuse_input


def sample_text(folder: Path, prompt: str, count: int, taste: Taste) -> SampleDocument:
    """Writes the prompt and the tokens with which a folder's model continues it."""
    if folder.is_dir() and not (folder / CONFIG_NAME).is_file():
        expected = "a model of transformers; a module of your own takes the tensors by load_state_dict"
        raise refuse_input("a folder without config.json", expected, str(folder))
    model = read_published(folder, with_weights=True)
    tokens = open_tokens(folder, model)
    (given,) = tokens.encode([prompt])
    found = [*given, *islice(generate(model, list(given), taste), count)]
    text = show_text(tokens.decode(found))
    sys.stdout.write(text + "\n")
    return SampleDocument(text)


def show_text(text: str) -> str:
    """Returns a model's text without control characters, which could steer the terminal."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)
