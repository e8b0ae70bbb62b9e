"""A tokenizer.json of Hugging Face's `tokenizers` for tasks whose tokens are the bytes of texts.

The library maps each byte to a printable character, and its model knows these 256 characters alone.
"""

import json
from itertools import count

PRINTABLE = (*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""The bytes that stand for the character of the same number, as in GPT-2's tokenizer. The others get
characters from 256 on, in order."""
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def make_byte_tokenizer() -> bytes:
    """Returns a tokenizer.json for which each byte of UTF-8 is the token of the same number."""
    others = count(256)
    characters = [chr(one if one in PRINTABLE else next(others)) for one in range(256)]
    model = {"type": "BPE", "vocab": {name: number for number, name in enumerate(characters)}, "merges": []}
    content: dict[str, object] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL, "post_processor": None, "decoder": BYTE_LEVEL, "model": model,
    }  # fmt: skip
    return json.dumps(content, indent=1).encode() + b"\n"
