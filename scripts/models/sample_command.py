"""`touchstone sample`: what a model goes on with after a prompt."""

import argparse
import sys
from itertools import islice

from touchstone.node.exports.model_note import CONFIG_NAME
from touchstone.node.exports.model_use import Taste, generate
from touchstone.node.exports.published_model import read_published
from touchstone.scripts.command_line.command_results import Document
from touchstone.scripts.models.model_texts import open_tokens, refuse_input


def run_sample(options: argparse.Namespace) -> Document:
    """Write the prompt and what the model goes on with."""
    if options.model.is_dir() and not (options.model / CONFIG_NAME).is_file():
        expected = "a model of transformers; a module of your own takes the tensors by load_state_dict"
        raise refuse_input("a folder without config.json", expected, str(options.model))
    model = read_published(options.model, with_weights=True)
    tokens = open_tokens(options.model, model)
    taste = Taste(options.temperature, options.top_k, options.seed)
    (prompt,) = tokens.encode([options.prompt])
    found = [*prompt, *islice(generate(model, list(prompt), taste), options.tokens)]
    text = show_text(tokens.decode(found))
    sys.stdout.write(text + "\n")
    return {"text": text}


def show_text(text: str) -> str:
    """A model's text without control characters: they could steer the terminal."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)
